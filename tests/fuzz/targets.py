"""Everything that decodes bytes of others, each with good examples and with the only exceptions that it may raise."""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from functools import cache
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coordinator_state import StateError, decode_group, encode_group
from group_coordinator.coordinating.assignors import sticky
from group_coordinator.coordinating.commands.committed_offsets import CsvError, at_end, from_csv
from group_coordinator.coordinating.gateway.codec import body_start
from group_coordinator.coordinating.gateway.frames import FrameError, FrameSplitter, frame, parse_request_head
from group_coordinator.coordinating.gateway.versions import GROUP_APIS
from group_coordinator.proving.recordings.cluster_topics import NO_IDS
from group_coordinator.proving.recordings.group_requests import group_requests
from group_coordinator.proving.recordings.kafka_json import KafkaJsonError
from group_coordinator.proving.recordings.offsets_log import read_offsets_record
from group_coordinator.proving.recordings.request_lines import MARK, read_line
from group_coordinator.watching.broker_logs.line_times import LineError
from group_coordinator.watching.dashboard.sources import request_of_event
from group_coordinator.watching.group_metrics.tally import Tally
from group_coordinator.watching.observed.offsets_log import raw_line
from schemas import consumer_protocol
from schemas.events import EventError, decode_group_event, decode_response_event, encode_json
from schemas.history import decode_history, decode_snapshot
from schemas.kafka.codec import decode
from schemas.messages import JoinGroupProtocol
from schemas.output_records import OutputRecord
from schemas.recorded import RecordedGroup, RecordedLeader, RecordedLoad, RecordedMember, RecordedOffset, RecordingGap
from schemas.records import GroupMetadataValue, MemberMetadata
from schemas.records_file import RecordsFileError, decode_event_record, encode_record
from schemas.ticks import read_tick
from schemas.wire import DecodeError
from streaming.buckets import decode_bucket, encode_bucket
from streaming.config import StreamingConfig
from streaming.operator import OperatorError, Outcome, coordinate_rows
from streaming.replay import replay_in_process
from streaming.rows import EventRow
from streaming.stored_group import StoredGroup
from tests.coordinating.gateway.random_messages import MESSAGES, random_message
from tests.coordinating.operations.tally_bench import bench
from tests.coordinator_state.harness import assignment, subscription
from tests.encoded_records import encode_group_metadata_value
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import START_MS, make_log

RESPONSES_PARTITIONS = 8
CONFIG = StreamingConfig(responses_partitions=RESPONSES_PARTITIONS, offsets_partitions=4, **SETTINGS)
TOPICS = CONFIG.topics
LOG = make_log(5, groups=2, mixed_groups=2, requests=400)
GROUPS = (b"group-0", b"mixed-0")
"""One of classic members, and one whose members use both protocols."""
_FIXTURES = Path(__file__).parents[1] / "fixtures"


class Target(Struct, frozen=True):
    """One decoder."""

    name: str
    examples: Callable[[], list[bytes]]
    decode: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...]
    """What its documentation says that it raises. Nothing else may come."""

    def try_(self, data: bytes) -> None:
        """Decode; an exception that is not documented comes out."""
        with suppress(*self.allowed):
            self.decode(data)


# ------------------------------------------------------------------------------------------------------ good examples


@cache
def _outputs() -> list[OutputRecord]:
    return [record for _, records in replay_in_process(LOG, CONFIG) for record in records]


@cache
def _written(topic: str) -> list[bytes]:
    return [record.value for record in _outputs() if record.topic == topic and record.value is not None]


def _of_all_topics() -> list[bytes]:
    return [
        *_requests()[:50],
        *(value for name in (TOPICS.responses, TOPICS.history, TOPICS.assignments) for value in _written(name)[:50]),
    ]


@cache
def _requests() -> list[bytes]:
    return [
        record.value
        for record in LOG
        if record.key in GROUPS and record.value is not None and len(record.value) < 5_000
    ]


def _recorded() -> list[bytes]:
    """What a recording says of a group besides requests."""
    protocol = JoinGroupProtocol(name="range", metadata=b"\x00\x01\x00\x00\x00\x01\x00\x06orders")
    member = RecordedMember(
        member_id="m-1", client_id="m", client_host="/127.0.0.1", session_timeout_ms=6_000, rebalance_timeout_ms=9_000,
        protocols=(protocol,),
    )  # fmt: skip
    recorded_group = RecordedGroup(
        generation_id=7,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="m-2",
        members=(member, replace(member, member_id="m-2", group_instance_id="i")),
        offsets=(
            RecordedOffset(topic="orders", partition=1, offset=2),
            RecordedOffset(topic="orders", partition=1, offset=3),
        ),
    )
    stored = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m-1",
        members=(
            MemberMetadata(
                member_id="m-1", client_id="m", client_host="/127.0.0.1", session_timeout_ms=6_000,
                subscription=protocol.metadata, assignment=b"",
            ),
        ),
    )  # fmt: skip
    load = RecordedLoad(loaded_ms=START_MS, group_metadata=encode_group_metadata_value(stored, 3))
    return [
        encode_json(fact)
        for fact in (
            recorded_group,
            load,
            RecordedLeader(member_ids=("m-1", "b")),
            RecordingGap(reason="lines are missing"),
        )
    ]


def _group_events() -> list[bytes]:
    return [*_requests(), *_recorded() * 20]


def _ticks() -> list[bytes]:
    return [record.value for record in LOG if record.key is None and record.value is not None]


@cache
def _request_lines() -> list[bytes]:
    """Lines of a real broker's request log."""
    log = gzip.decompress((_FIXTURES / "recordings" / "mixed.request.log.gz").read_bytes())
    lines = [line for line in log.splitlines() if MARK in line][:300]
    header = b'{"requestHeader":{"requestApiKey":3,"requestApiVersion":13,"correlationId":1},"request":{},"connection":"a:1-b:2-0",'
    metadata = header + b'"response":{"topics":[{"name":"t","topicId":"x"}]},"totalTimeMs":1}'
    return [*lines, b"2026-11-21T10:00:00Z Completed request:" + metadata]


@cache
def _offsets_records() -> list[bytes]:
    """Keys and values in one: two bytes of the key's length, the key, the value."""
    records = [output for output in _outputs() if output.topic == TOPICS.offsets]
    return [len(record.key or b"").to_bytes(2) + (record.key or b"") + (record.value or b"") for record in records]


@cache
def _offsets_lines() -> list[bytes]:
    return [
        msgspec.json.encode({
            "partition": 1, "offset": 7, "timestamp_ms": START_MS, "key": b64encode(output.key or b"").decode(),
            "value": None if output.value is None else b64encode(output.value).decode(),
        })
        for output in _outputs() if output.topic == TOPICS.offsets
    ]  # fmt: skip


def _blobs() -> list[bytes]:
    encoded = sticky.encode_sticky_user_data([consumer_protocol.TopicPartition("t", 1)], 3)
    rich = consumer_protocol.Subscription(topics=("a", "b"), user_data=encoded)
    return [
        subscription("a", "b"), assignment("t", 0, 1, 2), encoded, consumer_protocol.encode_subscription(rich),
        b"\x00" * 4,
    ]  # fmt: skip


@cache
def _states() -> list[tuple[bytes, bytes]]:
    """The two blobs of groups, at many moments of their lives."""
    outcomes = {group_id: Outcome(None, None, []) for group_id in GROUPS}
    states, clock_ms = [], START_MS
    for offset, record in enumerate(LOG):
        if record.key is None:
            with suppress(EventError):
                clock_ms = max(
                    clock_ms, read_tick(record.value, record.timestamp_ms, OPERATOR.group.tick_ahead_bound_ms)
                )
        elif record.key in outcomes:
            row = EventRow(offset, clock_ms, clock_ms, record.value)
            outcome = coordinate_rows(record.key, [row], OPERATOR, group=outcomes[record.key].group, clock_ms=clock_ms)
            if outcome.group is not None:
                states.append(encode_group(outcome.group))
                outcome = outcome._replace(group=decode_group(*states[-1]))
            outcomes[record.key] = outcome
    return states


OPERATOR = CONFIG.operator_config()


@cache
def _state_examples() -> list[bytes]:
    return [len(membership).to_bytes(4) + membership + offsets for membership, offsets in _states()]


@cache
def _bucket_examples() -> list[bytes]:
    """Buckets of no group, of one and of several, with deadlines and without."""
    groups = [
        StoredGroup(None if number % 3 == 0 else START_MS + number, *state) for number, state in enumerate(_states())
    ]
    sizes = (0, 1, 2, 5)
    return [
        encode_bucket(
            {b"group-%d" % (first + number): group for number, group in enumerate(groups[first : first + size])}
        )
        for first in range(0, len(groups), 7)
        for size in sizes
    ]


@cache
def _frames() -> list[bytes]:
    """A request of every kind and version, as a client sends it."""
    frames = []
    for message, version in MESSAGES:
        if message.endswith("Request"):
            request, _ = random_message(message, version, Random(f"{message}{version}"))
            request.with_header(correlation_id=7, client_id="c")
            frames.append(frame(bytes(request.encode(version=version, header=True))))
    return frames


def _csv() -> list[bytes]:
    return [b"g,t,0,1\ng,t,1,2\n", b't,0,9223372036854775807\n"a,b",1,0\n']


# ------------------------------------------------------------------------------------------------------------ decoders


def _decode_request_line(data: bytes) -> None:
    read = read_line(data, 0, 1, UTC)
    if read is None or read.request is None:
        return
    group_requests(read.request, "request.log", NO_IDS)


def _decode_blob(data: bytes) -> None:
    consumer_protocol.subscribed_topics(data)
    sticky.decode_sticky_user_data(data)
    sticky.decode_generation(data)
    for decode_bytes in (consumer_protocol.decode_subscription, consumer_protocol.decode_assignment):
        with suppress(DecodeError):
            decode_bytes(data)


def _decode_offsets_record(data: bytes) -> None:
    size = int.from_bytes(data[:2])
    key, value = data[2 : 2 + size], data[2 + size :] or None
    at_end([(key, value)])


def _decode_state(data: bytes) -> None:
    size = int.from_bytes(data[:4])
    group = decode_group(data[4 : 4 + size], data[4 + size :])
    encode_group(group)


def _decode_bucket(data: bytes) -> None:
    encode_bucket(decode_bucket(data))


def _decode_frames(data: bytes) -> None:
    splitter = FrameSplitter(1_000_000)
    splitter.feed(data)
    while (payload := splitter.whole()) is not None:
        head = parse_request_head(payload)
        if head is None:
            continue
        message = _MESSAGE_OF_KEY.get(head.api_key)
        if message is not None and (f"{message}Request", head.api_version) in MESSAGES:
            request = f"{message}Request"
            decode(request, head.api_version, payload, body_start(request, head, payload))


_MESSAGE_OF_KEY = {int(key): name for key, name in GROUP_APIS.items()}


def _read_tick(data: bytes) -> None:
    """What is taken for a tick lies no further ahead of its record than it may; no earlier record takes more."""
    clock_ms = read_tick(data, None, 0)
    for timestamp_ms, ahead_ms in ((START_MS, 3_000), (1, 0), (clock_ms, 0)):
        try:
            read_ms = read_tick(data, timestamp_ms, ahead_ms)
        except EventError:
            read_ms = None
        assert read_ms == (clock_ms if clock_ms <= timestamp_ms + ahead_ms else None)


def _handle(data: bytes) -> None:
    """Any value of an event, sent to a group in the middle of its life, and an hour after it: no batch may fail.

    What cannot be read changes nothing at all and becomes one dead letter.
    """
    states = _states()
    stored = states[len(data) % len(states)]
    clock_ms = START_MS + 10_000_000
    outcome = coordinate_rows(
        b"group-0",
        [EventRow(9_999, START_MS, START_MS, data)],
        OPERATOR,
        group=decode_group(*stored),
        clock_ms=START_MS,
    )
    try:
        decode_group_event("group-0", data)
    except EventError:
        alone = coordinate_rows(b"group-0", [], OPERATOR, group=decode_group(*stored), clock_ms=START_MS)
        letter, *other_records = outcome.records
        assert letter.topic == TOPICS.dead_letters
        assert other_records == alone.records
        assert outcome.group is not None
        assert alone.group is not None
        assert encode_group(outcome.group) == encode_group(alone.group), "what cannot be read has changed the group"
    if outcome.group is not None:
        membership, offsets = encode_group(outcome.group)
        coordinate_rows(b"group-0", [], OPERATOR, group=decode_group(membership, offsets), clock_ms=clock_ms)


@cache
def _tally() -> Tally:
    return bench().tally


def _count(data: bytes) -> None:
    """The thread that counts must live on, whatever lies on the topics."""
    tally = _tally()
    tally.event(0, 1, START_MS, b"g", data)
    counts: tuple[Callable[[], object], ...] = (
        lambda: tally.answer(0, START_MS, data),
        lambda: tally.history(decode_history(data)),
        lambda: tally.group(b"g", data),
    )
    for count in counts:
        with suppress(msgspec.DecodeError):
            count()


def _decode_csv(data: bytes) -> None:
    from_csv(data.decode(errors="surrogateescape"), ["g"])


TARGETS = {
    target.name: target
    for target in (
        Target("events", _group_events, lambda data: decode_group_event("group-0", data), (EventError,)),
        Target("ticks", _ticks, _read_tick, (EventError,)),
        Target("core", _group_events, _handle, ()),
        Target("responses", lambda: _written(TOPICS.responses), decode_response_event, (EventError,)),
        Target("history", lambda: _written(TOPICS.history), decode_history, (msgspec.DecodeError,)),
        Target("assignments", lambda: _written(TOPICS.assignments), decode_snapshot, (msgspec.DecodeError,)),
        Target("metrics", _of_all_topics, _count, ()),
        Target("dashboard", _requests, request_of_event, ()),
        Target("offsets", _offsets_records, _decode_offsets_record, (DecodeError,)),
        Target("offsets_lines", _offsets_lines, lambda data: read_offsets_record(*raw_line(data)),
               (msgspec.DecodeError, ValueError, RecursionError)),
        Target("records_file", lambda: [encode_record(record) for record in LOG if len(record.value or b"") < 5_000],
               decode_event_record, (RecordsFileError,)),
        Target("request_log", _request_lines, _decode_request_line, (LineError, KafkaJsonError)),
        Target("consumer_protocol", _blobs, _decode_blob, ()),
        Target("state", _state_examples, _decode_state, (StateError,)),
        Target("buckets", _bucket_examples, _decode_bucket, (OperatorError,)),
        Target("gateway", _frames, _decode_frames, (FrameError, DecodeError)),
        Target("csv", _csv, _decode_csv, (CsvError,)),
    )
}  # fmt: skip
