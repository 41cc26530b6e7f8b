"""Whether a request about offsets comes from a member at its epoch. Source: `ConsumerGroup` (Kafka 4.3)."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_state.consumer.member import ConsumerMember
from coordinator_state.errors import Refusal
from schemas.error_codes import ErrorCode


def validate_offset_fetch(members: Mapping[str, ConsumerMember], member_id: str | None, member_epoch: int) -> None:
    """Check a fetch: it tolerates no older epoch. Raises `Refusal`."""
    if member_id is None and member_epoch < 0:
        return
    if member_id is None:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "epoch_without_member", "the request has an epoch and no member")
    member = require_member(members, member_id)
    if member_epoch != member.member_epoch:
        raise stale(member, member_epoch)


def require_member(members: Mapping[str, ConsumerMember], member_id: str) -> ConsumerMember:
    member = members.get(member_id)
    if member is None:
        raise Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID, "unknown_member", f"the group has no member {member_id!r:.300}"
        )
    return member


def stale(member: ConsumerMember, epoch: int) -> Refusal:
    code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return Refusal(
        code, "member_epoch_differs", f"the request is of epoch {epoch}, the member is in {member.member_epoch}"
    )
