"""How long the assignors take, from 100 members with 1,000 partitions to 2,000 with 400,000, beside Kafka's in Java.

    python -m benchmarks.assignors [--jvm] [--quick] [--runs 2] [--json FILE]

Two kinds of groups: all members subscribe to all topics, or each to its own half of them ("mixed"). Two moments: the
first assignment, and the one after a member has left and another one has come. Printed are milliseconds of the
thread's CPU time, the best of several runs. With `--jvm` Kafka's assignors get the same input in the same run, and
must come to the same assignment; what they have not finished after `PATIENCE_SECONDS` is "stopped".
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from hashlib import md5
from pathlib import Path
from time import thread_time
from uuid import UUID
from zlib import crc32

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from benchmarks.arguments import command_parser
from benchmarks.jvm import JvmError, Mismatch, run_driver
from group_coordinator.coordinating.assignors import (
    ASSIGNORS,
    Assignor,
    GroupAssignment,
    MemberSubscription,
    TopicMetadata,
)
from schemas.consumer_protocol import Subscription

SIZES = ((100, 1_000), (200, 10_000), (500, 50_000), (1_000, 100_000), (2_000, 400_000))
PARTITIONS_PER_TOPIC = 100
GENERATION_ID = 7
SLOW_MS = 1_000
"""What takes longer is not repeated."""
PATIENCE_SECONDS = 25
"""After so much CPU time, Kafka's assignor is stopped, whatever size it is at."""


class Figures(Struct, kw_only=True):
    """One assignor, kind and size: milliseconds, and checksums of the two assignments."""

    name: str
    kind: str
    members: int
    partitions: int
    first_ms: float
    change_ms: float
    checksums: tuple[int, int]
    kafka_ms: tuple[float, float] | None = None
    stopped: bool = False
    """Kafka's was run, and not finished with this size or a smaller one."""

    @property
    def factors(self) -> tuple[float, float] | None:
        """Return the ratios of our times to Kafka's: first, and after a change."""
        return self.kafka_ms and (self.first_ms / self.kafka_ms[0], self.change_ms / self.kafka_ms[1])


def measure_all(sizes: Sequence[tuple[int, int]], runs: int) -> Iterator[Figures]:
    for assignor in ASSIGNORS.values():
        for kind in ("same", "mixed"):
            for members, partitions in sizes:
                yield measure(assignor, kind, members, partitions, runs)


def measure(assignor: Assignor, kind: str, members: int, partitions: int, runs: int) -> Figures:
    """The first assignment, and the one after a member was replaced."""
    topic_names = [f"topic-{number:05}" for number in range(partitions // PARTITIONS_PER_TOPIC)]
    topics = {name: TopicMetadata(partition_count=PARTITIONS_PER_TOPIC) for name in topic_names}
    group = [_member(number, topic_names, kind) for number in range(members + 1)]
    first_ms, first = _best_of(runs, assignor, topics, group[:-1])
    rejoined = [_with_claim(assignor, member, first) for member in group[1:-1]]
    change_ms, second = _best_of(runs, assignor, topics, [*rejoined, group[-1]])
    return Figures(
        name=assignor.name,
        kind=kind,
        members=members,
        partitions=partitions,
        first_ms=first_ms,
        change_ms=change_ms,
        checksums=(checksum(first), checksum(second)),
    )


def with_kafka(
    figures: list[Figures], sizes: Sequence[tuple[int, int]], runs: int, driver: str = "AssignorBenchmark"
) -> Iterator[Figures]:
    """Add Kafka's times.

    Raises `Mismatch` if Kafka's assignment is another one, `JvmError` if it cannot run.
    """
    arguments = [f"{members}x{partitions}" for members, partitions in sizes]
    lines: list[str] = []
    for figure in figures:
        if (figure.members, figure.partitions) == sizes[0]:
            lines = run_driver(driver, figure.name, figure.kind, str(runs), str(PATIENCE_SECONDS), *arguments)
        if not lines:
            yield replace(figure, stopped=True)
            continue
        first_ms, change_ms, *checksums = lines.pop(0).split()
        if tuple(map(int, checksums)) != figure.checksums:
            raise Mismatch(f"{figure.name}, {figure.kind}, {figure.members} members: Kafka's assignment is another one")
        yield replace(figure, kafka_ms=(float(first_ms), float(change_ms)))


def checksum(assignment: GroupAssignment) -> int:
    """Return the checksum of all partitions of all members, in their order."""
    result = 0
    for member_id in sorted(assignment):
        names = (f" {topic}-{partition}" for topic, partition in assignment[member_id])
        result = crc32(f"{member_id}{''.join(names)}\n".encode(), result)
    return result


def _member(number: int, topic_names: Sequence[str], kind: str) -> MemberSubscription:
    topics = tuple(topic_names)
    if kind == "mixed":
        # A different half for each member, and for each topic about half of the members.
        topic_count = len(topics) // 2
        start = number * 7919 % len(topics)
        topics = tuple(sorted((topics + topics)[start : start + topic_count]))
    return MemberSubscription(member_id=member_id_of(number), subscription=Subscription(topics=topics))


def member_id_of(number: int) -> str:
    """The client id and a UUID, as Kafka makes them."""
    name = f"consumer-{number:05}"
    return f"{name}-{UUID(bytes=md5(name.encode()).digest(), version=3)}"


def _with_claim(assignor: Assignor, member: MemberSubscription, assignment: GroupAssignment) -> MemberSubscription:
    owned = assignment[member.member_id]
    subscription = replace(
        member.subscription,
        user_data=assignor.subscription_user_data(owned, GENERATION_ID),
        owned_partitions=tuple(owned),
        generation_id=GENERATION_ID,
    )
    return replace(member, subscription=subscription)


def _best_of(
    runs: int, assignor: Assignor, topics: dict[str, TopicMetadata], members: Sequence[MemberSubscription]
) -> tuple[float, GroupAssignment]:
    best_ms = float("inf")
    for run in range(runs):
        if run and best_ms > SLOW_MS:
            break
        start = thread_time()
        assignment = assignor.assign(topics, members)
        best_ms = min(best_ms, (thread_time() - start) * 1_000)
    return best_ms, assignment


def show(figures: Figures) -> None:
    line = f"{figures.name:<20}{figures.kind:<8}{figures.members:>8,}{figures.partitions:>12,}"
    line += f"{figures.first_ms:>12,.1f}{figures.change_ms:>12,.1f}"
    if figures.kafka_ms is not None and figures.factors is not None:
        line += "".join(f"{value:>12,.1f}" for value in (*figures.kafka_ms, *figures.factors))
    elif figures.stopped:
        line += f"{'stopped':>12}"
    print(line, flush=True)


def run_command(
    parser: ArgumentParser,
    sizes: Sequence[tuple[int, int]],
    measure_sizes: Callable[[Sequence[tuple[int, int]], int], Iterator[Figures]],
    driver: str,
) -> None:
    """Run the command of a benchmark of assignors; `parser` knows the option `--jvm`."""
    parser.add_argument("--quick", action="store_true", help="only the two smallest sizes")
    parser.add_argument("--runs", type=int, default=2, help="of each, unless it takes longer than a second")
    parser.add_argument("--json", type=Path, help="write the figures there")
    arguments = parser.parse_args()
    sizes = sizes[:2] if arguments.quick else sizes
    figures = list(measure_sizes(sizes, arguments.runs))
    if arguments.jvm:
        try:
            figures = list(with_kafka(figures, sizes, arguments.runs, driver))
        except JvmError as problem:
            print(f"Kafka's assignors were not compared: {problem}")
    columns = ("first ms", "change ms", "Kafka first", "change", "factor", "change")
    print(f"{'assignor':<20}{'topics':<8}{'members':>8}{'partitions':>12}" + "".join(f"{name:>12}" for name in columns))
    for figure in figures:
        show(figure)
    if arguments.json:
        arguments.json.write_text(json.dumps(to_builtins(figures), indent=1) + "\n")


if __name__ == "__main__":
    command = command_parser("assignors", __doc__)
    command.add_argument("--jvm", action="store_true", help="run Kafka's assignors, too")
    run_command(command, SIZES, measure_all, "AssignorBenchmark")
