"""Topics taken out of a Fetch, and put into its answer as refused: records are never looked at. Source: Kafka's Fetch,
v4 to v18.

A Fetch without them is a request of its own, not one of a fetch session (KIP-227): the broker's session would not know
them, and so nobody would be told again.
"""

from __future__ import annotations

from struct import Struct

from group_coordinator.coordinating.gateway.codec import response_body_start, response_payload
from group_coordinator.coordinating.gateway.frames import LENGTH
from group_coordinator.coordinating.gateway.topic_fields import Mention, unsigned_varint
from schemas.kafka.codec import decode_struct, encode_struct, is_flexible
from schemas.kafka.definitions import definition_of
from schemas.wire import INT16, INT32, encode_count

REQUEST = "FetchRequest"
RESPONSE = "FetchResponse"
UNKNOWN_TOPIC_ID = 100
_FETCH_SESSION_ID_NOT_FOUND = 70
HEAD_BYTES_MAX = 24
"""An answer's beginning, up to the number of its topics."""
_SESSIONS = 7
_REPLICA_IN_TAGS = 15
_BEFORE_SESSION = 13
"""The longest wait, the bytes wanted at least and at most, and the isolation level."""
_SESSION = Struct(">ii")
_NO_SESSION = _SESSION.pack(0, -1)
_TOPICS = "Topics"
_NOTHING_FETCHED = {
    "high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1, "aborted_transactions": None,
    "preferred_read_replica": -1, "records": b"",
}  # fmt: skip


def is_asked_for(mention: Mention) -> bool:
    """Return whether a topic is to be read; otherwise it is to be forgotten."""
    return mention.field is not None and mention.field.name == _TOPICS


def goes_on(version: int, payload: bytes, start: int) -> bool:
    """Return whether the request continues a fetch session, so that it may concern topics which it does not name."""
    return version >= _SESSIONS and _SESSION.unpack_from(payload, _session_at(version, start))[1] > 0


def forget_session(correlation_id: int, version: int) -> bytes:
    """Return the answer that makes a client ask again, with all topics named."""
    values = {"error_code": _FETCH_SESSION_ID_NOT_FOUND, "responses": ()}
    return response_payload(RESPONSE, version, correlation_id, values)


def without(version: int, payload: bytes, start: int, mentions: list[Mention]) -> bytes:
    """Return the request without these topics, and of no fetch session."""
    array, flexible = mentions[0].array, is_flexible(REQUEST, version)
    parts, at = [], 0
    if version >= _SESSIONS:
        session_at = _session_at(version, start)
        parts, at = [payload[:session_at], _NO_SESSION], session_at + _SESSION.size
    parts += (payload[at : array.begin], encode_count(array.count - len(mentions), flexible))
    at = array.end
    for mention in mentions:
        parts.append(payload[at : mention.begin])
        at = mention.end
    return b"".join([*parts, payload[at:]])


def refused(version: int, payload: bytes, mentions: list[tuple[Mention, int]]) -> bytes:
    """Return the part of the answer about refused topics, each with its reason."""
    flexible = is_flexible(REQUEST, version)
    (topic_struct,) = (field.struct for field in definition_of(RESPONSE).struct.fields if field.name == "Responses")
    assert topic_struct is not None
    parts = []
    for mention, error_code in mentions:
        assert mention.field is not None
        assert mention.field.struct is not None
        topic = decode_struct(mention.field.struct, version, flexible, payload[mention.begin : mention.end])
        partitions = tuple(
            {"partition_index": partition["partition"], "error_code": error_code, **_NOTHING_FETCHED}
            for partition in topic["partitions"]
        )
        identity: dict[str, object] = {name: topic[name] for name in ("topic", "topic_id") if name in topic}
        parts.append(encode_struct(topic_struct, version, flexible, identity | {"partitions": partitions}))
    return b"".join(parts)


def insert_topics(version: int, topics: bytes, count: int, beginning: bytes) -> bytes:
    """Return the beginning of the broker's answer, its length included, with further topics. The refusal of a whole
    request stays as it is."""
    flexible = is_flexible(RESPONSE, version)
    at = LENGTH.size + response_body_start(RESPONSE, version) + INT32.size
    if version >= _SESSIONS:
        if INT16.unpack_from(beginning, at)[0]:
            return beginning
        at += INT16.size + INT32.size
    if flexible:
        encoded, end = unsigned_varint(beginning, at)
        topic_count = encoded - 1
    else:
        topic_count, end = INT32.unpack_from(beginning, at)[0], at + INT32.size
    added = encode_count(max(topic_count, 0) + count, flexible) + topics
    size = LENGTH.unpack_from(beginning)[0] + len(added) - (end - at)
    return LENGTH.pack(size) + beginning[LENGTH.size : at] + added + beginning[end:]


def _session_at(version: int, start: int) -> int:
    return start + (0 if version >= _REPLICA_IN_TAGS else INT32.size) + _BEFORE_SESSION
