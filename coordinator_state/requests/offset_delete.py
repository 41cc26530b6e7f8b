"""OffsetDelete: API key 47, version 0 (KIP-496)."""

from __future__ import annotations

from coordinator_state import states
from coordinator_state.errors import Refusal, require_group, require_group_id
from coordinator_state.group import CONSUMER, Group
from coordinator_state.retention import remove_offset, tell_deleted
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.history import OffsetChange
from schemas.messages import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(turn: Turn, request: OffsetDeleteRequest) -> None:
    """Delete offsets of topics that the group is not subscribed to; deleting one that does not exist succeeds."""
    require_group_id(request.group_id)
    group = require_group(turn.group, ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is not states.EMPTY and group.protocol_type != CONSUMER:
        raise Refusal(
            ErrorCode.NON_EMPTY_GROUP,
            "group_is_not_empty",
            f"the group has members of type {group.protocol_type!r:.100}, whose subscriptions are not known",
        )
    changes: list[OffsetChange] = []
    topics = tuple(_delete(turn, group, topic, changes) for topic in request.topics)
    tell_deleted(turn, changes)
    turn.answer(OffsetDeleteResponse(topics=topics))


def _delete(
    turn: Turn, group: Group, topic: OffsetDeleteRequestTopic, changes: list[OffsetChange]
) -> OffsetDeleteResponseTopic:
    error_code = ErrorCode.NONE
    if group.is_subscribed(topic.name):
        error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        turn.tell_refused(Refusal(error_code, "topic_is_subscribed", f"the group is subscribed to {topic.name:.249}"))
    else:
        for partition in topic.partitions:
            removed = remove_offset(turn, topic.name, partition.partition_index)
            if removed is not None:
                changes.append(
                    OffsetChange(
                        topic=topic.name,
                        partition=partition.partition_index,
                        offset=None,
                        previous_offset=removed.offset,
                    )
                )
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error_code)
            for partition in topic.partitions
        ),
    )
