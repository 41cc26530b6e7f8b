"""A cache of heartbeats of consumer groups with one member, `m` of group `g`, and what the coordinator says to it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from group_coordinator.gateway.consumer_heartbeat_cache import ConsumerHeartbeatCache
from group_coordinator.gateway.published_groups import PublishedGroup, PublishedMember
from schemas.consumer_group_messages import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from schemas.error_codes import ErrorCode
from schemas.messages import Response

INTERVAL_MS = 5_000
TOPIC_ID = "00000000-0000-0001-0000-000000000001"
BEAT = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=5)
MEMBER = PublishedMember("m", None)
GROUP = PublishedGroup("g", "Stable", 5, "consumer", (MEMBER,), is_consumer_group=True)
AS_BEFORE = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=5, heartbeat_interval_ms=INTERVAL_MS)
EVERYTHING = replace(
    BEAT,
    subscribed_topic_names=("t",),
    rebalance_timeout_ms=60_000,
    topic_partitions=(TopicPartitions(topic_id=TOPIC_ID, partitions=(0, 1)),),
)
IN_DOUBT = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
FENCED = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)


def owning(*partitions: int) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic_id=TOPIC_ID, partitions=partitions),) if partitions else ()


def news(epoch: int, *partitions: int) -> ConsumerGroupHeartbeatResponse:
    assignment = ConsumerGroupAssignment(topic_partitions=owning(*partitions))
    return replace(AS_BEFORE, member_epoch=epoch, assignment=assignment)


class Bench:
    def __init__(self, news_bytes_max: int = 2**20) -> None:
        self.group: PublishedGroup | None = GROUP
        self.beats = ConsumerHeartbeatCache(
            lambda group_id: self.group if group_id == "g" else None, news_bytes_max=news_bytes_max
        )
        self.sent: list[tuple[ConsumerGroupHeartbeatRequest, Callable[[Response], None]]] = []
        self.told: list[Response] = []

    def ask(self, request: ConsumerGroupHeartbeatRequest = BEAT, connection: int = 1) -> list[Response]:
        """What is answered at once."""
        before = len(self.told)
        self.beats.ask(
            request, lambda request, on_answer: self.sent.append((request, on_answer)), self.told.append, connection
        )
        return self.told[before:]

    def coordinator_says(self, answer: ConsumerGroupHeartbeatResponse) -> list[Response]:
        """To the oldest that waits; returns what clients are told upon it."""
        before = len(self.told)
        _, on_answer = self.sent.pop(0)
        on_answer(answer)
        return self.told[before:]

    def settled(self) -> Bench:
        """With a member that has joined and has heard that all is as before."""
        self.ask(replace(BEAT, member_epoch=0, subscribed_topic_names=("t",), topic_partitions=()))
        self.coordinator_says(news(5, 0, 1))
        assert self.ask() == [], "its first heartbeat is the coordinator's to answer"
        self.coordinator_says(AS_BEFORE)
        return self
