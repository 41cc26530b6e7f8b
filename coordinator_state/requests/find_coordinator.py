"""FindCoordinator: API key 10, versions 0-6. A pure function of the group id and the number of shards."""

from __future__ import annotations

from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.messages import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP_KEY_TYPE = 0


def find_coordinator(step: Step, request: FindCoordinatorRequest) -> None:
    """Answer with the shard that coordinates the group. Transactions and share groups are not coordinated here."""
    if request.key_type != GROUP_KEY_TYPE:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "not_a_group",
            f"only groups (key type 0) are coordinated here, not type {request.key_type}",
        )
    shard = group_partition(step.group_id, step.config.shard_count)
    step.respond(FindCoordinatorResponse(coordinators=(Coordinator(key=step.group_id, node_id=shard),)))
