"""The records of the progress topic: how far the query of a shard is, who answers ahead of it, whether clients can
be heard without the coordinator, and what gateways ask of responders and of watchers of topics.

The topic is compacted and has a partition for each shard, with at most one record of each type. A responder goes on
from what the query has published; it never answers for another version of the coordinator than the query's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from schemas.foreign_json import json_decoder
from schemas.message_types import UUID_TEXT

WRITER_HEADER = "writer"
"""The header of an answer that a responder has written, and of a tick; those of the coordinator have none."""
RESPONDER_PREFIX = "responder-"
"""The header's value begins so, and goes on with the shard."""
GATEWAY_PREFIX = "gateway-"
"""It begins so where a gateway has written an answer that it was given by the shard's responder, and that Kafka did not
have. It is there to be compared: in the order of its group's answers it has no place, and readers pass over it."""
CORE_HASH_HEADER = "core_hash"
"""The header of a tick that moves nothing: here begins a query of another hash than the last, and this is its hash."""
DECIDED_AT_HEADER = "decided_at"
"""The header that names the event by which a responder came to its answer, which may be one to an earlier event."""


class QueryProgress(Struct, frozen=True, kw_only=True, tag="query_progress"):
    """The query of a shard has committed a batch."""

    core_hash: str
    """The hash of the core and its settings (`streaming.core_hash`)."""
    batch_id: int
    """-1: no batch is committed yet."""
    start_offset: int
    """The batch begins at this offset of the events partition. Timers are decided up to the clock there, at least."""
    end_offset: int
    """All events before this offset are decided."""
    clock_ms: int
    """The shard's clock at `start_offset`: Spark's watermark of this batch."""
    schema_version: Literal[1] = 1


class ResponderClaim(Struct, frozen=True, kw_only=True, tag="responder_claim"):
    """A responder answers for this shard, so an event that the query has not reached may have been answered."""

    core_hash: str
    schema_version: Literal[1] = 1


class ResponderProgress(Struct, frozen=True, kw_only=True, tag="responder_progress"):
    """A responder has answered up to here, so the clock may go on, however far the query is."""

    core_hash: str
    end_offset: int
    """All events before this offset are answered."""
    clock_ms: int
    """All timers that are due by this clock are answered."""
    schema_version: Literal[1] = 1


class GatewayAlive(Struct, frozen=True, kw_only=True, tag="gateway_alive"):
    """A gateway in a process without a query serves clients; it says so every second. While such a sign is fresh, a
    responder may write the clock if the coordinator does not."""

    schema_version: Literal[1] = 1


class AnswerDifference(Struct, frozen=True, kw_only=True, tag="answer_difference"):
    """An answer of a responder differs from the query's: no responder with this hash answers for this shard until the
    query is started again. The same record lies on the differences topic."""

    core_hash: str
    shard: int
    request_id: str
    epoch: int
    seq: int
    detail: str
    responses_partition: int
    responder_offset: int | None
    """The offset of the responder's answer in that partition of the responses topic."""
    query_offset: int | None
    """The offset of the query's answer; None: the query gave none."""
    schema_version: Literal[1] = 1


class SeenTopic(Struct, frozen=True, gc=False):
    """A topic that somebody has asked the brokers for."""

    name: str
    topic_id: UUID_TEXT | None = None
    """An id under which the topic is, or was, there; null: not known."""


class TopicsSeen(Struct, frozen=True, kw_only=True, tag="topics_seen"):
    """The topics topic does not say what the brokers say of these topics, or what groups have committed. The shard's
    watcher of topics looks at them at once. It believes what it sees itself."""

    cluster_id: str | None
    """The cluster whose brokers were asked; null: none were, and no id is named."""
    topics: tuple[SeenTopic, ...]
    schema_version: Literal[1] = 1


class GroupsAsked(Struct, frozen=True, kw_only=True, tag="groups_asked"):
    """Somebody who lists the groups asks the shard's responder which have changed lately."""

    asker: str
    number: int
    """The asker's later questions have larger numbers."""
    schema_version: Literal[1] = 1


class ChangedGroup(Struct, frozen=True, kw_only=True, gc=False):
    """A group as the responder's last answers show it, as far as ListGroups tells."""

    group_id: str
    epoch: int
    seq: int
    """It was so from this output on: what was published of the group with a later one is newer."""
    state: str | None
    """Null: it is not listed any more."""
    group_type: str = ""
    protocol_type: str = ""


class GroupsChanged(Struct, frozen=True, kw_only=True, tag="groups_changed"):
    """A responder answers which groups have changed since what the query has published for sure."""

    asker: str
    number: int
    """The question's."""
    groups: tuple[ChangedGroup, ...]
    is_last: bool
    """False: another record with more groups follows."""
    schema_version: Literal[1] = 1


ProgressRecord = (
    QueryProgress
    | ResponderClaim
    | ResponderProgress
    | GatewayAlive
    | AnswerDifference
    | TopicsSeen
    | GroupsAsked
    | GroupsChanged
)


_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], ProgressRecord] = json_decoder(ProgressRecord)


def key_of(kind: type[ProgressRecord]) -> bytes:
    """Return the key of a type's records on the progress topic."""
    return str(kind.__struct_config__.tag).encode()


def encode_progress(record: ProgressRecord) -> bytes:
    """Encode a record's value as JSON."""
    return _encode(record)


def decode_progress(value: bytes) -> ProgressRecord | None:
    """Decode a record's value. None: it cannot be read; a release that knows more may have written it."""
    try:
        return _decode(value)
    except msgspec.DecodeError:
        return None
