"""OffsetFetch: API key 9, versions 1-10 (2: all topics; 5: leader epoch; 7: stable; 8: groups; 10: topic ids)."""

from __future__ import annotations

from itertools import groupby

from msgspec import UNSET

from coordinator_state.errors import Refusal
from coordinator_state.group import Group
from coordinator_state.offsets import OFFSET_OVERHEAD_BYTES, CommittedOffset, offset_bytes
from coordinator_state.refused import record_refusal
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage
from schemas.error_codes import ErrorCode
from schemas.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

PRODUCERS_NAMED_MAX = 20
"""A refusal names no more producers than this."""
ANSWER_BYTES_MAX = 16_777_216
"""Most bytes of offsets in one answer, unless a group may have more; far more than the responses topic takes by
default."""


def offset_fetch(step: Step, request: OffsetFetchRequest) -> None:
    """Read committed offsets. Every state answers, and so does a group that does not exist: it has none."""
    (requested,) = request.groups
    seen = step.group
    if seen is not None and seen.body.is_removed and request.require_stable:
        seen = None  # Kafka takes this for a write, which looks into memory; its pending offsets are there
    if seen is not None:
        seen.body.validate_offset_fetch(requested.member_id, requested.member_epoch)
    _require_answer_of_some_size(step, requested)
    tells_ids = request.tells_committed_ids is True
    topics = (
        _all_topics(seen, step.image, tells_ids)
        if requested.topics is None
        else tuple(_topic(seen, topic, tells_ids) for topic in requested.topics)
    )
    if request.require_stable and step.group is not None and step.group.offsets.has_pending:
        topics = _stable(step, step.group, topics)
    step.respond(OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics),)))


def _require_answer_of_some_size(step: Step, requested: OffsetFetchRequestGroup) -> None:
    """A request may name a partition as often as it has room, and each time it is answered with all of its metadata.

    The code is that of an answer which the responses topic would not take.
    """
    group = step.group
    if group is None or requested.topics is None:
        return  # what the group has, once
    most = max(ANSWER_BYTES_MAX, 2 * step.config.group_offsets_max_bytes)
    bytes_left = most
    for topic in requested.topics:
        stored = group.offsets.of_topic(topic.name)
        for index in topic.partition_indexes:
            committed = stored.get(index)
            bytes_left -= OFFSET_OVERHEAD_BYTES if committed is None else offset_bytes(0, committed.metadata)
        if bytes_left < 0:
            raise Refusal(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "answer_is_too_large",
                f"the offsets that are asked for take more than {most} bytes",
            )


def _topic(group: Group | None, requested: OffsetFetchRequestTopic, tells_ids: bool) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=requested.name,
        topic_id=requested.topic_id,
        partitions=tuple(
            _partition(index, None if group is None else group.offsets.get(requested.name, index), tells_ids)
            for index in requested.partition_indexes
        ),
    )


def _all_topics(group: Group | None, image: TopicsImage, tells_ids: bool) -> tuple[OffsetFetchResponseTopic, ...]:
    if group is None:
        return ()
    return tuple(
        OffsetFetchResponseTopic(
            name=topic,
            topic_id=image.topics[topic].topic_id if topic in image.topics else None,
            partitions=tuple(_partition(partition, committed, tells_ids) for _, partition, committed in entries),
        )
        for topic, entries in groupby(group.offsets, key=lambda entry: entry[0])
    )


def _partition(index: int, committed: CommittedOffset | None, tells_id: bool) -> OffsetFetchResponsePartition:
    if committed is None:
        return OffsetFetchResponsePartition(partition_index=index)
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        committed_topic_id=UNSET if not tells_id or committed.topic_id is None else committed.topic_id,
    )


def _stable(
    step: Step, group: Group, topics: tuple[OffsetFetchResponseTopic, ...]
) -> tuple[OffsetFetchResponseTopic, ...]:
    """Refuse the partitions for which an offset is pending: it may be the committed one soon (KIP-447)."""
    producer_ids: set[int] = set()
    answered = []
    for topic in topics:
        partitions = []
        for partition in topic.partitions:
            pending = group.offsets.pending_of(topic.name, partition.partition_index)
            producer_ids.update(pending)
            unstable = OffsetFetchResponsePartition(
                partition_index=partition.partition_index, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
            )
            partitions.append(unstable if pending else partition)
        answered.append(
            OffsetFetchResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))
        )
    if producer_ids:
        named = ", ".join(map(str, sorted(producer_ids)[:PRODUCERS_NAMED_MAX]))
        more = f" and {len(producer_ids) - PRODUCERS_NAMED_MAX} more" if len(producer_ids) > PRODUCERS_NAMED_MAX else ""
        record_refusal(
            step,
            Refusal(
                ErrorCode.UNSTABLE_OFFSET_COMMIT,
                "transaction_is_open",
                f"offsets that are asked for wait for the end of transactions of producers {named}{more}",
            )
        )
    return tuple(answered)
