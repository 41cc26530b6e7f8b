"""DescribeGroups: API key 15, versions 0-6 (4: instance ids; 6: an unknown group is an error)."""

from __future__ import annotations

from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.messages import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

UNKNOWN_IS_AN_ERROR_VERSION = 6
DEAD = "Dead"
"""The state of a group that does not exist."""


def describe_groups(step: Step, request: DescribeGroupsRequest) -> None:
    """Describe the group. Handed-out ids that were not used are not shown."""
    group = step.group
    described = group.body.describe(step.group_id) if group is not None and group.is_logged else None
    if described is not None:
        pass
    elif step.envelope.api_version >= UNKNOWN_IS_AN_ERROR_VERSION:
        described = DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {step.group_id} not found.",
            group_id=step.group_id,
            group_state=DEAD,
        )
    else:
        described = DescribedGroup(group_id=step.group_id, group_state=DEAD)
    step.respond(DescribeGroupsResponse(groups=(described,)))
