"""Requests of the classic protocol to a consumer group. Each is answered at once: nothing is parked, nobody leads.

Source: `classicGroupJoinToConsumerGroup`, `classicGroupSyncToConsumerGroup` and the like (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.causes import Subject
from coordinator_state.classic.leave_group import leave_response
from coordinator_state.consumer import timers
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.downgrade import assignment_bytes, protocol_version
from coordinator_state.consumer.fence import fence_members
from coordinator_state.consumer.group import ConsumerGroup, consumer_group
from coordinator_state.consumer.member import ClassicMemberMetadata, ConsumerMember, MemberState
from coordinator_state.consumer.membership import require_static, unknown_member
from coordinator_state.consumer.snapshot import identity
from coordinator_state.errors import Refusal, require_group_id
from coordinator_state.refused import record_refusal
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.history import MemberLeft
from schemas.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupMember,
    LeaveGroupMemberResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

_PROTOCOL_MANDATORY_VERSION = 5


def sync_group(step: Step, request: SyncGroupRequest) -> None:
    """Answer a classic member with what it owns. The assignments in the request are ignored."""
    mandatory = step.envelope.api_version >= _PROTOCOL_MANDATORY_VERSION
    if mandatory and (request.protocol_type is None or request.protocol_name is None):
        raise _protocol_differs("protocol type and name are mandatory since version 5")
    require_group_id(request.group_id)
    group = consumer_group(step.require_group())
    member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    protocol_name, metadata = classic.supported_protocols[0]
    if request.protocol_type not in (None, "consumer") or request.protocol_name not in (None, protocol_name):
        raise _protocol_differs(f"the member's protocol is {protocol_name!r:.100} of type 'consumer'")
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(step, member)
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "target_is_ahead", "the member must join again")
    step.cancel(timers.sync(member.member_id))
    step.arm(timers.session(member.member_id), classic.session_timeout_ms)
    owned = tuple((topic_id, tuple(epochs)) for topic_id, epochs in member.assigned.items())
    step.respond(
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(owned, step.image, protocol_version(metadata)),
        )
    )


def heartbeat(step: Step, request: HeartbeatRequest) -> None:
    """Tell a classic member whether it must join again: to give up partitions, or to get some."""
    require_group_id(request.group_id)
    group = consumer_group(step.require_group())
    member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    step.arm(timers.session(member.member_id), classic.session_timeout_ms)
    if (
        member.member_epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member))
    ):
        _await_join(step, member)
        step.respond(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    else:
        step.respond(HeartbeatResponse())


def leave_group(step: Step, request: LeaveGroupRequest) -> None:
    """Remove members, native ones too. An entry that is refused does not stop the others."""
    require_group_id(request.group_id)
    group = consumer_group(step.require_group())
    leavers: dict[str, ConsumerMember] = {}
    results = tuple(_leave(step, group, entry, leavers) for entry in request.members)
    fence_members(Changes(step, group), list(leavers.values()), "member_left")
    step.respond(leave_response(step, results))


def _leave(
    step: Step, group: ConsumerGroup, entry: LeaveGroupMember, leavers: dict[str, ConsumerMember]
) -> LeaveGroupMemberResponse:
    step.set_subject(Subject(entry.member_id, entry.group_instance_id, entry.reason))
    error_code = ErrorCode.NONE
    try:
        member = _leaver(group, entry)
    except Refusal as refusal:
        error_code = refusal.error_code
        record_refusal(step, refusal)
    else:
        if member.member_id not in leavers:
            leavers[member.member_id] = member
            step.cause_seq = step.append_history(MemberLeft(*step.history_fields(), member=identity(member)))
    return LeaveGroupMemberResponse(
        member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=error_code
    )


def _leaver(group: ConsumerGroup, entry: LeaveGroupMember) -> ConsumerMember:
    if entry.group_instance_id is not None:
        member_id = entry.member_id or group.static_members.get(entry.group_instance_id, "")
        return require_static(group, member_id, entry.group_instance_id)
    member = group.members.get(entry.member_id)
    if member is None:
        raise unknown_member(entry.member_id)
    return member


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """Return the member of the classic protocol that a request speaks for, at its epoch."""
    if instance_id is not None:
        member = require_static(group, member_id, instance_id)
    else:
        known = group.members.get(member_id)
        if known is None:
            raise unknown_member(member_id)
        member = known
    if member.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "native_member", "the member uses the consumer protocol")
    if generation_id != member.member_epoch:
        raise Refusal(
            ErrorCode.ILLEGAL_GENERATION,
            "generation_differs",
            f"the request speaks of generation {generation_id}, the member is in epoch {member.member_epoch}",
        )
    return member, member.classic


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether somebody still owns a partition of the target that the member lacks."""
    return any(
        partition not in member.assigned.get(topic_id, ()) and not group.is_free(topic_id, partition)
        for topic_id, partitions in group.targets.get(member.member_id, ())
        for partition in partitions
    )


def _await_join(step: Step, member: ConsumerMember) -> None:
    """The member has its rebalance timeout to join again, from the first time that it is told."""
    name = timers.join(member.member_id)
    if name not in step.require_group().timers:
        step.arm(name, member.rebalance_timeout_ms)


def _protocol_differs(detail: str) -> Refusal:
    return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "protocol_differs", detail)
