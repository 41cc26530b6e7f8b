"""What is uneven: a partition that gets most, a member that reads too slowly, a member with most of the partitions."""

from __future__ import annotations

from random import Random

import pytest

from group_coordinator.coordinating.assignors import ASSIGNORS, MemberSubscription, TopicMetadata
from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.rows import group_row
from group_coordinator.watching.dashboard.settings import HealthSettings
from schemas.consumer_protocol import Assignment, Subscription, encode_assignment
from tests.coordinator_state.harness import GroupHarness, subscription
from tests.watching.dashboard.lives import HOUR, MINUTE, POLL_MS, START_MS, Life, Plan, facts_of, live, steady

SETTINGS = HealthSettings()


def found(life: Life, until_ms: int, from_ms: int = 0) -> list[tuple[int, Group]]:
    return [(at_ms, row) for at_ms, row in live(life, until_ms, SETTINGS, from_ms) if row.findings]


def test_a_partition_that_gets_more_than_is_read_is_found_within_two_minutes() -> None:
    life = Life(Plan(name="hot", traffic=steady(3), members=4, reads_per_s=30), Random(1))
    assert found(life, HOUR) == []
    life.first_gets = 40
    rows = found(life, HOUR + 5 * MINUTE, HOUR)
    at_ms, row = rows[0]
    assert at_ms <= HOUR + 2 * MINUTE
    (finding,) = row.findings
    assert (row.verdict, finding.kind, finding.partition, finding.member_id) == ("uneven", "hot_partition", 0, "m0.1")
    assert finding.since_ms is not None
    assert START_MS + HOUR <= finding.since_ms <= START_MS + at_ms - MINUTE
    assert row.reason.startswith(f"{finding.messages:,} of ")
    assert " messages that wait in t wait in partition 0, one of 4, and it is m0.1's" in row.reason
    assert len(rows) == (HOUR + 5 * MINUTE - at_ms) // POLL_MS
    life.first_gets = 0
    calm = found(life, 2 * HOUR, HOUR + 5 * MINUTE)
    assert len(calm) <= 3 * MINUTE // POLL_MS, "it gets nothing now"


def test_a_member_that_reads_less_than_comes_is_told_apart_from_its_partitions() -> None:
    life = Life(Plan(name="slow", traffic=steady(20), members=3), Random(1))
    assert found(life, HOUR) == []
    life.reads_per_s[2] = 5
    at_ms, row = found(life, HOUR + 5 * MINUTE, HOUR)[0]
    assert at_ms <= HOUR + 2 * MINUTE
    assert (row.verdict, row.member, row.findings[0].partition) == ("uneven", "m2", 2)


def owning(protocol_name: str, topics: dict[str, int], members: int, *, same: bool = True) -> Group:
    """Return the row of a group a minute after Kafka's assignor has parted the topics, of so many partitions each."""
    asked = {f"m{number}": tuple(topics) if same or number == 0 else (min(topics),) for number in range(members)}
    group = GroupHarness("g", now_ms=START_MS)
    protocols = {each: {"protocols": {"range": subscription(*topics)}} for each, topics in asked.items()}
    generation_id = group.stable(*asked, protocols={"range": subscription(*topics)}) + 1
    for each, fields in protocols.items():
        group.join(each, **fields)
    parted = ASSIGNORS[protocol_name].assign(
        {topic: TopicMetadata(partition_count=count) for topic, count in topics.items()},
        [MemberSubscription(member_id=each, subscription=Subscription(topics=asks)) for each, asks in asked.items()],
    )
    plan = {each: encode_assignment(Assignment(partitions=tuple(owned))) for each, owned in parted.items()}
    for each in reversed(asked):
        group.sync(each, generation_id, plan)
    ends = EndOffsets()
    ends.poll(group.now_ms + MINUTE, {(topic, 0): Bounds(0, 0) for topic in topics})
    return group_row(facts_of(group), ends, group.now_ms + MINUTE, SETTINGS)


@pytest.mark.parametrize(
    ("topics", "members"), [(dict.fromkeys("abcdefgh", 1), 3), (dict.fromkeys("abcdefghi", 1), 2)]
)
def test_what_other_assignors_would_give_is_what_they_give(topics: dict[str, int], members: int) -> None:
    row = owning("range", topics, members)
    (finding,) = row.findings
    assert (row.verdict, finding.kind, finding.member_id) == ("uneven", "member_has_most", "m0")
    share = len(topics) // members
    each = f"{share} or {share + 1}" if len(topics) % members else str(share)
    assert row.reason == (
        f"m0 has {len(topics)} of {len(topics)} partitions, and there are {members} members: round robin, sticky or "
        f"cooperative sticky would give each {each}"
    )
    for name in ("roundrobin", "sticky", "cooperative-sticky"):
        assert owning(name, topics, members).verdict == "stable"


def test_members_that_ask_for_other_topics_and_ordinary_shares_are_even() -> None:
    assert owning("range", {f"t{number}": 1 for number in range(8)}, 2, same=False).verdict == "stable"
    assert owning("range", {f"t{number}": 3 for number in range(4)}, 2).verdict == "stable"
    assert owning("range", {"t": 2}, 2).verdict == "stable"
