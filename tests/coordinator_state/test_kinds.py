"""Another kind of group needs a body, handlers and a place in the table: here is a whole one, of a toy protocol.

In a toy group everybody is a member at once, nobody gets partitions, and a member that is silent for a minute is out.
"""

from __future__ import annotations

from typing import ClassVar, final

import pytest
from msgspec import Raw, Struct, field

from coordinator_state import (
    Answer,
    Group,
    GroupConfig,
    GroupCoordinator,
    LogRecord,
    Output,
    RequestEvent,
    StateError,
    decode_group,
)
from coordinator_state.classic.kind import ClassicKind
from coordinator_state.dispatch import GroupKinds
from coordinator_state.errors import Refusal, require_group_id
from coordinator_state.kind import GroupKind
from coordinator_state.offsets import OffsetExpirationCondition
from coordinator_state.step import Step
from coordinator_state.timers import Timer, TimerCause
from schemas.error_codes import ErrorCode
from schemas.events import RequestEnvelope
from schemas.history import GroupCreated, GroupSnapshot, OffsetsExpired
from schemas.messages import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    Request,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from schemas.recorded import RecordedLoad
from tests.coordinator_state.harness import DAY_MS, MINUTE_MS, of_type

RECORD_KEY = b"toy-group"


@final
class ToyGroup(Struct, array_like=True, tag="toy"):
    """The members and the topic that all of them read."""

    type_name: ClassVar[str] = "toy"
    is_small: ClassVar[bool] = False

    generation_id: int = 0
    protocol_type: str | None = "toy"
    members: dict[str, int] = field(default_factory=dict)
    """Member -> the generation that it joined."""
    empty_since_ms: int = 0

    @property
    def state_name(self) -> str:
        return "Playing" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_removed(self) -> bool:
        return False

    @property
    def regex_refresh_began_ms(self) -> int | None:
        return None

    @property
    def ongoing_seq(self) -> int | None:
        return None

    def instance_owner(self, group_instance_id: str) -> str | None:
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        pass

    def validate_offset_delete(self) -> None:
        pass

    def validate_delete_group(self) -> None:
        if self.members:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, "toys_are_out", "somebody plays")

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return bool(self.members) and topic == "toys"

    def offset_expiration_condition(self) -> OffsetExpirationCondition | None:
        return OffsetExpirationCondition(None if self.members else self.empty_since_ms)

    def describe(self, group_id: str) -> DescribedGroup:
        members = tuple(
            DescribedGroupMember(
                member_id=member, client_id="", client_host="", member_metadata=b"", member_assignment=b""
            )
            for member in self.members
        )
        return DescribedGroup(group_id=group_id, group_state=self.state_name, protocol_type="toy", members=members)

    def tombstone_keys(self, group_id: str) -> tuple[bytes, ...]:
        return (RECORD_KEY, RECORD_KEY + b"-again")

    def timer_cause(self, name: str) -> TimerCause:
        return TimerCause("session", name)

    def move_time(self, by_ms: int) -> None:
        self.empty_since_ms += by_ms


def toy(step: Step) -> ToyGroup:
    if step.group is None:
        step.create_group(ToyGroup(empty_since_ms=step.now_ms))
        step.append_record(RECORD_KEY, b"")
        step.cause_seq = step.append_history(GroupCreated(*step.history_fields()))
    body = step.require_group().body
    assert type(body) is ToyGroup
    return body


class ToyKind(GroupKind):
    body = ToyGroup

    def snapshot(self, group: Group, seq: int, config: GroupConfig) -> GroupSnapshot:
        return GroupSnapshot(
            group_id=group.group_id,
            epoch=group.epoch,
            seq=seq,
            time_ms=group.now_ms,
            timestamp_ms=group.timestamp_ms,
            state="Empty",
            state_since_ms=0,
            generation_id=group.body.generation_id,
            protocol_type="toy",
            protocol_name=None,
            leader_id=None,
            members=(),
        )

    def join_group(self, step: Step, request: JoinGroupRequest) -> None:
        require_group_id(request.group_id)
        group = toy(step)
        group.generation_id += 1
        group.members[request.member_id] = group.generation_id
        step.arm(request.member_id, MINUTE_MS)
        step.note_change()
        step.respond(JoinGroupResponse(generation_id=group.generation_id, member_id=request.member_id))

    def sync_group(self, step: Step, request: SyncGroupRequest) -> None:
        raise Refusal(ErrorCode.INVALID_REQUEST, "toys_are_not_assigned", "a toy group has no assignments")

    def heartbeat(self, step: Step, request: HeartbeatRequest) -> None:
        if request.member_id not in toy(step).members:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "unknown_member", "nobody of that name plays")
        step.arm(request.member_id, MINUTE_MS)
        step.respond(HeartbeatResponse())

    def leave_group(self, step: Step, request: LeaveGroupRequest) -> None:
        for member in request.members:
            self._remove(step, member.member_id)
        step.respond(LeaveGroupResponse())

    def validate_offset_commit(self, step: Step, request: OffsetCommitRequest) -> None:
        toy(step)

    def validate_txn_offset_commit(self, step: Step, request: TxnOffsetCommitRequest) -> None:
        toy(step)

    def timer_expired(self, step: Step, name: str, timer: Timer) -> None:
        self._remove(step, name)

    def renew_sessions(self, step: Step) -> None:
        for member_id in toy(step).members:
            step.arm(member_id, MINUTE_MS)

    def load(self, step: Step, fact: RecordedLoad) -> None:
        raise AssertionError("no recording tells of toys")

    def _remove(self, step: Step, member_id: str) -> None:
        group = toy(step)
        del group.members[member_id]
        group.empty_since_ms = step.now_ms
        step.note_change()


KINDS = GroupKinds(ToyKind(), ClassicKind())


class ToyHarness:
    """A group of either kind, packed and unpacked after each step."""

    def __init__(self, group: Group | None = None) -> None:
        self.now_ms, self.offset = 1_000_000, 0
        self.packed = None if group is None else KINDS.codec.encode(group)

    @property
    def group(self) -> Group | None:
        return None if self.packed is None else KINDS.codec.decode(*self.packed)

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator("g", GroupConfig(offsets_retention_minutes=1), group=self.group, kinds=KINDS)

    def _keep(self, coordinator: GroupCoordinator) -> list[Output]:
        self.packed = None if coordinator.group is None else KINDS.codec.encode(coordinator.group)
        return coordinator.take_outputs()

    def send(self, request: Request, version: int = 5) -> list[Output]:
        self.offset += 1
        api = type(request).__name__.removesuffix("Request")
        envelope = RequestEnvelope(
            request_id=str(self.offset), reply_partition=0, api=api, api_version=version, client_id="c", body=Raw()
        )
        coordinator = self._coordinator()
        coordinator.handle(RequestEvent(self.offset, self.now_ms, self.now_ms, envelope, request))
        return self._keep(coordinator)

    def ask(self, request: Request, version: int = 5) -> object:
        return of_type(self.send(request, version), Answer)[-1].response

    def sleep(self, duration_ms: int) -> list[Output]:
        self.now_ms += duration_ms
        coordinator = self._coordinator()
        coordinator.advance_to(self.now_ms)
        return self._keep(coordinator)

    def join(self, member_id: str) -> object:
        request = JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, member_id=member_id, protocol_type="toy", protocols=()
        )
        return self.ask(request)

    def commit(self, topic: str) -> object:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        topics = (OffsetCommitRequestTopic(name=topic, partitions=(partition,)),)
        return self.ask(OffsetCommitRequest(group_id="g", topics=topics), 9)


def test_its_own_requests_and_timers_are_handled_by_its_kind() -> None:
    group = ToyHarness()
    assert group.join("a") == JoinGroupResponse(generation_id=1, member_id="a")
    group.sleep(MINUTE_MS - 1)
    assert group.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="a"), 4) == HeartbeatResponse()
    refused = group.ask(
        SyncGroupRequest(group_id="g", generation_id=1, member_id="a", protocol_type="", protocol_name="")
    )
    assert refused.error_code is ErrorCode.INVALID_REQUEST  # type: ignore[attr-defined]
    group.sleep(MINUTE_MS - 1)
    assert group.group.body.members == {"a": 1}  # type: ignore[union-attr]
    group.sleep(1)
    assert group.group.body.members == {}  # type: ignore[union-attr]


def test_shared_requests_ask_its_body() -> None:
    group = ToyHarness()
    group.join("a")
    group.commit("toys")
    group.commit("books")
    described = group.ask(DescribeGroupsRequest(groups=("g",)))
    assert described.groups[0].group_state == "Playing"  # type: ignore[attr-defined]
    (deleted,) = group.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results  # type: ignore[attr-defined]
    assert deleted.error_code is ErrorCode.NON_EMPTY_GROUP
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    topics = tuple(OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("toys", "books"))
    answer = group.ask(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    codes = [topic.partitions[0].error_code for topic in answer.topics]  # type: ignore[attr-defined]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    fetched = group.ask(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g"),)), 9)
    assert [topic.name for topic in fetched.groups[0].topics] == ["toys"]  # type: ignore[attr-defined]


def test_its_offsets_expire_and_it_leaves_its_own_tombstones() -> None:
    group = ToyHarness()
    group.join("a")
    group.commit("toys")
    assert of_type(group.sleep(MINUTE_MS - 1), OffsetsExpired) == []
    outputs = group.sleep(DAY_MS)
    assert len(of_type(outputs, OffsetsExpired)) == 1
    keys = [record.key for record in of_type(outputs, LogRecord) if record.value is None]
    assert keys[-2:] == [RECORD_KEY, RECORD_KEY + b"-again"]
    assert group.group is None


def test_a_classic_group_stays_one_beside_it() -> None:
    coordinator = GroupCoordinator("g", GroupConfig())
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    request = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(offset,)),))
    envelope = RequestEnvelope(
        request_id="r", reply_partition=0, api="OffsetCommit", api_version=9, client_id="c", body=Raw()
    )
    coordinator.handle(RequestEvent(1, 1_000_000, 1_000_000, envelope, request))
    assert coordinator.group is not None
    group = ToyHarness(coordinator.group)
    state = group.group
    assert state is not None
    assert state.body == coordinator.group.body
    assert state.body.type_name == "classic"


def test_a_program_that_does_not_know_its_kind_refuses_its_state() -> None:
    group = ToyHarness()
    group.join("a")
    assert group.packed is not None
    with pytest.raises(StateError, match="toy"):
        decode_group(*group.packed)
