"""All benchmarks, one after the other: `make bench`, `make bench QUICK=1`, `make bench ARGS="query latency"`.

`latency` stands for all that measure how long a client waits.

Those that have a section in docs/performance.md write it, but for the quick ones. At the end stands how long they took.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from msgspec import Struct

from group_coordinator.coordinating.jars.java import SHORT_LIVED

ROOT = Path(__file__).parents[1]


class Benchmark(Struct, frozen=True):
    """The arguments of one module of this package."""

    quick: tuple[str, ...] | None
    """None: it has no quick form."""
    full: tuple[str, ...] = ("--write",)


BENCHMARKS = {
    "core": Benchmark(full=("--jvm", "--write"), quick=("--jvm", "--quick", "--runs", "1")),
    "assignors": Benchmark(full=("--jvm",), quick=("--quick", "--runs", "1")),
    "server_assignors": Benchmark(full=("--jvm", "--runs", "10"), quick=("--quick", "--runs", "1")),
    "query": Benchmark(quick=("--touched", "100", "--heartbeats", "2", "--batches", "1", "--rounds", "1", "--buckets")),
    "latency": Benchmark(quick=("--rates", "50", "--seconds", "3", "--rounds", "1", "--compiling", "1")),
    "gateway_latency": Benchmark(quick=("--rates", "50", "--seconds", "3", "--rounds", "1")),
    "gateway_joins": Benchmark(full=("--members", "20", "--write"), quick=("--members", "20", "--rounds", "1")),
    "gateway_transactions": Benchmark(full=(), quick=("--transactions", "20")),
    "responder_start": Benchmark(full=(), quick=("--groups", "100", "1000")),
    "batch_cost": Benchmark(full=(), quick=None),
    "idle_groups": Benchmark(quick=("--groups", "100", "5000", "--buckets", "0", "--batches", "5", "--rounds", "1")),
    "full_group": Benchmark(full=(), quick=("--batches", "5", "--rounds", "1")),
    "replay": Benchmark(quick=("--events", "60000", "--cores", "2", "--runs", "1", "--day-share", "0")),
    "scale_out": Benchmark(full=(), quick=None),
    "at_rest": Benchmark(quick=("--warm", "80", "--seconds", "10")),
    "partitions_raised": Benchmark(full=(), quick=("--members", "3", "--partitions", "10", "30", "--refresh-s", "10")),
    "attacks": Benchmark(full=(), quick=("a_tick_of_tomorrow", "dense_requests", "--after", "0")),
}

TOGETHER = {"latency": ("latency", "gateway_latency", "gateway_joins")}
"""These run where one of them is asked for."""


def run(name: str, arguments: tuple[str, ...]) -> float:
    """The seconds that it took. A process of its own: the heap of one must not slow the next."""
    print(f"\n== {name}", flush=True)
    begin = time.monotonic()
    result = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], cwd=ROOT, check=False)
    if result.returncode:
        sys.exit(result.returncode)
    return time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; all without")
    parser.add_argument(
        "--quick", action="store_true", help="a few minutes instead of half an hour, and nothing is written down"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no {unknown[0]}: {', '.join(BENCHMARKS)}")
    if arguments.quick:
        os.environ.setdefault("SPARK_SUBMIT_OPTS", shlex.join(SHORT_LIVED))
    seconds_by_name: dict[str, float] = {}
    asked = [each for name in arguments.names for each in TOGETHER.get(name, (name,))]
    for name in asked or BENCHMARKS:
        options = BENCHMARKS[name].quick if arguments.quick else BENCHMARKS[name].full
        if options is None:
            print(f"\n== {name}: only in a full run")
        else:
            seconds_by_name[name] = run(name, options)
    print("\n== seconds")
    for name, seconds in {**seconds_by_name, "all": sum(seconds_by_name.values())}.items():
        print(f"{name:18} {seconds:6.0f}")


if __name__ == "__main__":
    main()
