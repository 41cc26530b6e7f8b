"""The client's wrong, as a value: `Refusal` becomes the answer to the request. Our own wrong is an assertion."""

from __future__ import annotations

from coordinator_state.group import Group, Member
from schemas.error_codes import ErrorCode


class Refusal(Exception):
    """A request is refused. Where Kafka changes the group before it refuses, that change has been made and stays."""

    def __init__(self, error_code: ErrorCode, rule: str, detail: str, *, echo_member_id: bool = True) -> None:
        super().__init__(f"{error_code.name}: {detail}")
        self.error_code = error_code
        self.rule = rule
        self.detail = detail
        self.echo_member_id = echo_member_id


def require_group_id(group_id: str) -> None:
    if not group_id:
        raise Refusal(ErrorCode.INVALID_GROUP_ID, "empty_group_id", "the group id is empty")


def require_group(group: Group | None, error_code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> Group:
    if group is None:
        raise Refusal(error_code, "unknown_group", "there is no such group")
    return group


def require_member(group: Group, member_id: str, group_instance_id: str | None) -> Member:
    """The member that a request speaks for. The order of the checks is Kafka's, and clients see it."""
    if group_instance_id is not None:
        owner = group.static_members.get(group_instance_id)
        if owner is None:
            raise Refusal(
                ErrorCode.UNKNOWN_MEMBER_ID, "unknown_instance", f"no member has the instance id {group_instance_id!r:.300}"
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


def require_generation(group: Group, generation_id: int) -> None:
    if generation_id != group.generation_id:
        raise Refusal(
            ErrorCode.ILLEGAL_GENERATION,
            "generation_differs",
            f"the request speaks of generation {generation_id}, the group is in generation {group.generation_id}",
        )
