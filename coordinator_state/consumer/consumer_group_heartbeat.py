"""ConsumerGroupHeartbeat: API key 68, versions 0-1 (1: regular expressions; the member makes its own id, KIP-1082).

Source: `GroupCoordinatorService.consumerGroupHeartbeat`, `GroupMetadataManager.consumerGroupHeartbeat` (Kafka 4.3).
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator_state.consumer import timers
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.fence import fence_members
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.heartbeat import member_heartbeat
from coordinator_state.consumer.member import LEFT_STATIC_EPOCH, ConsumerMember
from coordinator_state.consumer.membership import not_found, require_static, unknown_member
from coordinator_state.consumer.snapshot import identity
from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from schemas.error_codes import ErrorCode
from schemas.history import MemberLeft


def member_leaves(step: Step, request: ConsumerGroupHeartbeatRequest) -> None:
    """Take the member out, or keep its place while it is away. Its epoch does not matter."""
    body = None if step.group is None else step.group.body
    if type(body) is not ConsumerGroup or body.is_removed:
        raise not_found(step)
    if request.instance_id is None:
        member = body.members.get(request.member_id)
        if member is None:
            raise unknown_member(request.member_id)
    else:
        member = require_static(body, request.member_id, request.instance_id)
    changes = Changes(step, body)
    if request.member_epoch == LEAVE_EPOCH:
        step.cause_seq = step.append_history(MemberLeft(*step.history_fields(), member=identity(member)))
        fence_members(changes, [member], "member_left")
    else:
        _keep_place(changes, member)
    is_away = request.member_epoch == LEAVE_STATIC_EPOCH
    step.respond(
        ConsumerGroupHeartbeatResponse(
            member_id=member.member_id if is_away else request.member_id, member_epoch=request.member_epoch
        )
    )


def _keep_place(changes: Changes, member: ConsumerMember) -> None:
    """A static member keeps its partitions until it comes back or its session ends; what it was to give up is free.

    Its state stays in the record, as in Kafka, and so does its session timer. So where it was to give up partitions, a
    broker that loads the group times that again, and puts it out.
    """
    away = replace(
        member,
        member_epoch=LEFT_STATIC_EPOCH,
        assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()},
        pending_revocation={},
    )
    changes.put_current(away)
    changes.narrator.away(away)
    group = changes.commit()
    if member.member_epoch != LEFT_STATIC_EPOCH:
        timers.unbind_rebalance(group.timers, member.member_id)


OWN_MEMBER_ID_VERSION = 1
_NO_TIMEOUT = -1
_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's `String.trim` takes away."""


def consumer_group_heartbeat(step: Step, request: ConsumerGroupHeartbeatRequest) -> None:
    """Let a member join, report, or leave, and tell it what it owns now."""
    _validate(step, request)
    if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        member_leaves(step, request)
    else:
        member_heartbeat(step, request)


def _validate(step: Step, request: ConsumerGroupHeartbeatRequest) -> None:
    """Check the request by itself, in Kafka's order."""
    epoch = request.member_epoch
    has_own_id = step.envelope.api_version >= OWN_MEMBER_ID_VERSION or epoch > 0
    if (has_own_id or epoch == LEAVE_EPOCH) and _is_blank(request.member_id):
        raise _invalid("member_id_is_blank", "the member id is empty")
    if _is_blank(request.group_id):
        raise _invalid("empty_group_id", "the group id is empty")
    if request.instance_id is not None and _is_blank(request.instance_id):
        raise _invalid("instance_id_is_blank", "the instance id is empty")
    if request.rack_id is not None and _is_blank(request.rack_id):
        raise _invalid("rack_id_is_blank", "the rack id is empty")
    if epoch == JOIN_EPOCH:
        _validate_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("no_instance_id", "a member without an instance id cannot leave for a while")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("unknown_epoch", f"{epoch} is no member epoch")
    assignor = request.server_assignor
    if assignor is not None and assignor not in step.config.consumer_assignors:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "unknown_assignor",
            f"the request asks for the assignor {assignor!r:.100}; group.consumer.assignors is "
            f"{step.config.group_consumer_assignors!r:.300}",
        )


def _validate_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NO_TIMEOUT:
        raise _invalid("no_rebalance_timeout", "who joins must name a rebalance timeout")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("joins_with_partitions", "who joins must say that it owns nothing")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("no_subscription", "who joins must subscribe by names or by a regular expression")


def _is_blank(text: str) -> bool:
    return not text.strip(_TRIMMED)


def _invalid(rule: str, detail: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, rule, detail)
