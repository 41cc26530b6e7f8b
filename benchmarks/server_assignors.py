"""How long the server-side assignors take, from 100 members with 1,000 partitions to 2,000 with 100,000.

    python -m benchmarks.server_assignors [--jvm] [--quick] [--runs 2] [--write] [--json FILE]

The groups and moments are those of `benchmarks.assignors`, and so is what is printed. With `--jvm` the assignors of
Kafka's coordinator get the same members, in the same order, and must come to the same target assignments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import md5
from time import thread_time
from uuid import UUID
from zlib import crc32

from msgspec.structs import replace

from benchmarks.arguments import command_parser
from benchmarks.assignors import PARTITIONS_PER_TOPIC, SLOW_MS, Figures, member_id_of, run_command
from coordinator_state.consumer.assignors import (
    SERVER_ASSIGNORS,
    AssignorGroup,
    AssignorMember,
    AssignorTopic,
    GroupAssignment,
    ServerAssignor,
    SubscriptionType,
)
from coordinator_state.consumer.assignors.java_order import copied_set_order, topic_id_hash

SIZES = ((100, 1_000), (1_000, 10_000), (1_000, 100_000), (2_000, 100_000))


def measure_all(sizes: Sequence[tuple[int, int]], runs: int) -> Iterator[Figures]:
    for assignor in SERVER_ASSIGNORS.values():
        for kind in ("same", "mixed"):
            for members, partitions in sizes:
                yield measure(assignor, kind, members, partitions, runs)


def measure(assignor: ServerAssignor, kind: str, members: int, partitions: int, runs: int) -> Figures:
    """The first target assignment, and the one after a member was replaced."""
    topic_ids = [_topic_id(number) for number in range(partitions // PARTITIONS_PER_TOPIC)]
    topics = {topic_id: AssignorTopic(PARTITIONS_PER_TOPIC) for topic_id in topic_ids}
    subscription_type = SubscriptionType.HOMOGENEOUS if kind == "same" else SubscriptionType.HETEROGENEOUS
    everyone = [_member(number, topic_ids, kind) for number in range(members + 1)]
    first_ms, first = _best_of(runs, assignor, AssignorGroup(tuple(everyone[:-1]), topics, subscription_type))
    rejoined = [replace(member, target=first.get(member.member_id, ())) for member in everyone[1:]]
    change_ms, second = _best_of(runs, assignor, AssignorGroup(tuple(rejoined), topics, subscription_type))
    return Figures(
        name=assignor.name,
        kind=kind,
        members=members,
        partitions=partitions,
        first_ms=first_ms,
        change_ms=change_ms,
        checksums=(checksum(first), checksum(second)),
    )


def checksum(assignment: GroupAssignment) -> int:
    """Return the checksum of all partitions of all members, ascending."""
    result = 0
    for member_id in sorted(assignment):
        names = [
            f" {topic_id}-{partition}" for topic_id, partitions in sorted(assignment[member_id])
            for partition in sorted(partitions)
        ]  # fmt: skip
        result = crc32(f"{member_id}{''.join(names)}\n".encode(), result)
    return result


def _member(number: int, topic_ids: Sequence[str], kind: str) -> AssignorMember:
    subscribed = list(topic_ids)
    if kind == "mixed":
        start = number * 7919 % len(subscribed)
        subscribed = sorted((subscribed + subscribed)[start : start + len(topic_ids) // 2])
    return AssignorMember(member_id_of(number), tuple(copied_set_order(subscribed, topic_id_hash)))


def _topic_id(number: int) -> str:
    return str(UUID(bytes=md5(f"topic-{number:05}".encode()).digest(), version=3))


def _best_of(runs: int, assignor: ServerAssignor, group: AssignorGroup) -> tuple[float, GroupAssignment]:
    best_ms = float("inf")
    for run in range(runs):
        if run and best_ms > SLOW_MS:
            break
        start = thread_time()
        assignment = assignor.assign(group)
        best_ms = min(best_ms, (thread_time() - start) * 1_000)
    return best_ms, assignment


if __name__ == "__main__":
    command = command_parser("server_assignors", __doc__)
    command.add_argument("--jvm", action="store_true", help="run the assignors of Kafka's coordinator, too")
    run_command(command, SIZES, measure_all, "ServerAssignorBenchmark")
