"""How long the assignors take, from 100 members with 1,000 partitions to 2,000 with 400,000.

    python -m benchmarks.assignors [--largest]

Two kinds of groups: all members subscribe to all topics, or each to its own half of them ("mixed"). Two moments: the
first assignment, and the one after a member has left and another one has come. Printed are milliseconds, the best
of three runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter

from msgspec.structs import replace

from coordinator_state.assignors import ASSIGNORS, Assignor, GroupAssignment, MemberSubscription, TopicMetadata
from schemas.consumer_protocol import Subscription

SIZES = ((100, 1_000), (200, 10_000), (500, 50_000), (1_000, 100_000), (2_000, 400_000))
PARTITIONS_PER_TOPIC = 100
GENERATION_ID = 7


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--largest", action="store_true", help="only the largest size, one run each")
    largest_only = arguments.parse_args().largest
    print(f"{'assignor':<20}{'subscriptions':<15}{'members':>8}{'partitions':>12}{'first ms':>11}{'change ms':>11}")
    for assignor in ASSIGNORS.values():
        for kind in ("same", "mixed"):
            for members, partitions in SIZES[-1:] if largest_only else SIZES:
                first, change = measure(assignor, kind, members, partitions, runs=1 if largest_only else 3)
                print(f"{assignor.name:<20}{kind:<15}{members:>8,}{partitions:>12,}{first:>11,.1f}{change:>11,.1f}")


def measure(assignor: Assignor, kind: str, members: int, partitions: int, *, runs: int) -> tuple[float, float]:
    """Milliseconds of the first assignment, and of the one after a member was replaced."""
    topic_names = [f"topic-{number:05}" for number in range(partitions // PARTITIONS_PER_TOPIC)]
    topics = {name: TopicMetadata(partition_count=PARTITIONS_PER_TOPIC) for name in topic_names}
    group = [_member(number, topic_names, kind) for number in range(members + 1)]
    first_ms, assignment = _best_of(runs, assignor, topics, group[:-1])
    rejoined = [_with_claim(assignor, member, assignment) for member in group[1:-1]]
    change_ms, _ = _best_of(runs, assignor, topics, [*rejoined, group[-1]])
    return first_ms, change_ms


def _member(number: int, topic_names: Sequence[str], kind: str) -> MemberSubscription:
    topics = tuple(topic_names)
    if kind == "mixed":
        # A different half for each member, and for each topic about half of the members.
        wanted = len(topics) // 2
        start = number * 7919 % len(topics)
        topics = tuple(sorted((topics + topics)[start : start + wanted]))
    member_id = f"consumer-{number:05}-0c12826c-2d72-476c-85a6-{number:012}"
    return MemberSubscription(member_id=member_id, subscription=Subscription(topics=topics))


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
    best = float("inf")
    for _ in range(runs):
        start = perf_counter()
        assignment = assignor.assign(topics, members)
        best = min(best, (perf_counter() - start) * 1_000)
    return best, assignment


if __name__ == "__main__":
    main()
