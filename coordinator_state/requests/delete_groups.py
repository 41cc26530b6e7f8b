"""DeleteGroups: API key 42, versions 0-2."""

from __future__ import annotations

from coordinator_state import states
from coordinator_state.errors import Refusal, require_group
from coordinator_state.retention import delete_group
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.messages import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(turn: Turn, request: DeleteGroupsRequest) -> None:
    """Delete an Empty group with its offsets. Handed-out ids do not prevent it."""
    group = require_group(turn.group, ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is not states.EMPTY:
        raise Refusal(ErrorCode.NON_EMPTY_GROUP, "group_is_not_empty", f"the group has {len(group.members)} members")
    delete_group(turn)
    turn.answer(DeleteGroupsResponse(results=(DeletableGroupResult(group_id=turn.group_id),)))
