"""`make beside-kafka HISTORIES=200 SEED=N KAFKA=4.3.1`: random histories of both protocols, played with Kafka's own
classes and with our core. Prints the first difference of each and what led to it, and keeps the history.

With `--kept` it keeps all histories. `--feed FILE...` plays kept ones again with the classes of another version, and
prints what these decide otherwise."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.jvm import JvmError
from tests.beside_kafka.kafka import kafka_coordinator
from tests.beside_kafka.playing import first_change, first_difference, random_history
from tests.beside_kafka.report import lines_of


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.beside_kafka", description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="where the seeds begin (default: the time)")
    parser.add_argument(
        "--kafka", default="", metavar="VERSION", help="whose classes, as 4.3.1 (default: those of the embedded broker)"
    )
    parser.add_argument("--kept", type=Path, help="directory of all histories (default: of those with a difference)")
    parser.add_argument("--feed", type=Path, nargs="+", default=[], metavar="FILE", help="histories that were kept")
    options = parser.parse_args()
    try:
        if options.feed:
            differing, count, which = feed(options.feed, options.kafka), len(options.feed), "that were kept"
        else:
            seeds, count = range(options.seed, options.seed + options.histories), options.histories
            differing, which = play(seeds, options.kafka, options.kept), f"from seed {options.seed} on"
    except JvmError as problem:
        sys.exit(str(problem))
    print(f"{count} histories {which}: {differing} with a difference")
    sys.exit(1 if differing else 0)


def feed(paths: Sequence[Path], version: str) -> int:
    """Return how many histories the classes of a version decide otherwise than was recorded."""
    differing = 0
    with kafka_coordinator(version) as kafka:
        for history in (json.loads(path.read_text("utf-8")) for path in paths):
            difference = first_change(kafka, history)
            if difference is not None:
                differing += 1
                print("\n".join(lines_of(history, difference)), flush=True)
    return differing


def play(seeds: range, version: str, kept: Path | None = None) -> int:
    """Return how many histories had a difference. They are kept, or all are."""
    differing, folder = 0, kept or Path(tempfile.mkdtemp(prefix="beside-kafka-"))
    folder.mkdir(parents=True, exist_ok=True)
    with kafka_coordinator(version) as kafka:
        for seed in seeds:
            history, path = random_history(kafka, seed), folder / f"seed-{seed}.jsonl"
            difference = first_difference(history, path, kafka.rules)
            if difference is None:
                if kept is None:
                    path.unlink()
                continue
            differing += 1
            print("\n".join(lines_of(history, difference)))
            print(f"again: python -m tests.verify_history --kafka {kafka.rules} {path}\n", flush=True)
    if not any(folder.iterdir()):
        folder.rmdir()
    return differing


if __name__ == "__main__":
    main()
