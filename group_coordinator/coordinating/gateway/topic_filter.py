"""The filter changes requests that name topics which their client may not name, and the answers to them.

The broker answers for them: in the request a name gets a first letter that no topic has, an id gives way to one that
there is not; the answer has the names back, with TOPIC_AUTHORIZATION_FAILED. So the other topics of the request go on,
and nothing is put together here. Reading differs, as its answers are bulk
(`group_coordinator.coordinating.gateway.fetch`), and so does writing
(`group_coordinator.coordinating.gateway.produce`). Where an answer lists topics that nobody asked for, those that a
client may not name are left out, as brokers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from msgspec import Struct, field

from group_coordinator.coordinating.gateway import fetch
from group_coordinator.coordinating.gateway.codec import body_start, request_payload, response_body_start
from group_coordinator.coordinating.gateway.frames import RequestHead
from group_coordinator.coordinating.gateway.produce import ProduceTopics
from group_coordinator.coordinating.gateway.rewriting import Rewrite
from group_coordinator.coordinating.gateway.topic_access import TopicAccess, Verdict
from group_coordinator.coordinating.gateway.topic_fields import Mention, find_topics
from group_coordinator.coordinating.gateway.versions import TOPIC_APIS, OtherApi
from schemas.error_codes import ErrorCode
from schemas.kafka.codec import decode, decode_struct, encode_struct, is_flexible
from schemas.wire import DecodeError, encode_count, encode_string

_NO_LETTER = "/"
"""No topic's name has it."""
_NAMED_BY_ID_FROM: dict[int, int] = {OtherApi.FETCH: 13, OtherApi.METADATA: 10, OtherApi.DELETE_TOPICS: 6}
_LISTS = frozenset(
    {
        OtherApi.METADATA, OtherApi.DESCRIBE_LOG_DIRS, OtherApi.ELECT_LEADERS, OtherApi.LIST_PARTITION_REASSIGNMENTS,
        OtherApi.DESCRIBE_TRANSACTIONS, OtherApi.LIST_CONFIG_RESOURCES, OtherApi.DESCRIBE_TOPIC_PARTITIONS,
    }
)  # fmt: skip
"""Those whose answers have topics that were not asked for."""
_METADATA_BY_ID = 12
_ITEMS_MAX = 100_000
"""Most topics, partitions and settings together that one request may have: to walk through them is work for the one
loop."""
_TOPICS_MAX = 25_000
"""Most topics that one request may name: each is looked at by itself."""
_STOPPED_MAX = 2_000
_STOPPED_BYTES_MAX = 65_536
"""Most topics that are refused in one request, and their bytes with partitions and all: they are taken apart and put
together again."""

Stopped = list[tuple[Mention, Verdict]]
NamesById = Mapping[bytes, str | None]
"""The names of topics by their ids, as a broker has just said; None: there is no such topic."""


class Masks(Struct, frozen=True):
    """The names in a request that replace those of its client."""

    names: dict[str, str] = field(default_factory=dict)
    ids: dict[bytes, tuple[bytes, bool]] = field(default_factory=dict)
    """And whether the topic is refused; otherwise there is none."""

    def __bool__(self) -> bool:
        return bool(self.names or self.ids)


class Passage(Struct, frozen=True, kw_only=True):
    """The form in which a request goes on."""

    payload: bytes
    rewrite: Rewrite | None = None
    """What is to be done with the answer."""
    change_beginning: Rewrite | None = None
    """What is to be done with the answer's beginning."""


class Answer(Struct, frozen=True):
    """The answer that the client gets at once."""

    payload: bytes


class Question(Struct, frozen=True):
    """The request that the broker must answer first: which topics these are."""

    head: RequestHead
    payload: bytes
    ids: tuple[bytes, ...]


class TopicFilter:
    """One connection's requests, as far as they name topics."""

    def __init__(self, access: TopicAccess) -> None:
        self._access = access

    def pass_on(
        self, head: RequestHead, payload: bytes, principal: str, names_by_id: NamesById
    ) -> Passage | Answer | Question:
        """Decide what becomes of a request. `names_by_id` is the answer to the question that it waited for.

        Raises `DecodeError`."""
        by_id = head.api_version >= _NAMED_BY_ID_FROM.get(head.api_key, head.api_version + 1)
        if not by_id and self._access.mark not in payload:
            return Passage(payload=payload, rewrite=self._hide(head, principal))
        message = TOPIC_APIS[head.api_key] + "Request"
        start = body_start(message, head, payload)
        mentions = find_topics(message, head.api_version, payload, start, _ITEMS_MAX, _TOPICS_MAX)
        verdicts = [(mention, self._verdict(principal, mention, names_by_id)) for mention in mentions]
        unknown_ids = tuple(
            dict.fromkeys(
                mention.topic_id for mention, verdict in verdicts if mention.topic_id and verdict is Verdict.ASK
            )
        )
        if unknown_ids:
            return _question(head, unknown_ids)
        stopped: Stopped = [(mention, verdict) for mention, verdict in verdicts if verdict is not Verdict.PASS]
        _insist_on_few(stopped)
        if head.api_key == OtherApi.FETCH:
            return _without(head, payload, start, [topic for topic in stopped if fetch.is_asked_for(topic[0])])
        masked, masks = _masked(payload, stopped)
        return Passage(
            payload=masked, rewrite=self.reveal(head, principal, masks) if masks else self._hide(head, principal)
        )

    def read_answer(self, question: Question, payload: bytes) -> NamesById:
        """Read a broker's answer to a question. Raises `DecodeError`."""
        start = response_body_start("MetadataResponse", _METADATA_BY_ID)
        answer = decode("MetadataResponse", _METADATA_BY_ID, payload, start)
        names = {
            topic["topic_id"]: topic["name"] for topic in answer["topics"] if topic["name"] and not topic["error_code"]
        }
        for topic_id, name in names.items():
            self._access.learn(topic_id, name)
        return {topic_id: names.get(topic_id) for topic_id in question.ids}

    def ask_names(self, head: RequestHead, topic_ids: Iterable[bytes]) -> Question | None:
        """Return what the broker must be asked before these topics have names; None: they have."""
        unknown = tuple(topic_id for topic_id in topic_ids if self._access.name_of(topic_id) is None)
        return _question(head, unknown) if unknown else None

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic as a broker has told it."""
        return self._access.name_of(topic_id)

    def produce(self, head: RequestHead, topics_at: int, principal: str) -> ProduceTopics:
        """Let a Produce through whose topics begin there."""

        def mask(name: bytes) -> bytes | None:
            if not name.startswith(self._access.mark) or not self._access.refuses(
                principal, name.decode("utf-8", "replace")
            ):
                return None
            return _NO_LETTER.encode() + name[1:]

        return ProduceTopics(head.api_version, topics_at, mask)

    def reveal_produced(self, head: RequestHead, principal: str, masked: list[str]) -> Rewrite:
        """Return the change to the answer of a Produce with these names in it."""
        return self.reveal(head, principal, Masks({name: self._access.first_letter + name[1:] for name in masked}))

    def reveal(self, head: RequestHead, principal: str, masks: Masks) -> Rewrite:
        """Return the change to an answer."""
        return partial(self._revealed, TOPIC_APIS[head.api_key] + "Response", head.api_version, principal, masks)

    def _hide(self, head: RequestHead, principal: str) -> Rewrite | None:
        return self.reveal(head, principal, Masks()) if head.api_key in _LISTS else None

    def _verdict(self, principal: str, mention: Mention, names_by_id: NamesById) -> Verdict:
        """Decide by the name first, then by the id, if a topic has both, which brokers do not accept."""
        if mention.name is not None and self._access.refuses(principal, mention.name):
            return Verdict.REFUSE
        return (
            Verdict.PASS if mention.topic_id is None else self._access.verdict(principal, mention.topic_id, names_by_id)
        )

    def _revealed(self, message: str, version: int, principal: str, masks: Masks, payload: bytes) -> bytes:
        if not masks and self._access.mark not in payload:
            return payload
        flexible = is_flexible(message, version)
        edits: list[tuple[int, int, bytes]] = []
        removed: dict[int, tuple[Mention, int]] = {}
        for mention in find_topics(message, version, payload, response_body_start(message, version)):
            if mention.name in masks.names or mention.topic_id in masks.ids:
                item = payload[mention.begin : mention.end]
                edits.append((mention.begin, mention.end, _unmasked(mention, version, flexible, item, masks)))
            elif mention.name is not None and self._access.refuses(principal, mention.name):
                edits.append((mention.begin, mention.end, b""))
                removed[mention.array.begin] = mention, removed.get(mention.array.begin, (mention, 0))[1] + 1
        for mention, count in removed.values():
            array = mention.array
            edits.append((array.begin, array.end, encode_count(array.count - count, flexible)))
        return _edited(payload, edits)


def _question(head: RequestHead, ids: tuple[bytes, ...]) -> Question:
    """A Metadata request of our own, in the name of the client."""
    asking = RequestHead(OtherApi.METADATA, _METADATA_BY_ID, head.correlation_id, None, 0)
    topics = tuple({"topic_id": topic_id, "name": None} for topic_id in ids)
    payload = request_payload("MetadataRequest", asking, {"topics": topics, "allow_auto_topic_creation": False})
    return Question(asking, payload, ids)


def _without(head: RequestHead, payload: bytes, start: int, stopped: Stopped) -> Passage | Answer:
    """A Fetch without what is refused; the answer has it."""
    version = head.api_version
    if not stopped:
        return Passage(payload=payload)
    if fetch.goes_on(version, payload, start):
        return Answer(fetch.forget_session(head.correlation_id, version))
    codes = [(mention, _code(verdict)) for mention, verdict in stopped]
    return Passage(
        payload=fetch.without(version, payload, start, [mention for mention, _ in stopped]),
        change_beginning=partial(fetch.insert_topics, version, fetch.refused(version, payload, codes), len(codes)),
    )


def _insist_on_few(stopped: Stopped) -> None:
    """A request with so many refused topics is not one that a client needs. Raises DecodeError."""
    size = sum(mention.end - mention.begin for mention, _ in stopped)
    if len(stopped) > _STOPPED_MAX or size > _STOPPED_BYTES_MAX:
        begin = stopped[0][0].begin
        raise DecodeError(
            f"{len(stopped)} topics, {size} bytes of the request, would have to be refused one by one", begin
        )


def _code(verdict: Verdict) -> int:
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED if verdict is Verdict.REFUSE else fetch.UNKNOWN_TOPIC_ID


def _masked(payload: bytes, stopped: Stopped) -> tuple[bytes, Masks]:
    """The request with other names in it, of the same length."""
    masks, masked = Masks(), bytearray(payload)
    for mention, verdict in stopped:
        if mention.topic_id is not None:
            mask = uuid4().bytes
            masked[mention.id_at : mention.id_at + len(mask)] = mask
            masks.ids[mask] = mention.topic_id, verdict is Verdict.REFUSE
        if mention.name is not None:
            masked[mention.name_at] = ord(_NO_LETTER)
            masks.names[_NO_LETTER + mention.name[1:]] = mention.name
    return bytes(masked), masks


def _unmasked(mention: Mention, version: int, flexible: bool, item: bytes, masks: Masks) -> bytes:
    """An item of an answer under the name that its client knows."""
    if mention.field is None or mention.field.struct is None:
        assert mention.name is not None
        return encode_string(masks.names[mention.name], flexible)
    values = decode_struct(mention.field.struct, version, flexible, item)
    is_refused = True
    if mention.name in masks.names:
        values = {name: masks.names[mention.name] if value == mention.name else value for name, value in values.items()}
    if mention.topic_id in masks.ids:
        values["topic_id"], is_refused = masks.ids[mention.topic_id]
    return encode_struct(mention.field.struct, version, flexible, _refused(values) if is_refused else values)


def _refused(values: Any) -> Any:
    """Return a broker's answer about a topic without rights: every error code in it, without messages."""
    if isinstance(values, tuple):
        return tuple(map(_refused, values))
    if not isinstance(values, Mapping):
        return values
    refused = {name: _refused(value) for name, value in values.items()}
    for name in refused:
        if name.endswith("error_code"):
            refused[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name.endswith("error_message") and refused[name] is not None:
            refused[name] = _WORDS
    return refused


_WORDS = "Authorization failed."


def _edited(payload: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    parts: list[bytes] = []
    at = 0
    for begin, end, instead in sorted(edits):
        parts += (payload[at:begin], instead)
        at = end
    return b"".join([*parts, payload[at:]])

