"""DescribeGroups: API key 15, versions 0-6 (4: instance ids; 6: an unknown group is an error)."""

from __future__ import annotations

from coordinator_state import states
from coordinator_state.group import Group
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.messages import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest, DescribeGroupsResponse

UNKNOWN_IS_AN_ERROR_VERSION = 6


def describe_groups(turn: Turn, request: DescribeGroupsRequest) -> None:
    """The group as it is. Ids that were handed out and not used are not shown."""
    assert turn.event is not None
    if turn.group is not None and turn.group.is_logged:
        described = describe(turn.group)
    elif turn.event.envelope.api_version >= UNKNOWN_IS_AN_ERROR_VERSION:
        described = DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {turn.group_id} not found.",
            group_id=turn.group_id,
            group_state=states.DEAD.value,
        )
    else:
        described = DescribedGroup(group_id=turn.group_id, group_state=states.DEAD.value)
    turn.answer(DescribeGroupsResponse(groups=(described,)))


def describe(group: Group) -> DescribedGroup:
    """A group in the words of DescribeGroups: metadata only when Stable, the stored assignment in every state."""
    stable = group.state is states.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata_of(group.protocol_name) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )
