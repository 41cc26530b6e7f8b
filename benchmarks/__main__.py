"""All benchmarks, one after the other: `make bench` (ARGS="core assignors" for some of them)."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ALL = ("core", "assignors", "idle_groups")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, []], default=list(ALL), help="which; all without")
    names = parser.parse_args().names or list(ALL)
    for name in names:
        print(f"\n== {name}", flush=True)
        # A process each: the heap of one must not slow the next.
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True, cwd=Path(__file__).parents[1])


if __name__ == "__main__":
    main()
