"""`make record-clusters VERSIONS=3.4,4.0`: play one story on real brokers of each version, and hold what we tell of it
against what an admin client saw and what the driver did."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from group_coordinator.jars.java import JavaError
from group_coordinator.jars.resolving import JarsError
from tests.clusters.recorder import record
from tests.clusters.story import STORY, steps
from tests.clusters.versions import VERSIONS, versions


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.clusters", description=__doc__)
    parser.add_argument("--versions", default="", help=f"of {', '.join(VERSIONS)} (default: all)")
    parser.add_argument("--story", type=Path, default=STORY)
    parser.add_argument("--keep", type=Path, required=True, help="directory of the recordings, one folder a version")
    options = parser.parse_args()
    for version in versions(options.versions):
        try:
            version.jars()
        except (JarsError, JavaError) as problem:
            print(f"{version.text}: skipped. {problem}", file=sys.stderr)
            continue
        name = f"story-{version.text}"
        record(version, steps(options.story, version), options.keep / version.text, name)
        print(f"{version.text}: recorded", flush=True)


if __name__ == "__main__":
    main()
