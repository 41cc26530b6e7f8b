"""`group_consumer_hash_order`: who is assigned what is a broker's choice, to the last partition."""

from __future__ import annotations

import json
from collections.abc import Iterator

from schemas.consumer_group_messages import LEAVE_EPOCH
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from tests.coordinator_state.consumer.assignors.vectors import Shares, Vector, read_fixture, shares, topic_id
from tests.coordinator_state.consumer.harness import ConsumerHarness


def histories() -> list[Vector]:
    """Groups of Kafka's own machine, whose members come and go."""
    return [json.loads(line) for line in read_fixture("server_uniform_histories_4_3_1.jsonl.xz").splitlines()[1:]]


def targets(history: Vector, *, hash_order: bool) -> Iterator[Shares]:
    """The targets after each step. A member joins, or one leaves and the one that is longest in the group beats."""
    group = ConsumerHarness(group_consumer_hash_order=hash_order, group_consumer_assignment_interval_ms=0)
    described = [
        DescribedTopic(name=name, topic_id=topic_id(uuid), partitions=((),) * count)
        for name, uuid, count in history["topics"]
    ]
    group.metadata = TopicMetadata(version=1, topics=tuple(described), new_topics_version=1)
    names = tuple(topic.name for topic in described)
    for step in history["steps"]:
        joining = step["id"]
        if step["op"] != "join":
            group.beat(joining, LEAVE_EPOCH)
            joining = next(iter(group.body.members))
        group.joins(joining, *names)
        yield shares(group.body.targets)


def kafkas(history: Vector) -> Iterator[Shares]:
    for step in history["steps"]:
        yield {
            member_id: {topic_id(uuid): partitions for uuid, partitions in share.items()}
            for member_id, share in step["target"].items()
        }


def test_targets_are_those_of_kafka() -> None:
    for history in histories():
        assert list(targets(history, hash_order=True)) == list(kafkas(history))


def test_without_it_members_go_by_when_they_joined() -> None:
    """Each has as many partitions as the other way, but not the same ones: off by default."""
    assert ConsumerHarness().config.group_consumer_hash_order is False
    different = 0
    for history in histories():
        for ours, theirs in zip(targets(history, hash_order=False), kafkas(history), strict=True):
            assert sizes(ours) == sizes(theirs)
            different += ours != theirs
    assert different > 100


def sizes(target: Shares) -> list[int]:
    return sorted(sum(map(len, share.values())) for share in target.values())
