"""A group under test: send requests at a time, let time pass, look at what came out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from msgspec import UNSET, Raw

from coordinator_state import (
    Answer,
    AssignmentChange,
    ClassicGroup,
    Group,
    GroupConfig,
    GroupCoordinator,
    LogRecord,
    Output,
    RecordedEvent,
    RenewalEvent,
    RequestEvent,
    TopicsDeletedEvent,
    TransactionEndedEvent,
    classic_group,
    decode_group,
    encode_group,
)
from schemas.consumer_protocol import Assignment, Subscription, TopicPartition, encode_assignment, encode_subscription
from schemas.error_codes import ErrorCode
from schemas.events import DeletedTopic, RequestEnvelope, TransactionEnded
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    SyncGroupAssignment,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from schemas.recorded import RecordedFact
from schemas.transaction_messages import (
    TransactionLogPosition,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

T = TypeVar("T")
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


def subscription(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics=topics))


def assignment(topic: str, *partitions: int) -> bytes:
    return encode_assignment(Assignment(partitions=tuple(TopicPartition(topic, partition) for partition in partitions)))


def log_position(offset: int | None, topic_id: Any = UNSET) -> TransactionLogPosition | None:
    return None if offset is None else TransactionLogPosition(partition=0, offset=offset, topic_id=topic_id)


class GroupHarness:
    """One group; every step is also a batch of its own: the state is packed and unpacked in between.

    `one_batch`: instead, all steps are one batch.
    """

    versions: ClassVar[Mapping[str, int]] = {
        "JoinGroup": 9,
        "SyncGroup": 5,
        "Heartbeat": 4,
        "LeaveGroup": 5,
        "OffsetCommit": 9,
        "OffsetFetch": 9,
        "TxnOffsetCommit": 5,
    }
    """In which requests are sent, unless they say otherwise; others in version 0."""

    def __init__(
        self,
        group_id: str = "g",
        now_ms: int = 1_000_000,
        partition: int = 0,
        *,
        one_batch: bool = False,
        **config: Any,
    ) -> None:
        self.group_id = group_id
        self.partition = partition
        self.config = GroupConfig(**{"group_initial_rebalance_delay_ms": 0, **config})
        self.now_ms = now_ms
        self.ahead_ms = 0
        """How far the append times of requests are ahead of the clock, which goes in ticks."""
        self.offset = 0
        self.outputs: list[Output] = []
        self._packed: tuple[bytes, bytes] | None = None
        self._batch = self._coordinator() if one_batch else None

    # ---------------------------------------------------------------------------------------------------- in and out

    @property
    def group(self) -> Group | None:
        return None if self._packed is None else decode_group(*self._packed)

    @property
    def classic(self) -> ClassicGroup:
        """The part of the group that classic groups have."""
        group = self.group
        assert group is not None
        return classic_group(group)

    @property
    def state(self) -> str:
        group = self.group
        return "none" if group is None else group.body.state_name

    def restore(self, packed: tuple[bytes, bytes]) -> None:
        """Go on from this state."""
        self._packed = packed

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(self.group_id, self.config, partition=self.partition, group=self.group)

    def _run(self, work: Any) -> list[Output]:
        coordinator = self._batch or self._coordinator()
        work(coordinator)
        group = coordinator.group
        self._packed = None if group is None else encode_group(group)
        outputs = coordinator.take_outputs()
        self.outputs += outputs
        return outputs

    def sleep(self, duration_ms: int) -> list[Output]:
        """Let the clock move on; returns what the timers gave."""
        self.now_ms += duration_ms
        return self._run(lambda coordinator: coordinator.advance_to(self.now_ms))

    def renew_sessions(self, to_ms: int | None = None) -> list[Output]:
        """The clock had stood still until now; returns everything that came out. `to_ms`:
        there the group's time goes on."""
        self.offset += 1
        event = RenewalEvent(
            self.offset, self.now_ms, self.now_ms if to_ms is None else to_ms, moves_time=to_ms is not None
        )
        self.now_ms = max(self.now_ms, to_ms or 0)
        return self._run(lambda coordinator: coordinator.handle(event))

    def delete_topics(self, *topics: tuple[str, str | None]) -> list[Output]:
        """Topics (name, id) are gone; returns everything that came out."""
        self.offset += 1
        deleted_topics = tuple(DeletedTopic(name=name, topic_id=topic_id) for name, topic_id in topics)
        event = TopicsDeletedEvent(self.offset, self.now_ms, self.now_ms, deleted_topics)
        return self._run(lambda coordinator: coordinator.handle(event))

    def end_transaction(
        self, producer_id: int, *, committed: bool, log_offset: int | None = None, epoch: int = 0, log_id: Any = UNSET
    ) -> list[Output]:
        """A producer's transaction is over; returns everything that came out."""
        self.offset += 1
        log = log_position(log_offset, log_id)
        ended = TransactionEnded(producer_id=producer_id, producer_epoch=epoch, committed=committed, log=log)
        event = TransactionEndedEvent(self.offset, self.now_ms, self.now_ms, ended)
        return self._run(lambda coordinator: coordinator.handle(event))

    def recorded(self, fact: RecordedFact) -> list[Output]:
        """A recording says something; returns everything that came out."""
        self.offset += 1
        event = RecordedEvent(self.offset, self.now_ms, self.now_ms, fact)
        return self._run(lambda coordinator: coordinator.handle(event))

    def send(self, api: str, request: Any, version: int | None = None, **envelope: Any) -> list[Output]:
        """One request at the present time; returns everything that came out."""
        self.offset += 1
        fields: dict[str, Any] = {"client_id": "client", "request_id": f"r{self.offset}"} | envelope
        fields.setdefault("reply_partition", 0)
        header = RequestEnvelope(
            api=api, api_version=self.versions.get(api, 0) if version is None else version, body=Raw(), **fields
        )
        event = RequestEvent(self.offset, self.now_ms, self.now_ms + self.ahead_ms, header, request)
        return self._run(lambda coordinator: coordinator.handle(event))

    def answers(self, outputs: list[Output]) -> dict[str, Any]:
        """request id -> response."""
        return {output.request_id: output.response for output in outputs if isinstance(output, Answer)}

    def answer(self, outputs: list[Output]) -> Any:
        """The answer to the last request."""
        return self.answers(outputs)[f"r{self.offset}"]

    # ------------------------------------------------------------------------------------------------------ requests

    def join(self, member_id: str = "", **fields: Any) -> list[Output]:
        envelope = {
            name: fields.pop(name)
            for name in ("client_id", "client_host", "new_member_id", "request_id", "version")
            if name in fields
        }
        protocols = fields.pop("protocols", {"range": subscription("t")})
        defaults: dict[str, Any] = {
            "group_id": self.group_id,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": tuple(JoinGroupProtocol(name=name, metadata=data) for name, data in protocols.items()),
            "member_id": member_id,
        }
        return self.send("JoinGroup", JoinGroupRequest(**(defaults | fields)), **envelope)

    def add(self, member_id: str, **fields: Any) -> list[Output]:
        """A new dynamic member: both of its joins."""
        assert self.answer(self.join(new_member_id=member_id, **fields)).error_code is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(member_id, **fields)

    def sync(
        self, member_id: str, generation_id: int, assignments: dict[str, bytes] | None = None, **fields: Any
    ) -> list[Output]:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation_id,
            member_id=member_id,
            assignments=tuple(
                SyncGroupAssignment(member_id=assigned_id, assignment=data)
                for assigned_id, data in (assignments or {}).items()
            ),
            **({"protocol_type": "consumer", "protocol_name": "range"} | fields),
        )
        return self.send("SyncGroup", request)

    def heartbeat(self, member_id: str, generation_id: int, **fields: Any) -> list[Output]:
        return self.send(
            "Heartbeat",
            HeartbeatRequest(group_id=self.group_id, generation_id=generation_id, member_id=member_id, **fields),
        )

    def leave(self, *members: str | LeaveGroupMember, version: int = 5) -> list[Output]:
        entries = tuple(
            LeaveGroupMember(member_id=member, reason="done") if isinstance(member, str) else member
            for member in members
        )
        return self.send("LeaveGroup", LeaveGroupRequest(group_id=self.group_id, members=entries), version)

    def commit(
        self,
        member_id: str = "",
        generation_id: int = -1,
        offsets: dict[tuple[str, int], int] | None = None,
        version: int = 9,
        metadata: str = "",
        topic_ids: dict[str, str] | None = None,
        **fields: Any,
    ) -> list[Output]:
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in ({("t", 0): 1} if offsets is None else offsets).items():
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=topic, topic_id=(topic_ids or {}).get(topic), partitions=tuple(partitions)
                )
                for topic, partitions in by_topic.items()
            ),
            **fields,
        )
        return self.send("OffsetCommit", request, version)

    def commit_in_transaction(
        self,
        producer_id: int,
        offsets: dict[tuple[str, int], int],
        member_id: str = "",
        generation_id: int = -1,
        version: int = 5,
        metadata: str | None = "",
        log_offset: int | None = None,
        log_id: Any = UNSET,
        **fields: Any,
    ) -> list[Output]:
        """A TxnOffsetCommit; each partition is a topic of its own."""
        topics = tuple(
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=metadata
                    ),
                ),
            )
            for (topic, partition), offset in offsets.items()
        )
        request = TxnOffsetCommitRequest(
            transactional_id=f"x{producer_id}",
            group_id=self.group_id,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=generation_id,
            member_id=member_id,
            topics=topics,
            log=log_position(log_offset, log_id),
            **fields,
        )
        return self.send("TxnOffsetCommit", request, version)

    def fetch(
        self, *partitions: tuple[str, int], version: int = 9, require_stable: bool = False, **member: Any
    ) -> list[Output]:
        """Of the partitions that are named, or of all that have offsets. `member`: who asks."""
        topics = tuple(
            OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in _by_topic(partitions).items()
        )
        groups = (OffsetFetchRequestGroup(group_id=self.group_id, topics=topics or None, **member),)
        return self.send("OffsetFetch", OffsetFetchRequest(groups=groups, require_stable=require_stable), version)

    def delete_offsets(self, *partitions: tuple[str, int]) -> list[Output]:
        topics = tuple(
            OffsetDeleteRequestTopic(
                name=topic, partitions=tuple(OffsetDeleteRequestPartition(partition_index=number) for number in numbers)
            )
            for topic, numbers in _by_topic(partitions).items()
        )
        return self.send("OffsetDelete", OffsetDeleteRequest(group_id=self.group_id, topics=topics))

    def describe(self, version: int = 6) -> list[Output]:
        return self.send("DescribeGroups", DescribeGroupsRequest(groups=(self.group_id,)), version)

    def delete(self, version: int = 2) -> list[Output]:
        return self.send("DeleteGroups", DeleteGroupsRequest(groups_names=(self.group_id,)), version)

    def find_coordinator(self, version: int = 4, key_type: int = 0) -> list[Output]:
        request = FindCoordinatorRequest(coordinator_keys=(self.group_id,), key_type=key_type)
        return self.send("FindCoordinator", request, version)

    def stable(self, *member_ids: str, **fields: Any) -> int:
        """Bring the group to Stable with these members, the first one leading; returns the generation."""
        for member_id in member_ids:
            outputs = self.add(member_id, **fields)
            if member_id != member_ids[0]:
                for earlier_id in member_ids[: member_ids.index(member_id)]:
                    outputs = self.join(earlier_id, **fields)
            else:
                outputs += self.sleep(0)
            generation_id = next(
                output.response.generation_id
                for output in outputs
                if isinstance(output, Answer)
                and isinstance(output.response, JoinGroupResponse)
                and not output.response.error_code
            )
            joined = member_ids[: member_ids.index(member_id) + 1]
            plan = {joined_id: assignment("t", number) for number, joined_id in enumerate(joined)}
            for joined_id in reversed(joined):
                self.sync(joined_id, generation_id, plan)
        assert self.state == "Stable"
        return generation_id


def _by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    partitions_by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        partitions_by_topic.setdefault(topic, []).append(number)
    return partitions_by_topic


def of_type(outputs: list[Output], kind: type[T]) -> list[T]:
    return [output for output in outputs if isinstance(output, kind)]


__all__ = [
    "DAY_MS",
    "MINUTE_MS",
    "AssignmentChange",
    "GroupHarness",
    "LogRecord",
    "assignment",
    "of_type",
    "subscription",
]
