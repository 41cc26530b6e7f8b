"""Requests and events to one group, of which many make no sense: members of both protocols, topics that shrink, change
their ids or share one, assignments that no leader would make."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from coordinator_state import Answer, Output
from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from schemas.consumer_protocol import Assignment, Subscription, TopicPartition, encode_assignment, encode_subscription
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import DescribedTopic, GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.messages import JoinGroupResponse, LeaveGroupMember
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import of_type

T = TypeVar("T")
MEMBERS, INSTANCES = ("a", "b", "c", "d"), (None, None, "i", "j")
NAMES = ("foo", "bar", "baz")
IDS = tuple(f"00000000-0000-000{number}-0000-00000000000{number}" for number in range(1, 5))
REGEXES = ("", "foo.*", ".*", "ba[rz]", "(")
ODD_PARTITIONS = (9, -1, -3, -1_000, 2**31 - 1)
PAUSES_MS = (1, 500, 1_000, 3_000, 9_000, 30_000, 60_000, 400_000)


class RandomRequests:
    """A story that its seed decides."""

    def __init__(self, seed: int, *, one_batch: bool, harness: type[ConsumerHarness] = ConsumerHarness) -> None:
        self._dice = Random(f"consumer-{seed}")
        choice = self._dice.choice
        self.group = harness(
            one_batch=one_batch,
            group_consumer_assignors=choice(["uniform,range"] * 3 + ["range,uniform"]),
            group_consumer_migration_policy=choice(["bidirectional"] * 5 + ["upgrade", "downgrade", "disabled"]),
            group_consumer_max_size=choice([1_000] * 9 + [2]),
            group_max_bytes=choice([1_000_000] * 9 + [2_000]),
        )
        self._version = 1
        self._epochs: dict[str, int] = {}
        self._told: dict[str, tuple[TopicPartitions, ...]] = {}
        self._steps: tuple[Callable[[], Any], ...] = (
            *[self._heartbeat] * 12, *[self._join] * 6, *[self._sync] * 4, *[self._sleep] * 5, self._classic_heartbeat,
            *[self._leave] * 2, *[self._tell] * 2, self._resolve, self._configure, self._commit, self._describe,
            self._renew,
        )  # fmt: skip

    def play(self) -> list[Output]:
        """Return all that came out."""
        for _ in range(self._dice.randrange(10, 60)):
            self._dice.choice(self._steps)()
        return self.group.outputs

    def _often(self, percent: int) -> bool:
        return self._dice.randrange(100) < percent

    def _some(self, of: tuple[T, ...], most: int = 3) -> tuple[T, ...]:
        return tuple(self._dice.choice(of) for _ in range(self._dice.randrange(most + 1)))

    def _partition(self) -> int:
        return self._dice.choice(ODD_PARTITIONS) if self._often(5) else self._dice.randrange(5)

    def _metadata(self) -> TopicMetadata:
        dice, mix = self._dice, self._often(15)
        self._version += 1
        pairs = [
            (name, dice.choice(IDS) if mix else IDS[NAMES.index(name)]) for name in dict.fromkeys(self._some(NAMES))
        ]
        described = tuple(
            DescribedTopic(name=name, topic_id=topic_id, partitions=((),) * dice.choice([0, 1, 4, 4, 4, 5]))
            for name, topic_id in pairs
        )
        version = dice.choice([0, 2**62]) if self._often(5) else self._version
        return TopicMetadata(version=version, topics=described, absent=self._some(NAMES, 1), new_topics_version=version)

    def _envelope(self) -> dict[str, Any]:
        return {"topic_metadata": self._metadata()} if self._often(30) else {}

    def _epoch(self, member_id: str) -> int:
        return self._epochs.get(member_id, 1) + (self._dice.choice([-1, 1]) if self._often(15) else 0)

    # ----------------------------------------------------------------------------------------------------- the steps

    def _heartbeat(self) -> None:
        dice, member_id = self._dice, self._dice.choice(MEMBERS)
        epoch = dice.choice([JOIN_EPOCH, JOIN_EPOCH, -1, -2, *[self._epoch(member_id)] * 6])
        fields: dict[str, Any] = {"topic_partitions": self._owned(member_id)}
        if epoch == JOIN_EPOCH or self._often(15):
            fields = {
                "topic_partitions": (),
                "rebalance_timeout_ms": dice.choice([0, 10_000, 60_000]),
                "subscribed_topic_names": dice.choice([None, self._some(NAMES), self._some(NAMES)]),
                "subscribed_topic_regex": dice.choice([None, None, dice.choice(REGEXES)]),
            }
        if self._often(20):
            fields["server_assignor"] = dice.choice(["range", "uniform", "none"])
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, instance_id=dice.choice(INSTANCES), **fields
        )
        for answer in of_type(self.group.send("ConsumerGroupHeartbeat", request, 1, **self._envelope()), Answer):
            response = answer.response
            if isinstance(response, ConsumerGroupHeartbeatResponse) and response.error_code is ErrorCode.NONE:
                self._epochs[member_id] = response.member_epoch
                if response.assignment is not None:
                    self._told[member_id] = response.assignment.topic_partitions

    def _owned(self, member_id: str) -> tuple[TopicPartitions, ...] | None:
        if self._often(80):
            return self._dice.choice([None, self._told.get(member_id)])
        owned = tuple(self._partition() for _ in range(3))
        return (TopicPartitions(topic_id=self._dice.choice(IDS), partitions=owned),)

    def _join(self) -> None:
        dice = self._dice
        outputs = self.group.join(
            dice.choice([*MEMBERS, ""]),
            protocols={name: self._subscription() for name in dict.fromkeys(("range", *self._some(("uniform", "x"))))},
            group_instance_id=dice.choice(INSTANCES),
            rebalance_timeout_ms=dice.choice([-1, 0, 60_000, 60_000]),
            session_timeout_ms=dice.choice([10_000, 45_000]),
            version=dice.choice([0, 3, 5, 9, 9, 9]),
            new_member_id=dice.choice(MEMBERS),
        )
        for answer in of_type(outputs, Answer):
            response = answer.response
            if isinstance(response, JoinGroupResponse) and response.error_code is ErrorCode.NONE:
                self._epochs[response.member_id] = response.generation_id

    def _subscription(self) -> bytes:
        if self._often(4):
            return self._dice.randbytes(self._dice.randrange(12))
        owned = tuple(TopicPartition(name, self._partition()) for name in self._some(NAMES))
        return encode_subscription(Subscription(topics=self._some(NAMES), owned_partitions=owned))

    def _sync(self) -> None:
        member_id = self._dice.choice(MEMBERS)
        self.group.sync(member_id, self._epoch(member_id), {each: self._assignment() for each in MEMBERS})

    def _assignment(self) -> bytes:
        if self._often(6):
            return self._dice.randbytes(self._dice.randrange(12))
        partitions = tuple(TopicPartition(name, self._partition()) for name in self._some(NAMES))
        return encode_assignment(Assignment(partitions=partitions, user_data=b"u" if self._often(5) else None))

    def _classic_heartbeat(self) -> None:
        member_id = self._dice.choice(MEMBERS)
        self.group.heartbeat(member_id, self._epoch(member_id), group_instance_id=self._dice.choice(INSTANCES))

    def _leave(self) -> None:
        member_id = self._dice.choice([*MEMBERS, ""])
        self.group.leave(LeaveGroupMember(member_id=member_id, group_instance_id=self._dice.choice(INSTANCES)))

    def _sleep(self) -> None:
        self.group.sleep(self._dice.choice(PAUSES_MS))

    def _tell(self) -> None:
        self.group.tell(self._metadata())

    def _resolve(self) -> None:
        resolved = {regex: self._some(NAMES) for regex in self._some(REGEXES, 2)}
        began_ms = self._dice.choice([self.group.now_ms, 0])
        self.group.tell(RegexesResolved(version=self._version, resolved=resolved, began_ms=began_ms))

    def _configure(self) -> None:
        value = self._dice.choice([None, -5, 0, 50_000, 2**31 - 1])
        self.group.tell(GroupConfiguration(consumer_session_timeout_ms=value, consumer_assignment_interval_ms=value))

    def _commit(self) -> None:
        member_id = self._dice.choice(MEMBERS)
        self.group.commit(member_id, self._epoch(member_id), {(self._dice.choice(NAMES), self._partition()): 5})

    def _describe(self) -> None:
        self.group.describe()
        self.group.send("ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=("g",)), 1)

    def _renew(self) -> None:
        self.group.renew_sessions(self._dice.choice([None, self.group.now_ms + 100_000]))
