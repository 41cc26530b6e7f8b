"""A consumer group under test: events at a time, packed and unpacked after each."""

from __future__ import annotations

from typing import Any

from coordinator_state import Answer, Output
from coordinator_state.consumer.group import ConsumerGroup, consumer_group
from coordinator_state.outputs import MetadataEvent
from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from schemas.group_metadata_events import DescribedTopic, GroupConfiguration, RegexesResolved, TopicMetadata
from tests.coordinator_state.harness import GroupHarness, of_type

FOO = "00000000-0000-0001-0000-000000000001"
BAR = "00000000-0000-0002-0000-000000000002"


def topics(version: int = 1, **partitions: int) -> TopicMetadata:
    """The cluster has these topics, of `FOO` and `BAR`, with so many partitions; their brokers have no racks."""
    ids = {"foo": FOO, "bar": BAR}
    described = tuple(
        DescribedTopic(name=name, topic_id=ids[name], partitions=((),) * count) for name, count in partitions.items()
    )
    return TopicMetadata(version=version, topics=described, new_topics_version=version)


def owned(topic_id: str, *partitions: int) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic_id=topic_id, partitions=partitions),)


def consumer_heartbeat(
    member_id: str, epoch: int, joins_with: tuple[str, ...] | None = None, *, version: int = 1, **fields: Any
) -> tuple[str, ConsumerGroupHeartbeatRequest, int]:
    """What `send` needs for a heartbeat to the group `g`. `joins_with`: names of topics; then it has all that a join
    needs."""
    if joins_with is not None:
        fields = {"subscribed_topic_names": joins_with, "rebalance_timeout_ms": 60_000, "topic_partitions": ()} | fields
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
    return "ConsumerGroupHeartbeat", request, version


class ConsumerHarness(GroupHarness):
    """A group of members of the consumer protocol."""

    metadata = topics(foo=4)

    @property
    def body(self) -> ConsumerGroup:
        group = self.group
        assert group is not None
        return consumer_group(group)

    def tell(self, fact: TopicMetadata | RegexesResolved | GroupConfiguration) -> list[Output]:
        """An event that is no request; returns everything that came out."""
        self.offset += 1
        event = MetadataEvent(self.offset, self.now_ms, self.now_ms, fact)
        return self._run(lambda coordinator: coordinator.handle(event))

    def beat(self, member_id: str, epoch: int, *, version: int = 1, **fields: Any) -> list[Output]:
        """A heartbeat; returns everything that came out."""
        return self.send(
            *consumer_heartbeat(member_id, epoch, version=version, **fields), topic_metadata=self.metadata
        )

    def heard(self, outputs: list[Output]) -> ConsumerGroupHeartbeatResponse:
        response = of_type(outputs, Answer)[-1].response
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def told(self, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.heard(self.beat(member_id, epoch, **fields))

    def joins(self, member_id: str, *names: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A member joins."""
        return self.heard(
            self.send(*consumer_heartbeat(member_id, JOIN_EPOCH, names, **fields), topic_metadata=self.metadata)
        )
