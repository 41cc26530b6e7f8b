"""Resolve the jars ahead of time, and print their class paths: `python -m group_coordinator.coordinating.jars
[spark|broker|tools ...]`."""

from __future__ import annotations

import os
import sys

from group_coordinator.coordinating.jars.resolving import CONFIGURATIONS, jars_of, resolve_jars, tools_jars


def main() -> None:
    """Print the class path of a configuration (`spark`, `broker`, `tools`), or just resolve when none is named."""
    names = sys.argv[1:]
    unknown = [name for name in names if name not in CONFIGURATIONS]
    if unknown:
        sys.exit(f"There is no configuration {unknown[0]!r}; there are {', '.join(CONFIGURATIONS)}.")
    try:
        directory = resolve_jars()
        paths = [jar for name in names for jar in (tools_jars() if name == "tools" else jars_of(name))]
    except RuntimeError as problem:
        sys.exit(str(problem))
    print(os.pathsep.join(map(str, paths)) if names else directory)


if __name__ == "__main__":
    main()
