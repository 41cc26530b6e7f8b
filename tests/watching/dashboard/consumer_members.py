"""Members of the consumer protocol that a story drives: each does what a consumer does, or does not.

What a member was told and did is noted as it happens: the truth that pages are held against.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from tests.coordinator_state.consumer.harness import ConsumerHarness

Place = tuple[str, int]
"""Topic and partition."""
START_MS = 1_767_225_600_000
BEAT_MS = 5_000


def cluster(version: int = 1, **partitions: int) -> TopicMetadata:
    """The cluster has these topics, with so many partitions."""
    described = tuple([
        DescribedTopic(name=name, topic_id=topic_id(name), partitions=((),) * count)
        for name, count in sorted(partitions.items())
    ])
    return TopicMetadata(version=version, topics=described, new_topics_version=version)


def topic_id(name: str) -> str:
    return f"00000000-0000-4000-8000-{name.encode().hex()[:12]:0>12}"


class DrivenMember(Struct, kw_only=True):
    """One member, as it is on the client's side."""

    member_id: str
    client_id: str
    topics: tuple[str, ...] | None
    regex: str | None = None
    revokes: bool = True
    """Whether it gives up what it is told to."""
    rebalance_timeout_ms: int = 300_000
    epoch: int = JOIN_EPOCH
    owned: set[Place] = field(default_factory=set)
    must_go: dict[Place, int] = field(default_factory=dict)
    """What it was told to give up, and when, and has not said that it has."""


class Story:
    """A consumer group with driven members."""

    def __init__(self, group_id: str, metadata: TopicMetadata, **settings: Any) -> None:
        self.group = ConsumerHarness(group_id, now_ms=START_MS, **settings)
        self.group.metadata = metadata
        self.members: dict[str, DrivenMember] = {}

    @property
    def now_ms(self) -> int:
        return self.group.now_ms

    def join(self, member: DrivenMember) -> DrivenMember:
        """A member joins, and is one of those that `go_on` drives."""
        self.members[member.client_id] = member
        self.beat(member)
        return member

    def leave(self, client_id: str) -> None:
        member = self.members.pop(client_id)
        member.epoch = LEAVE_EPOCH
        self.beat(member)

    def go_on(self, duration_ms: int) -> None:
        """Time passes; every member sends its heartbeats."""
        for _ in range(duration_ms // BEAT_MS):
            self.group.sleep(BEAT_MS // 2)
            for member in list(self.members.values()):
                self.group.sleep(10)
                self.beat(member)
            self.group.sleep(BEAT_MS // 2 - 10 * len(self.members))

    def beat(self, member: DrivenMember) -> None:
        """One heartbeat, and what the member makes of the answer."""
        joins = member.epoch == JOIN_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch,
            rebalance_timeout_ms=member.rebalance_timeout_ms if joins else -1,
            subscribed_topic_names=(member.topics or ()) if joins else None,
            subscribed_topic_regex=member.regex if joins else None,
            topic_partitions=_by_topic(member.owned) if member.epoch != LEAVE_EPOCH else None,
        )
        outputs = self.group.send(
            "ConsumerGroupHeartbeat",
            request,
            1,
            topic_metadata=self.group.metadata,
            client_id=member.client_id,
        )
        response: ConsumerGroupHeartbeatResponse = self.group.answer(outputs)
        if response.error_code:
            self.members.pop(member.client_id, None)
            return
        member.must_go = {place: told_ms for place, told_ms in member.must_go.items() if place in member.owned}
        member.epoch = response.member_epoch
        if response.assignment is None:
            return
        names = {topic_id(topic.name): topic.name for topic in self.group.metadata.topics}
        mine = {
            (names[topic.topic_id], partition)
            for topic in response.assignment.topic_partitions
            for partition in topic.partitions
        }
        for place in sorted(member.owned - mine):
            member.must_go.setdefault(place, self.now_ms)
        member.owned = mine if member.revokes else member.owned | mine


def _by_topic(places: set[Place]) -> tuple[TopicPartitions, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic_id(topic), []).append(partition)
    return tuple([TopicPartitions(topic_id=each, partitions=tuple(numbers)) for each, numbers in by_topic.items()])
