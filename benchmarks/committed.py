"""The core's speed as it was when it was last committed: what the tests compare with, and warn about.

    python -m benchmarks.committed [--write]

Speeds are told as shares of a fixed loop of plain Python that runs beside them, so that they mean the same on another
machine: 0.5 is half as many events as rounds of the loop in the same CPU time. `committed.json` has them, and a
checksum of everything that the core puts out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import thread_time_ns
from zlib import crc32

import msgspec
from msgspec import Struct

from benchmarks.arguments import command_parser
from benchmarks.workloads import Workload, commits, heartbeats, joins, mixed, outputs_of, run_core
from schemas.events import encode_json

FILE = Path(__file__).with_name("committed.json")
SLOWER_THAN_COMMITTED = 1.5
"""A factor by which a busy machine rarely errs."""
_LOOP_ROUNDS = 2_000


class CommittedWorkload(Struct, kw_only=True):
    """The expected figures of one workload."""

    share: float
    """Events in the CPU time of one round of the loop."""
    outputs: int
    checksum: int
    """Of all outputs: answers, records, history, snapshots."""


class Committed(Struct, kw_only=True):
    """The contents of `committed.json`."""

    python: str
    """The version of Python that it was measured with; another one has other shares."""
    workloads: dict[str, CommittedWorkload]


def watched() -> list[Workload]:
    """Short workloads of each sort."""
    return [heartbeats(10, 500), joins(20), commits(1, 200), commits(100, 5), mixed(20, 1)]


def measure(workload: Workload, seconds: float = 0.15) -> CommittedWorkload:
    events = workload.events()
    spent_ns, event_ns, round_ns = 0.0, float("inf"), float("inf")
    while spent_ns < seconds * 1e9:
        core_ns, loop_ns = run_core(workload, events), _loop()
        spent_ns += core_ns + loop_ns
        event_ns = min(event_ns, core_ns / len(events))
        round_ns = min(round_ns, loop_ns / _LOOP_ROUNDS)
    outputs = outputs_of(workload)
    return CommittedWorkload(
        share=round_ns / event_ns, outputs=len(outputs), checksum=crc32(b"".join(map(encode_json, outputs)))
    )


def measure_all() -> Committed:
    return Committed(python=python_version(), workloads={workload.name: measure(workload) for workload in watched()})


def read() -> Committed:
    return msgspec.json.decode(FILE.read_bytes(), type=Committed)


def python_version() -> str:
    return ".".join(map(str, sys.version_info[:2]))


class _Account:
    def __init__(self) -> None:
        self.entries: dict[str, tuple[int, int]] = {}

    def book(self, name: str, amount: int) -> tuple[int, int]:
        count, total = self.entries.pop(name, (0, 0))
        self.entries[name] = booked = (count + 1, total + amount)
        return booked


def _loop() -> int:
    """Nanoseconds of CPU time of calls, dictionaries, tuples and text, much as the core has them. Never change it."""
    account, out = _Account(), []
    begin = thread_time_ns()
    for number in range(_LOOP_ROUNDS):
        count, total = account.book(f"entry-{number % 10}", number)
        if count > 3:
            out.append((count, total, number))
    return thread_time_ns() - begin


def main() -> None:
    parser = command_parser("committed", __doc__)
    parser.add_argument("--write", action="store_true", help="make what is measured now the committed figures")
    arguments = parser.parse_args()
    measured = measure_all()
    for name, workload in measured.workloads.items():
        print(f"{name:30}{workload.share:8.3f}  {workload.outputs:6} outputs  {workload.checksum:08x}")
    if arguments.write:
        FILE.write_bytes(msgspec.json.format(msgspec.json.encode(measured), indent=2) + b"\n")


if __name__ == "__main__":
    main()
