"""`make record-clusters VERSIONS=3.4,4.0`: play one story on real brokers of each version, and hold what we tell of it
against what an admin client saw and what the driver did. With `--judge` recordings that are there are judged again."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from group_coordinator.coordinating.jars.java import JavaError
from group_coordinator.coordinating.jars.resolving import JarsError
from tests.clusters.judging import verdict
from tests.clusters.recorder import record
from tests.clusters.story import STORY, steps
from tests.clusters.versions import VERSIONS, Version, versions


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.clusters", description=__doc__)
    parser.add_argument("--versions", default="", help=f"of {', '.join(VERSIONS)} (default: all)")
    parser.add_argument("--story", type=Path, default=STORY, help=f"a file (default: {STORY.name})")
    parser.add_argument("--seed", type=int, default=0, help="of another life of the story (default: as it is written)")
    parser.add_argument("--keep", type=Path, help="directory of the recordings (default: a temporary one)")
    parser.add_argument("--only-record", action="store_true", help="judge nothing")
    parser.add_argument("--judge", type=Path, nargs="+", default=[], metavar="DIRECTORY/NAME", help="record nothing")
    options = parser.parse_args()
    if options.judge:
        return _tell(options.judge)
    with tempfile.TemporaryDirectory(prefix="recordings-") as temporary:
        directory = options.keep or Path(temporary)
        for version in versions(options.versions):
            stem = _recorded(version, options.story, options.seed, directory)
            if stem is not None and not options.only_record:
                _tell([stem])


def _recorded(version: Version, story: Path, seed: int, directory: Path) -> Path | None:
    try:
        version.jars()
    except (JarsError, JavaError) as problem:
        print(f"{version.text}: skipped. {problem}", file=sys.stderr)
        return None
    name = f"{story.stem}-{version.text}" + (f"-{seed}" if seed else "")
    record(version, steps(story, version, seed), directory / version.text, name)
    print(f"{version.text}: recorded", flush=True)
    return directory / version.text / name


def _tell(stems: Sequence[Path]) -> None:
    for stem in stems:
        for line in verdict(stem):
            print(line, flush=True)


if __name__ == "__main__":
    main()
