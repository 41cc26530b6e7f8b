"""OffsetDelete: API key 47, version 0 (KIP-496)."""

from __future__ import annotations

from coordinator_state.errors import Refusal, require_group, require_group_id
from coordinator_state.group import Group
from coordinator_state.refused import record_refusal
from coordinator_state.retention import record_deleted_offsets, remove_offset
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.history import OffsetChange
from schemas.messages import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(step: Step, request: OffsetDeleteRequest) -> None:
    """Delete offsets of topics that the group is not subscribed to, the pending ones too.

    Deleting one that does not exist succeeds.
    """
    require_group_id(request.group_id)
    group = require_group(step.group, ErrorCode.GROUP_ID_NOT_FOUND)
    group.body.validate_offset_delete()
    changes: list[OffsetChange] = []
    topics = tuple(_delete(step, group, topic, changes) for topic in request.topics)
    record_deleted_offsets(step, changes)
    step.respond(OffsetDeleteResponse(topics=topics))


def _delete(
    step: Step, group: Group, topic: OffsetDeleteRequestTopic, changes: list[OffsetChange]
) -> OffsetDeleteResponseTopic:
    error_code = ErrorCode.NONE
    if group.body.is_subscribed_to_topic(topic.name):
        error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        detail = f"the group is subscribed to {topic.name:.249}"
        record_refusal(step, Refusal(error_code, "topic_is_subscribed", detail))
    else:
        for partition in topic.partitions:
            change = remove_offset(step, topic.name, partition.partition_index)
            if change is not None:
                changes.append(change)
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error_code)
            for partition in topic.partitions
        ),
    )
