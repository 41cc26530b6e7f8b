"""The checks that several requests of a classic group share. The order of the checks is Kafka's, and clients see it."""

from __future__ import annotations

from coordinator_state.classic.group import ClassicGroup
from coordinator_state.classic.member import Member
from coordinator_state.errors import Refusal
from schemas.error_codes import ErrorCode


def require_member(group: ClassicGroup, member_id: str, group_instance_id: str | None) -> Member:
    """Return the member that a request speaks for."""
    if group_instance_id is not None:
        owner = group.static_members.get(group_instance_id)
        if owner is None:
            raise Refusal(
                ErrorCode.UNKNOWN_MEMBER_ID,
                "unknown_instance",
                f"no member has the instance id {group_instance_id!r:.300}",
            )
        if owner != member_id:
            raise Refusal(
                ErrorCode.FENCED_INSTANCE_ID,
                "instance_belongs_to_another_member",
                f"the instance id {group_instance_id!r:.300} belongs to member {owner!r:.300}",
            )
    member = group.members.get(member_id)
    if member is None:
        pending = member_id in group.pending_join
        raise Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID,
            "member_has_not_joined_yet" if pending else "unknown_member",
            f"member {member_id!r:.300} has been given its id but has not joined"
            if pending
            else f"the group has no member {member_id!r:.300}",
        )
    return member


def require_generation(group: ClassicGroup, generation_id: int) -> None:
    if generation_id != group.generation_id:
        raise Refusal(
            ErrorCode.ILLEGAL_GENERATION,
            "generation_differs",
            f"the request speaks of generation {generation_id}, the group is in generation {group.generation_id}",
        )
