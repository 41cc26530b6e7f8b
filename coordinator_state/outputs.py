"""Events go into a group, and outputs come out: answers, records of the offsets log, history, and the group's snapshot.
Each has its epoch and seq.

Final, so that `type(it) is Answer` tells them apart: for one that is not, `isinstance` asks msgspec's metaclass, and
takes five times as long.
"""

from __future__ import annotations

from typing import final

from msgspec import Struct

from schemas.events import (
    DeletedTopic,
    GroupEventBody,
    RequestEnvelope,
    ResponseDocument,
    SessionRenewal,
    TopicsDeleted,
    TransactionEnded,
)
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.history import GroupSnapshot, History
from schemas.messages import Request, Response
from schemas.recorded import RecordedFact


class PlacedEvent(Struct, frozen=True, gc=False):
    """The place of an event in the log, and its time."""

    offset: int
    """Its offset in the events partition."""
    clock_ms: int
    """The last tick before it; 0: there is none, and a group's time stands where the group's first event began it."""
    timestamp_ms: int
    """Its append time: information for people. The one decision that uses it: where no tick came before, a group
    begins at it."""


@final
class RequestEvent(PlacedEvent, frozen=True, gc=False):
    """One request as it lies in the log, decoded."""

    envelope: RequestEnvelope
    request: Request


@final
class RenewalEvent(PlacedEvent, frozen=True, gc=False):
    """The clock had stood still and goes on: the sessions of the group's members begin anew."""

    moves_time: bool = False
    """The group's time goes on at the append time; to the group, no time has gone by."""


@final
class TopicsDeletedEvent(PlacedEvent, frozen=True, gc=False):
    """Topics are gone, and with them the offsets that the group has committed for them."""

    topics: tuple[DeletedTopic, ...]


@final
class TransactionEndedEvent(PlacedEvent, frozen=True, gc=False):
    """A producer's transaction is over, and with it what is pending of the producer in the group."""

    ended: TransactionEnded


@final
class MetadataEvent(PlacedEvent, frozen=True, gc=False):
    """What a consumer group must know of the cluster, or of its own settings."""

    fact: TopicMetadata | RegexesResolved | GroupConfiguration


@final
class RecordedEvent(PlacedEvent, frozen=True, gc=False):
    """A fact of a recording: what another coordinator knew of the group, besides its requests."""

    fact: RecordedFact


GroupEvent = (
    RequestEvent | RenewalEvent | TopicsDeletedEvent | TransactionEndedEvent | MetadataEvent | RecordedEvent
)


def group_event(
    decoded: tuple[RequestEnvelope, Request] | GroupEventBody, offset: int, clock_ms: int, timestamp_ms: int
) -> GroupEvent:
    """Return the event that `schemas.events.decode_group_event` has read, with its place in the log and its time."""
    if type(decoded) is tuple:
        return RequestEvent(offset, clock_ms, timestamp_ms, *decoded)
    if type(decoded) is SessionRenewal:
        return RenewalEvent(offset, clock_ms, timestamp_ms, decoded.moves_time)
    if type(decoded) is TopicsDeleted:
        return TopicsDeletedEvent(offset, clock_ms, timestamp_ms, decoded.topics)
    if type(decoded) is TransactionEnded:
        return TransactionEndedEvent(offset, clock_ms, timestamp_ms, decoded)
    if isinstance(decoded, TopicMetadata | RegexesResolved | GroupConfiguration):
        return MetadataEvent(offset, clock_ms, timestamp_ms, decoded)
    return RecordedEvent(offset, clock_ms, timestamp_ms, decoded)  # type: ignore[arg-type]


@final
class Answer(Struct, frozen=True, gc=False):
    """The answer to one request."""

    group_id: str
    epoch: int
    seq: int
    time_ms: int
    request_id: str
    reply_partition: int
    api: str
    api_version: int
    answers_offset: int
    response: Response

    def document(self) -> ResponseDocument:
        """Return the document of the answer on the responses topic."""
        return ResponseDocument(
            request_id=self.request_id,
            group_id=self.group_id,
            epoch=self.epoch,
            seq=self.seq,
            api=self.api,
            api_version=self.api_version,
            answers_offset=self.answers_offset,
            time_ms=self.time_ms,
            body=self.response,
        )


@final
class LogRecord(Struct, frozen=True, gc=False):
    """A record of the offsets log, as Kafka's `__consumer_offsets` has it; a null value is a tombstone."""

    group_id: str
    epoch: int
    seq: int
    time_ms: int
    caused_by_offset: int
    key: bytes
    value: bytes | None


@final
class AssignmentChange(Struct, frozen=True, gc=False):
    """The group as it is now; None: it is gone."""

    group_id: str
    epoch: int
    seq: int
    snapshot: GroupSnapshot | None


Output = Answer | LogRecord | AssignmentChange | History
