"""A heartbeat by which a member leaves, for good (-1) or, a static one, for a while (-2).

Source: `consumerGroupLeave` (Kafka 4.3).
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator_state.consumer import timers
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.fence import fence_members
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import LEFT_STATIC_EPOCH, ConsumerMember
from coordinator_state.consumer.membership import not_found, require_static, unknown_member
from coordinator_state.consumer.snapshot import identity
from coordinator_state.step import Step
from schemas.consumer_group_messages import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
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
