"""`make beside-kafka HISTORIES=200 SEED=N KAFKA=4.3.1`: random histories of both protocols, played with Kafka's own
classes and with our core. Prints the first difference of each and what led to it, and keeps the history."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.jvm import JvmError
from tests.beside_kafka.kafka import kafka_coordinator
from tests.beside_kafka.playing import first_difference, random_history
from tests.beside_kafka.report import lines_of


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.beside_kafka", description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="where the seeds begin (default: the time)")
    parser.add_argument(
        "--kafka", default="", metavar="VERSION", help="whose classes, as 4.3.1 (default: those of the embedded broker)"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="beside-kafka-"))
    try:
        differing = play(range(options.seed, options.seed + options.histories), folder, options.kafka)
    except JvmError as problem:
        sys.exit(str(problem))
    print(f"{options.histories} histories from seed {options.seed} on: {differing} with a difference")
    sys.exit(1 if differing else 0)


def play(seeds: range, folder: Path, version: str) -> int:
    """Return how many histories had a difference. They stay in the folder."""
    differing = 0
    with kafka_coordinator(version) as kafka:
        for seed in seeds:
            history, path = random_history(kafka, seed), folder / f"seed-{seed}.jsonl"
            difference = first_difference(history, path, kafka.rules)
            if difference is None:
                path.unlink()
                continue
            differing += 1
            print("\n".join(lines_of(history, difference)))
            print(f"again: python -m tests.verify_history --kafka {kafka.rules} {path}\n", flush=True)
    if not differing:
        folder.rmdir()
    return differing


if __name__ == "__main__":
    main()
