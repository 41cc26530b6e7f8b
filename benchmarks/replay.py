"""How fast a log is replayed: by Spark in batch on one core and on two, and without Spark.

    python -m benchmarks.replay [--events 1000000] [--cores 1 2] [--runs 2] [--day-share 0.005] [--write]

The log is one partition of 1,000 groups of 10 members with a heartbeat every three seconds, as a Parquet file. Outputs
are made in full (an answer for each heartbeat) and handed to a sink that drops them. Time begins when Spark has
started. The replays take turns, `--runs` times, and the best of each figure counts; CPU seconds are those of all
processes.

`--day-share` replays a part of the log of a whole day (288 million heartbeats): so many of its groups, all day long.
Groups do not touch one another, so that the whole day is as many such parts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.arguments import command_parser
from benchmarks.day_log import HEARTBEATS_PER_DAY, write_log
from benchmarks.document import Printed
from benchmarks.process_times import cpu_times
from streaming.config import StreamingConfig
from streaming.event_log import read_records, records_of_files
from streaming.replay import replay_batch, replay_in_process
from streaming.session import open_session

GROUPS, MEMBERS = 1_000, 10
IN_PROCESS = 0
"""In place of a number of Spark's cores."""
ROOT = Path(__file__).parents[1]


class Spent(NamedTuple):
    """The time by the clock, and by the CPU in all processes."""

    seconds: float
    cpu_seconds: float


def replay(file: Path, cores: int) -> None:
    """One replay in this process; prints what it spent."""
    settings = StreamingConfig.load({"master": f"local[{max(cores, 1)}]"})
    if cores == IN_PROCESS:
        spend(lambda: deque(replay_in_process(read_records([file]), settings), maxlen=0))
        return
    spark = open_session(settings)
    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()  # a worker is there
    spend(lambda: replay_batch(records_of_files(spark, [file]), settings).write.format("noop").mode("overwrite").save())
    spark.stop()


def spend(work: Callable[[], object]) -> None:
    begin, before = time.perf_counter(), cpu_times(os.getpid())
    work()
    elapsed, cpu = time.perf_counter() - begin, cpu_times(os.getpid()).since(before)
    print(f"spent {elapsed:.2f} {sum(cpu) / 1_000:.2f}", flush=True)


def spent_on(file: Path, cores: int) -> Spent:
    """One replay in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.replay", "--cores", str(cores), "--file", str(file)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    seconds, cpu = result.stdout.split("spent ")[1].split()[:2]
    return Spent(float(seconds), float(cpu))


def best_of(runs: int, file: Path, all_cores: list[int]) -> dict[int, Spent]:
    """Return the best figures by the number of cores. All take turns: other users of the machine delay each alike."""
    spent_by_cores: dict[int, list[Spent]] = {cores: [] for cores in all_cores}
    for _ in range(runs):
        for cores, of_cores in spent_by_cores.items():
            of_cores.append(spent_on(file, cores))
    return {cores: Spent(*map(min, zip(*of_cores, strict=True))) for cores, of_cores in spent_by_cores.items()}


def measure(say: Printed, file: Path, events: int, all_cores: list[int], runs: int) -> None:
    """Each is compared with the first: by the clock, and by CPU time."""
    say(f"{events:,} events of {GROUPS:,} groups x {MEMBERS} members, {file.stat().st_size / 1e6:.0f} MB of Parquet")
    say(f"{'replay':<16} {'seconds':>8} {'events/s':>10} {'ratio':>6} {'CPU s':>7} {'events/CPU s':>13} {'ratio':>6}")
    spent = best_of(runs, file, [*all_cores, IN_PROCESS])
    first = spent[all_cores[0]]
    for cores, (seconds, cpu_seconds) in spent.items():
        name = "in process" if cores == IN_PROCESS else f"Spark, {cores} core{'s' * (cores > 1)}"
        faster, cheaper = first.seconds / seconds, first.cpu_seconds / cpu_seconds
        say(
            f"{name:<16} {seconds:8.1f} {events / seconds:10,.0f} {faster:6.2f} "
            f"{cpu_seconds:7.1f} {events / cpu_seconds:13,.0f} {cheaper:6.2f}"
        )


def measure_a_day(say: Printed, file: Path, share: float, cores: int) -> None:
    groups = round(GROUPS * share)
    heartbeats = groups * MEMBERS * HEARTBEATS_PER_DAY
    write_log(file, groups, MEMBERS, heartbeats)
    spent = spent_on(file, cores)
    say(
        f"\na whole day of {groups} groups x {MEMBERS} members, {heartbeats:,} heartbeats, Spark, {cores} cores: "
        f"{spent.seconds:.0f} s, {spent.cpu_seconds:.0f} CPU s, {heartbeats / spent.seconds:,.0f} heartbeats/s"
    )
    say(
        f"computed from it: {GROUPS:,} groups, {heartbeats * GROUPS // groups:,} heartbeats: "
        f"{spent.seconds * GROUPS / groups / 3_600:.1f} h"
    )


def main() -> None:
    parser = command_parser("replay", __doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--day-share", type=float, default=0.005, help="0: none of it")
    parser.add_argument("--runs", type=int, default=2, help="how often each is run")
    parser.add_argument("--write", action="store_true", help="write the section of docs/performance.md")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.file:
        replay(arguments.file, arguments.cores[0])
        return
    say = Printed()
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "events.parquet"
        events = write_log(file, GROUPS, MEMBERS, arguments.events - 2 * GROUPS * MEMBERS)
        measure(say, file, events, arguments.cores, arguments.runs)
        if arguments.day_share:
            measure_a_day(say, file, arguments.day_share, max(arguments.cores))
    if arguments.write:
        say.write_section("replay")


if __name__ == "__main__":
    main()
