"""One member of the consumer protocol on the bench: its requests are answered by hand."""

from __future__ import annotations

from typing import Any

from group_coordinator.coordinating.members.consumer_member import ConsumerGroupMember
from group_coordinator.coordinating.members.effects import Send, TopicNamesNeeded
from group_coordinator.local_group import topic_id
from schemas.consumer_group_messages import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from schemas.error_codes import ErrorCode
from tests.coordinating.members.bench import Bench

HEARTBEAT = "ConsumerGroupHeartbeat"
ORDERS = topic_id("orders")
BILLS = topic_id("bills")
NAMES = {ORDERS: "orders", BILLS: "bills"}
INTERVAL_MS = 5_000


def owns(**partitions: tuple[int, ...]) -> tuple[TopicPartitions, ...]:
    """Partitions by topics' names, as heartbeats have them."""
    ids = {name: key for key, name in NAMES.items()}
    items = {ids.get(name, name): numbers for name, numbers in partitions.items()}
    return tuple(TopicPartitions(topic_id=key, partitions=items[key]) for key in sorted(items))


class ConsumerBench(Bench):
    """Drives one member. It names topics when it is asked, unless `names_topics` is false."""

    member: ConsumerGroupMember

    def __init__(self, **settings: Any) -> None:
        super().__init__(group_protocol="consumer", **settings)
        self.names_topics = True

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that waits for its answer."""
        (send,) = self.open(HEARTBEAT)
        assert isinstance(send.request, ConsumerGroupHeartbeatRequest)
        return send.request

    def heartbeats(self) -> list[ConsumerGroupHeartbeatRequest]:
        return [send.request for send in self.sent if isinstance(send.request, ConsumerGroupHeartbeatRequest)]

    def beat(self, epoch: int = 1, *, interval_ms: int = INTERVAL_MS, **partitions: tuple[int, ...]) -> Send:
        """Answer the heartbeat; with partitions it has an assignment, too."""
        return self._answer(epoch, interval_ms, owns(**partitions) if partitions else None)

    def beat_with_nothing(self, epoch: int = 1) -> Send:
        """Answer the heartbeat with an empty assignment."""
        return self._answer(epoch, INTERVAL_MS, ())

    def refuse(self, error_code: ErrorCode) -> Send:
        return self.answer(HEARTBEAT, ConsumerGroupHeartbeatResponse(error_code=error_code))

    def settled(self, *, epoch: int = 1, **partitions: tuple[int, ...]) -> None:
        """Bring the member to where it has these partitions, has said so and knows its positions."""
        self.poll()
        self._answer(epoch, INTERVAL_MS, owns(**partitions))
        self.poll()
        self.beat(epoch)
        self.offsets(dict.fromkeys(self.member.assignment, 0))

    def _answer(self, epoch: int, interval_ms: int, partitions: tuple[TopicPartitions, ...] | None) -> Send:
        assignment = None if partitions is None else ConsumerGroupAssignment(topic_partitions=partitions)
        response = ConsumerGroupHeartbeatResponse(
            member_id=self.member.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=assignment,
        )
        return self.answer(HEARTBEAT, response)

    def _listen(self) -> None:
        heard = len(self.told)
        super()._listen()
        for output in self.told[heard:]:
            if isinstance(output, TopicNamesNeeded) and self.names_topics:
                self.member.topic_names({key: NAMES[key] for key in output.topic_ids if key in NAMES})
