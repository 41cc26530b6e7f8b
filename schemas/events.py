"""What lies on the events and responses topics: envelopes and ticks, and how they are read and written.

An event is a record of the events topic. Its key is the group id (UTF-8); its value is a JSON object whose `type` says
what it is: `request` (one request to one group), `renew_sessions` (the clock had stood still), `topics_deleted` (topics
are gone of which the group may have offsets), `transaction_ended` (of a producer that may have committed offsets of the
group in it), `topic_metadata`, `regexes_resolved` and `group_config` (what a consumer group must know of the cluster,
and its own settings) or, with a null key, `tick` (the clock) or that of `schemas.rules_events`. Recordings also have
those of `schemas.recorded`. What cannot be read raises `EventError` and becomes a dead letter; it changes no group.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal, final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from schemas.consumer_group_messages import ConsumerGroupDescribeRequest
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.message_types import INT32, INT64, UUID_TEXT
from schemas.messages import (
    APIS,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    OffsetFetchRequest,
    Request,
    Response,
)
from schemas.recorded import RecordedFact, RecordedGroup, RecordedLoad, RecordedRequest
from schemas.transaction_messages import PRODUCER_EPOCH, TransactionLogPosition

WIRE_STRING_MAX_BYTES = 32_767
"""Longest string of Kafka's classic encoding; the offsets log must be able to hold every id and name."""
REQUEST_ID_MAX_CHARACTERS = 255
"""A group keeps the id of each request that it has parked, and every record of what follows names it."""
MEMBER_ID_SUFFIX_BYTES = 37
"""A minted member id is the client id (or instance id), a hyphen and a UUID."""


class EventProblem(StrEnum):
    """Why an event was not understood: the `reason` header of its dead letter."""

    NO_KEY = "no_key"
    KEY_NOT_UTF8 = "key_not_utf8"
    NO_VALUE = "no_value"
    NOT_AN_ENVELOPE = "not_an_envelope"
    UNKNOWN_API = "unknown_api"
    BAD_BODY = "bad_body"
    GROUP_DIFFERS_FROM_KEY = "group_differs_from_key"
    NO_SUCH_REPLY_PARTITION = "no_such_reply_partition"
    STRING_TOO_LONG = "string_too_long"
    MALFORMED_TICK = "malformed_tick"
    MALFORMED_RULES = "malformed_rules"
    DAMAGED_LOG_LINE = "damaged_log_line"


OUTPUT_TOO_LARGE = "output_too_large"
"""The `reason` of a dead letter that stands for an output beyond `output_max_bytes`."""


class EventError(ValueError):
    """An event that cannot be understood, with the reason that its dead letter will carry."""

    def __init__(self, problem: EventProblem, detail: str) -> None:
        super().__init__(f"{problem}: {detail}")
        self.problem = problem
        self.detail = detail


class Tick(Struct, frozen=True, kw_only=True, tag_field="type", tag="tick"):
    """The clock of its partition. Its key is null. Ticks, and nothing else, move time."""

    clock_ms: INT64
    """Time has reached this (milliseconds since 1970)."""


@final
class SessionRenewal(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="renew_sessions"):
    """The clock stood still and goes on now: each member of the group has its whole session from here.

    Whoever writes the ticks writes one for each group that may have members, before the first tick after a pause. It
    has no answer. Kafka does the same when a coordinator loads a group (`GroupMetadataManager.onLoaded`).
    """

    schema_version: Literal[1] = 1
    """Version of this event."""
    moves_time: bool = False
    """The group's time moves to this event's append time, with all that the group waits for or counts from."""


class DeletedTopic(Struct, frozen=True, kw_only=True, gc=False):
    """One topic that is gone. A topic made again under its name is another topic: it has another id."""

    name: str
    topic_id: UUID_TEXT | None = None
    """The id that it had; null: not known. Offsets of this name that were stored with this id or without any are
    dropped."""


@final
class TopicsDeleted(Struct, frozen=True, kw_only=True, tag_field="type", tag="topics_deleted"):
    """Topics were deleted: the group forgets the offsets that it has committed for them, subscribed to them or not.

    It has no answer, and none of these topics need be known to the group. Sent twice, the second changes nothing.
    Whoever watches the cluster's topics writes it to each group that has offsets of them (Kafka:
    `onPartitionsDeleted`).
    """

    topics: tuple[DeletedTopic, ...]
    """In any number that fits into an event; more of them are further events."""
    schema_version: Literal[1] = 1
    """Version of this event."""


@final
class TransactionEnded(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag="transaction_ended"):
    """A producer's transaction was committed or aborted: so are the offsets that are pending in it (TxnOffsetCommit).

    It has no answer. To a group that has nothing pending of the producer it does nothing, so sent twice, the second
    changes nothing. Whoever writes it names each group that may have (Kafka: WriteTxnMarkers).
    """

    producer_id: INT64
    producer_epoch: PRODUCER_EPOCH
    """That of the marker; information only: a newer one than that of the commits, since KIP-890."""
    committed: bool
    """False: aborted."""
    log: TransactionLogPosition | None = None
    """Where the end lies in the log of transactions, if there is one. An end at or before the last place that the group
    has seen is a repeat and is ignored."""
    schema_version: Literal[1] = 1
    """Version of this event."""


GroupEventBody = (
    SessionRenewal
    | TopicsDeleted
    | TransactionEnded
    | TopicMetadata
    | RegexesResolved
    | GroupConfiguration
    | RecordedFact
)
"""Events of a group that are no requests."""


class RequestHeader(Struct, frozen=True, kw_only=True, gc=False):
    """One request to one group: what every request has."""

    request_id: str
    """Unique by its sender (a UUID), at most 255 characters; the answer carries it. Sent twice, it is handled twice."""
    reply_partition: INT32
    """The partition of the responses topic that the sender reads."""
    api: str
    """Kafka's name of the API, for example `JoinGroup`: says what the body is."""
    api_version: INT32
    """The version that the client speaks; some answers depend on it."""
    client_id: str = ""
    """Kafka's `client.id`; a new member's id begins with it."""
    client_host: str = "/127.0.0.1"
    """As Java prints an address: with a leading slash."""
    new_member_id: str | None = None
    """The member id to give out should this request need a new one; absent, it is derived from the request id."""
    topic_metadata: TopicMetadata | UnsetType | None = UNSET
    """The cluster's topics, for a group that may not know them yet; taken in before the request."""
    recorded: RecordedRequest | UnsetType = UNSET
    """Where the recording has it that it is taken from; absent: it was sent to this coordinator."""
    principal: str | UnsetType = UNSET
    """The client's user, in the log of transactions alone."""
    schema_version: Literal[1] = 1
    """Version of this envelope."""


@final
class RequestEnvelope(RequestHeader, frozen=True, kw_only=True, gc=False, tag_field="type", tag="request"):
    """One request to one group, as it is read: the body is decoded when its API is known."""

    body: Raw
    """The request, in Kafka's field names in snake case."""


class RequestDocument(RequestHeader, frozen=True, kw_only=True, tag_field="type", tag="request"):
    """One request to one group."""

    body: Any
    """The request, in Kafka's field names in snake case (below, by API)."""


class ResponseHeader(Struct, frozen=True, kw_only=True):
    """The answer to one request: what every answer has."""

    request_id: str
    """The request that is answered."""
    group_id: str
    """The group."""
    epoch: int
    """Offset of the event that began this life of the group."""
    seq: int
    """Number of this output within (group, epoch)."""
    api: str
    """Kafka's name of the API: says what the body is."""
    api_version: int
    """The version of the request."""
    answers_offset: int
    """Offset of the request in the events topic."""
    time_ms: int
    """The group's time when the answer was given."""
    schema_version: Literal[1] = 1
    """Version of this envelope."""


class ResponseEnvelope(ResponseHeader, frozen=True, kw_only=True, tag_field="type", tag="response"):
    """The answer to one request, as it is first read: the body still raw."""

    body: Raw
    """The answer, in Kafka's field names in snake case."""


class ResponseDocument(ResponseHeader, frozen=True, kw_only=True, tag_field="type", tag="response"):
    """The answer to one request (key of the record: the request id)."""

    body: Any
    """The answer, in Kafka's field names in snake case (below, by API)."""


_decode_group_event = msgspec.json.Decoder(RequestEnvelope | GroupEventBody).decode
_decode_tick = msgspec.json.Decoder(Tick).decode
_decode_response_envelope = msgspec.json.Decoder(ResponseEnvelope).decode
_decode_request: dict[str, Callable[[Raw], Any]] = {
    name: msgspec.json.Decoder(api.request).decode for name, api in APIS.items()
}
_decode_response: dict[str, Callable[[Raw], Any]] = {
    name: msgspec.json.Decoder(api.response).decode for name, api in APIS.items()
}
encode_json = msgspec.json.Encoder().encode


def decode_group_id(key: bytes | None) -> str:
    """Return the group id that an event's key names. Raises `EventError` for null and for bytes that are no UTF-8."""
    if key is None:
        raise EventError(EventProblem.NO_KEY, "the event has no key, so it names no group, and it is not a tick")
    try:
        return bytes(key).decode()
    except UnicodeDecodeError as error:
        raise EventError(
            EventProblem.KEY_NOT_UTF8, f"the key is not UTF-8: {error.reason} at byte {error.start}"
        ) from None


def decode_tick(value: bytes) -> Tick:
    """Read a tick. Raises `EventError`."""
    try:
        return _decode_tick(value)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise EventError(EventProblem.MALFORMED_TICK, str(error)) from None


def decode_group_event(group_id: str, value: bytes | None) -> tuple[RequestEnvelope, Request] | GroupEventBody:
    """Read an event of a group: one that has its id as key.

    Whether the partition is there which its sender reads is for whoever writes the answer to see: it changes with time.
    Raises `EventError`, and nothing else, for whatever bytes there are.
    """
    if value is None:
        raise EventError(EventProblem.NO_VALUE, "the event has no value")
    try:
        event: RequestEnvelope | GroupEventBody = _decode_group_event(value)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise EventError(EventProblem.NOT_AN_ENVELOPE, str(error)) from None
    if type(event) is not RequestEnvelope:
        _check_other(event, len(value))
        return event
    decode = _decode_request.get(event.api)
    if decode is None:
        raise EventError(EventProblem.UNKNOWN_API, f"no API of one group is called {event.api[:100]!r}")
    try:
        request: Request = decode(event.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise EventError(EventProblem.BAD_BODY, f"{event.api}: {error}") from None
    if event.reply_partition < 0:
        raise EventError(EventProblem.NO_SUCH_REPLY_PARTITION, f"reply_partition is {event.reply_partition}")
    if getattr(request, "group_id", None) != group_id and (named := groups_named(request)) != (group_id,):
        raise EventError(
            EventProblem.GROUP_DIFFERS_FROM_KEY,
            f"the event of one group names {len(named)} groups"
            if len(named) != 1
            else "body and key name different groups",
        )
    if len(event.request_id) > REQUEST_ID_MAX_CHARACTERS:
        raise EventError(
            EventProblem.STRING_TOO_LONG, f"request_id is longer than {REQUEST_ID_MAX_CHARACTERS} characters"
        )
    if len(value) + MEMBER_ID_SUFFIX_BYTES > WIRE_STRING_MAX_BYTES:
        _check_strings(msgspec.structs.replace(event, body=Raw(b"null")), request)
    return event, request


def decode_request_event(group_id: str, value: bytes | None) -> tuple[RequestEnvelope, Request]:
    """Read an event of a group that is a request. Raises `EventError`, as `decode_group_event` does."""
    event = decode_group_event(group_id, value)
    if not isinstance(event, tuple):
        raise EventError(
            EventProblem.NOT_AN_ENVELOPE, f"the event is {type(event).__struct_config__.tag}; it is no request"
        )
    return event


def groups_named(request: Request) -> tuple[str, ...]:
    """Return the ids of the groups that a request names."""
    match request:
        case OffsetFetchRequest():
            return tuple(group.group_id for group in request.groups)
        case DescribeGroupsRequest():
            return request.groups
        case DeleteGroupsRequest():
            return request.groups_names
        case ConsumerGroupDescribeRequest():
            return request.group_ids
        case FindCoordinatorRequest():
            return request.coordinator_keys
        case _:
            return (request.group_id,)


def _check_other(event: GroupEventBody, size_bytes: int) -> None:
    """Refuse what no recording can say."""
    if size_bytes > WIRE_STRING_MAX_BYTES:
        _check_strings(event)
    if isinstance(event, RecordedGroup | RecordedLoad) and (problem := event.problem()) is not None:
        raise EventError(EventProblem.BAD_BODY, f"{event.__struct_config__.tag}: {problem}")


def _check_strings(*parts: Struct) -> None:
    """Refuse strings that the offsets log cannot hold. Only a large event can have one, so only those come here."""
    longest = WIRE_STRING_MAX_BYTES - MEMBER_ID_SUFFIX_BYTES
    for part in parts:
        for path, text in _strings(msgspec.to_builtins(part, builtin_types=(bytes, Raw)), ""):
            if len(text.encode()) > longest:
                raise EventError(EventProblem.STRING_TOO_LONG, f"{path.lstrip('.')} is longer than {longest} bytes")


def _strings(value: Any, path: str) -> Any:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _strings(item, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _strings(item, f"{path}[{index}]")


def encode_request_event(
    api: str,
    api_version: int,
    request: Request,
    *,
    request_id: str,
    reply_partition: int,
    client_id: str,
    client_host: str = "/127.0.0.1",
    new_member_id: str | None = None,
    topic_metadata: TopicMetadata | UnsetType = UNSET,
    recorded: RecordedRequest | UnsetType = UNSET,
    principal: str | UnsetType = UNSET,
) -> bytes:
    """Write a request event's value; its key is the group id in UTF-8."""
    document = RequestDocument(
        request_id=request_id, reply_partition=reply_partition, api=api, api_version=api_version, client_id=client_id,
        client_host=client_host, new_member_id=new_member_id, topic_metadata=topic_metadata, recorded=recorded,
        principal=principal, body=request,
    )  # fmt: skip
    return encode_json(document)


def encode_tick(clock_ms: int) -> bytes:
    """Write a tick's value; its key is null."""
    return b'{"type":"tick","clock_ms":%d}' % clock_ms


SESSION_RENEWAL, RENEWAL_AT_PRESENT = encode_json(SessionRenewal()), encode_json(SessionRenewal(moves_time=True))
"""The values of events that renew a group's sessions, and that move its time to the present as well."""


def decode_response_event(value: bytes) -> tuple[ResponseEnvelope, Response]:
    """Read an answer from the responses topic. Raises `EventError`."""
    try:
        envelope = _decode_response_envelope(value)
        response: Response = _decode_response[envelope.api](envelope.body)
    except (msgspec.DecodeError, KeyError, RecursionError, UnicodeDecodeError) as error:
        raise EventError(EventProblem.NOT_AN_ENVELOPE, str(error)) from None
    return envelope, response
