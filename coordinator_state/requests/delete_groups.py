"""DeleteGroups: API key 42, versions 0-3 (3: a message, which is null)."""

from __future__ import annotations

from coordinator_state.errors import require_group
from coordinator_state.retention import delete_group
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.messages import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(step: Step, request: DeleteGroupsRequest) -> None:
    """Delete an Empty group with its offsets. Handed-out ids do not prevent it."""
    group = require_group(step.group, ErrorCode.GROUP_ID_NOT_FOUND)
    group.body.validate_delete_group()
    delete_group(step)
    step.respond(DeleteGroupsResponse(results=(DeletableGroupResult(group_id=step.group_id),)))
