"""OffsetFetch: API key 9, versions 1-10 (2: all topics; 5: leader epoch; 8: several groups; 10: topic ids)."""

from __future__ import annotations

from itertools import groupby

from coordinator_state.group import Group
from coordinator_state.offsets import CommittedOffset
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)


def offset_fetch(turn: Turn, request: OffsetFetchRequest) -> None:
    """Read committed offsets. Every state answers, and so does a group that does not exist: it has none."""
    (asked,) = request.groups
    topics = _all_topics(turn.group) if asked.topics is None else tuple(_topic(turn.group, each) for each in asked.topics)
    turn.answer(OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics),)))


def offset_fetch_error(request: OffsetFetchRequest, error_code: ErrorCode) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=tuple(OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error_code) for asked in request.groups)
    )


def _topic(group: Group | None, asked: OffsetFetchRequestTopic) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=tuple(
            _partition(index, None if group is None else group.offsets.get(asked.name, index))
            for index in asked.partition_indexes
        ),
    )


def _all_topics(group: Group | None) -> tuple[OffsetFetchResponseTopic, ...]:
    if group is None:
        return ()
    return tuple(
        OffsetFetchResponseTopic(
            name=topic, partitions=tuple(_partition(partition, committed) for _, partition, committed in entries)
        )
        for topic, entries in groupby(group.offsets, key=lambda entry: entry[0])
    )


def _partition(index: int, committed: CommittedOffset | None) -> OffsetFetchResponsePartition:
    if committed is None:
        return OffsetFetchResponsePartition(partition_index=index)
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
