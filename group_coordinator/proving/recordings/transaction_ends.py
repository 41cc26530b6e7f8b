"""The ends of transactions in a request log: what leaders of partitions of `__consumer_offsets` were told to write.

Only WriteTxnMarkers tells that offsets came to count; EndTxn tells that it was decided, and InitProducerId that what
the producer had begun is aborted. A broker tells itself, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC, TransactionMarker
from schemas.events import TransactionEnded
from schemas.java_hash import group_partition
from schemas.messages import TxnOffsetCommitRequest

NO_PRODUCER = -1
_SAME_END_US = 250_000
"""So far apart the marker and the answer that it is written may be; a producer needs a new transaction for another."""


class TransactionEnd(Struct, frozen=True, kw_only=True):
    """One marker that was written to a partition of `__consumer_offsets`, or that a producer asked for."""

    earliest_us: int
    """When a handler took the request up."""
    at_us: int
    """When the answer was ready: by then the marker had its effect."""
    line_number: int
    file_index: int
    partition: int | None
    """None: wherever the producer has written offsets."""
    ended: TransactionEnded


class _Topic(Struct):
    name: str
    partitionIndexes: tuple[int, ...] = ()


class _Marker(Struct):
    producerId: int
    producerEpoch: int
    transactionResult: bool
    topics: tuple[_Topic, ...] = ()


class _Request(Struct):
    markers: tuple[_Marker, ...] = ()


class _AnsweredPartition(Struct):
    partitionIndex: int
    errorCode: int


class _AnsweredTopic(Struct):
    name: str
    partitions: tuple[_AnsweredPartition, ...] = ()


class _AnsweredMarker(Struct):
    producerId: int
    topics: tuple[_AnsweredTopic, ...] = ()


class _Response(Struct):
    markers: tuple[_AnsweredMarker, ...] = ()


class _Asked(Struct):
    """An EndTxn request; that of InitProducerId may not name the producer."""

    transactionalId: str | None = None
    producerId: int = NO_PRODUCER
    committed: bool = False


class _AskedResponse(Struct):
    errorCode: int
    producerId: int = NO_PRODUCER


_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode_asked_response = msgspec.json.Decoder(_AskedResponse).decode
_decode_request = msgspec.json.Decoder(_Request).decode
_decode_response = msgspec.json.Decoder(_Response).decode


def transaction_ends(
    request: Raw, response: Raw, earliest_us: int, at_us: int, file_index: int, line_number: int
) -> tuple[TransactionEnd, ...]:
    """Return the ends that a WriteTxnMarkers request told, and that were written; none if it cannot be read."""
    try:
        markers, answers = _decode_request(request).markers, _decode_response(response).markers
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    written = {
        (answer.producerId, partition.partitionIndex)
        for answer in answers
        for topic in answer.topics
        if topic.name == OFFSETS_TOPIC
        for partition in topic.partitions
        if partition.errorCode == 0
    }
    return tuple(
        TransactionEnd(
            earliest_us=earliest_us,
            at_us=at_us,
            line_number=line_number,
            file_index=file_index,
            partition=partition,
            ended=TransactionEnded(
                producer_id=marker.producerId,
                producer_epoch=marker.producerEpoch,
                committed=marker.transactionResult,
            ),
        )
        for marker in markers
        for topic in marker.topics
        if topic.name == OFFSETS_TOPIC
        for partition in topic.partitionIndexes
        if (marker.producerId, partition) in written
    )


def asked_ends(
    request: Raw, response: Raw, earliest_us: int, at_us: int, file_index: int, line_number: int
) -> tuple[TransactionEnd, ...]:
    """Return the end of a transaction that a producer asked for by EndTxn or InitProducerId; none if a broker refused
    it, or it cannot be read."""
    try:
        asked, answer = _decode_asked(request), _decode_asked_response(response)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    producer_id = answer.producerId if asked.producerId == NO_PRODUCER else asked.producerId
    if answer.errorCode or asked.transactionalId is None:
        return ()
    # The epoch does not matter.
    ended = TransactionEnded(producer_id=producer_id, producer_epoch=0, committed=asked.committed)
    return (
        TransactionEnd(
            earliest_us=earliest_us,
            at_us=at_us,
            line_number=line_number,
            file_index=file_index,
            partition=None,
            ended=ended,
        ),
    )


def with_markers(ends: Sequence[TransactionEnd], markers: Iterable[TransactionMarker]) -> list[TransactionEnd]:
    """Return the ends with those that only the offsets log tells: a broker that is stopped answers no more."""
    told: dict[tuple[object, ...], list[int]] = {}
    for end in ends:
        told.setdefault((end.partition, end.ended), []).append(end.at_us)
    more = []
    for marker in markers:
        at_us = marker.timestamp_ms * 1000
        ended = TransactionEnded(
            producer_id=marker.producer_id, producer_epoch=marker.producer_epoch, committed=marker.outcome == "COMMIT"
        )
        times = told.get((marker.partition, ended), [])
        if not any(abs(time_us - at_us) < _SAME_END_US for time_us in times):
            more.append(
                TransactionEnd(
                    earliest_us=at_us, at_us=at_us, line_number=0, file_index=0, partition=marker.partition, ended=ended
                )
            )
    return sorted([*ends, *more], key=lambda end: end.at_us)


def ends_for(
    requests: Iterable[GroupRequest], ends: Sequence[TransactionEnd], group_id: str, partitions: int | None
) -> Iterator[TransactionEnd]:
    """Yield the ends that concern a group: of producers that committed offsets of it, in its partition.

    `partitions`: of `__consumer_offsets`; None: not known.
    """
    producer_ids = {
        request.request.producer_id for request in requests if isinstance(request.request, TxnOffsetCommitRequest)
    }
    own_partition = None if partitions is None else group_partition(group_id, partitions)
    for end in ends:
        is_there = own_partition is None or end.partition in (None, own_partition)
        if end.ended.producer_id in producer_ids and is_there:
            yield end
