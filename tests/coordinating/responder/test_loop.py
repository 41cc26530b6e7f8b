"""The loop of a responder without a broker: how far it says that it has answered, and how long it goes on alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, cast

import pytest
from confluent_kafka import Message
from msgspec.structs import replace

from coordinator_state import GroupCoordinator, encode_group, group_event
from group_coordinator.coordinating.responder import loop
from group_coordinator.coordinating.responder.loop import Responder
from group_coordinator.coordinating.responder.permission import (
    ResponderAloneError,
    ResponderError,
    ResponderRefusedError,
)
from group_coordinator.ground.kafka_topics.reader import headers_of
from schemas.events import decode_group_event, decode_tick, encode_request_event, encode_tick
from schemas.messages import (
    JoinGroupProtocol,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    Request,
)
from schemas.query_progress import (
    CORE_HASH_HEADER,
    ProgressRecord,
    QueryProgress,
    ResponderClaim,
    ResponderProgress,
    decode_progress,
    encode_progress,
    key_of,
)
from streaming import answered_ahead
from streaming.answered_ahead import begin_progress
from streaming.checkpoints import CheckpointError
from streaming.progress_topic import ProgressPublisher, PublishedRecord
from streaming.stored_group import CommittedBatch, ShardState, StoredGroup
from streaming.topics import TopicError, TopicReport
from tests.coordinating.responder.fake_kafka import FakeKafka
from tests.coordinating.responder.fake_shard import CONFIG, PROGRESS, STATE, TOPICS, heartbeat, kafka_with_progress
from tests.coordinating.responder.query_batches import pieces_of

JOIN = JoinGroupRequest(
    group_id="g", session_timeout_ms=60_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
    protocols=(JoinGroupProtocol(name="range", metadata=b""),),
)  # fmt: skip
COMMIT = OffsetCommitRequest(
    group_id="g",
    topics=(
        OffsetCommitRequestTopic(
            name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
        ),
    ),
)


HEARTBEAT = heartbeat("r")
ALONE_MAX_MS = 60_000
Begin = Callable[..., ProgressPublisher | None]


@pytest.fixture
def fake_kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    return kafka_with_progress(monkeypatch)


def run(doings: Iterator[object], state: ShardState = STATE) -> None:
    """Run a responder; before each of its looks the next thing happens."""
    responder = Responder(CONFIG.operator_config(), {}, state, "ours", alone_max_ms=ALONE_MAX_MS)
    responder.run(lambda: next(doings, "end") != "end")


def progress_of(fake_kafka: FakeKafka) -> list[ProgressRecord]:
    return [
        record
        for message in fake_kafka.logs[TOPICS.progress, 0]
        if (record := decode_progress(message.value() or b"")) is not None
    ]


def published(fake_kafka: FakeKafka) -> list[tuple[int, int]]:
    """Offset and clock up to which it says that it has answered."""
    records = progress_of(fake_kafka)
    return [(record.end_offset, record.clock_ms) for record in records if isinstance(record, ResponderProgress)]


def test_what_kafka_has_not_taken_is_not_answered(fake_kafka: FakeKafka) -> None:
    def story() -> Iterator[None]:
        fake_kafka.append(TOPICS.events, None, encode_tick(2_000))
        yield
        fake_kafka.takes_nothing.add(TOPICS.responses)
        fake_kafka.append(TOPICS.events, b"g", HEARTBEAT)
        fake_kafka.append(TOPICS.events, None, encode_tick(3_000))
        yield
        fake_kafka.append(TOPICS.events, None, encode_tick(4_000))
        yield
        assert set(published(fake_kafka)) == {(1, 2_000)}
        fake_kafka.takes_nothing.clear()
        yield
        yield

    run(story())
    assert published(fake_kafka)[-1] == (4, 4_000)


def test_events_that_come_together_are_all_answered_in_their_order(fake_kafka: FakeKafka) -> None:
    request_ids = [f"r{number}" for number in range(2 * loop.SENT_TOGETHER_MAX + 1)]

    def story() -> Iterator[None]:
        fake_kafka.append(TOPICS.events, None, encode_tick(2_000))
        for request_id in request_ids:
            fake_kafka.append(TOPICS.events, b"g", heartbeat(request_id))
        yield
        keys = [record.key() for record in fake_kafka.logs[TOPICS.responses, 0]]
        assert keys == [name.encode() for name in request_ids]

    run(story())


def published_before(record: QueryProgress, age_ms: int) -> PublishedRecord:
    return PublishedRecord(record, time.time_ns() // 1_000_000 - age_ms)


@pytest.mark.parametrize(
    ("batch_id", "core_hash", "gives_time"), [(3, "ours", False), (4, "ours", True), (3, "theirs", True)]
)
def test_a_coordinator_that_only_starts_again_gives_no_time(
    fake_kafka: FakeKafka, batch_id: int, core_hash: str, gives_time: bool
) -> None:
    old = published_before(replace(PROGRESS, core_hash=core_hash), ALONE_MAX_MS + 1)
    ProgressPublisher(TOPICS, {0: "ours"}, {}).begin(0, CommittedBatch(batch_id, 0, 9, 1_000), old)
    (start,) = [each for each in fake_kafka.logs[TOPICS.progress, 0][1:] if each.key() == key_of(QueryProgress)]
    assert (start.timestamp()[1] > old.timestamp_ms) == gives_time
    if gives_time:
        run(iter([None, None]))
    else:
        with pytest.raises(ResponderAloneError):
            run(iter([None, None]))


def test_nor_does_it_to_a_responder_that_runs(fake_kafka: FakeKafka) -> None:
    record, published_ms = published_before(PROGRESS, ALONE_MAX_MS - 500)
    assert isinstance(record, QueryProgress)

    def starts_again() -> Iterator[None]:
        while True:
            fake_kafka.append(TOPICS.progress, key_of(QueryProgress), encode_progress(record), at_ms=published_ms)
            yield
            time.sleep(0.02)

    fake_kafka.logs[TOPICS.progress, 0].clear()
    fake_kafka.append(TOPICS.progress, key_of(QueryProgress), encode_progress(record), at_ms=published_ms)
    with pytest.raises(ResponderAloneError):
        run(islice(starts_again(), 500))


@pytest.mark.parametrize(("start_offset", "is_enough"), [(0, False), (2, False), (3, True)])
def test_the_ticks_of_the_querys_last_batch_are_needed(
    fake_kafka: FakeKafka, start_offset: int, is_enough: bool
) -> None:
    """They are the clock of what follows."""
    for clock_ms in range(1_000, 6_000, 1_000):
        fake_kafka.append(TOPICS.events, None, encode_tick(clock_ms))
    fake_kafka.begins[TOPICS.events, 0] = 3
    state = replace(STATE, start_offset=start_offset, end_offset=4)
    if is_enough:
        run(iter([None]), state)
        assert published(fake_kafka)[-1] == (5, 5_000)
    else:
        with pytest.raises(ResponderError, match="deleted"):
            run(iter([None]), state)


def test_a_query_of_another_release_that_begins_while_a_responder_claims_is_heeded_before_any_answer(
    fake_kafka: FakeKafka,
) -> None:
    """It has looked for claims before, and seen none."""
    theirs = encode_progress(replace(PROGRESS, core_hash="theirs"))

    def begin(topic: str, key: bytes | None, value: bytes | None) -> None:
        if key == key_of(ResponderClaim):
            fake_kafka.before = lambda *_: None
            fake_kafka.append(TOPICS.progress, key_of(QueryProgress), theirs)

    fake_kafka.append(TOPICS.events, b"g", HEARTBEAT)
    fake_kafka.before = begin
    with pytest.raises(ResponderRefusedError):
        run(iter([None, None]))
    assert not fake_kafka.logs[TOPICS.responses, 0]


@pytest.mark.parametrize("responders", [True, False])
@pytest.mark.parametrize("is_decided", [True, False])
def test_a_query_heeds_a_claim_of_another_release_that_comes_while_it_begins(
    fake_kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch, is_decided: bool, responders: bool
) -> None:
    """The responder has looked whose the query is before, and may answer until it looks again."""
    config = CONFIG.changed(responders=responders)
    batch = CommittedBatch(3, 0, 0, 1_000)
    monkeypatch.setattr(answered_ahead, "open_reader", fake_kafka.reader)
    monkeypatch.setattr(answered_ahead, "committed_batch", lambda *_: batch)
    report = TopicReport(topics=TOPICS, partitions={}, created=(), warnings=())
    old = encode_progress(ResponderClaim(core_hash="old"))
    fake_kafka.append(TOPICS.progress, key_of(ResponderClaim), old)  # of that nothing is left to decide

    def claim(topic: str, key: bytes | None, value: bytes | None) -> None:
        if key == key_of(QueryProgress):
            fake_kafka.before = lambda *_: None
            fake_kafka.append(TOPICS.progress, key_of(ResponderClaim), old)
            if not is_decided:
                fake_kafka.append(TOPICS.events, b"g", HEARTBEAT)

    def begin() -> ProgressPublisher | None:
        return begin_progress(cast(Any, None), config, report, rebuild=False)

    fake_kafka.before = claim
    if is_decided:
        publisher = begin()
        assert (publisher is not None) == responders
        assert publisher is None or not publisher.begins, "the audit does not take its answers for ours"
    else:
        with pytest.raises(CheckpointError, match="has not decided the event at offset 0"):
            begin()


@pytest.fixture
def begin(fake_kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Begin a coordinator whose core has this hash; all before this offset is decided."""
    monkeypatch.setattr(answered_ahead, "open_reader", fake_kafka.reader)

    def begin(
        core_hash: str, decided: int = 0, *, responders: bool = True, state: ShardState = STATE
    ) -> ProgressPublisher | None:
        monkeypatch.setattr(answered_ahead, "core_hash", lambda _: core_hash)
        monkeypatch.setattr(answered_ahead, "read_shard_state", lambda *_: pieces_of(state))
        monkeypatch.setattr(answered_ahead, "committed_batch", lambda *_: CommittedBatch(4, 0, decided, 1_000))
        report = TopicReport(topics=TOPICS, partitions={}, created=(), warnings=())
        return begin_progress(cast(Any, None), CONFIG.changed(responders=responders), report, rebuild=False)

    return begin


@pytest.mark.parametrize("responders", [True, False])
@pytest.mark.parametrize("comes_back", [True, False])
def test_what_comes_after_the_beginning_of_another_query_is_not_answered(
    fake_kafka: FakeKafka, begin: Begin, comes_back: bool, responders: bool
) -> None:
    """However late a responder looks, and whatever it reads first. What the query of its own hash decides when it is
    back follows from what the other one has decided in between."""

    def upgrade() -> Iterator[None]:
        fake_kafka.append(TOPICS.events, None, encode_tick(2_000))
        fake_kafka.append(TOPICS.events, b"g", HEARTBEAT)
        yield
        begin("theirs", 2, responders=responders)
        fake_kafka.append(TOPICS.events, b"g", HEARTBEAT)
        if comes_back:
            begin("ours", 4)
            fake_kafka.append(TOPICS.events, b"g", HEARTBEAT)
        yield

    with pytest.raises(ResponderRefusedError, match="theirs"):
        run(upgrade())
    assert len(fake_kafka.logs[TOPICS.responses, 0]) == 1


def fences(fake_kafka: FakeKafka) -> list[tuple[int, str]]:
    """Place and hash of each."""
    return [
        (record.offset(), headers[CORE_HASH_HEADER])
        for record in fake_kafka.logs[TOPICS.events, 0]
        if CORE_HASH_HEADER in (headers := headers_of(cast(Message, record)))
    ]


def test_another_query_than_the_last_begins_with_a_tick_that_moves_nothing(fake_kafka: FakeKafka, begin: Begin) -> None:
    begin("theirs")
    begin("ours")
    assert fences(fake_kafka) == [], "a log without ticks has no clock that could be said again"
    fake_kafka.append(TOPICS.events, None, encode_tick(2_000))
    begin("ours")
    assert fences(fake_kafka) == []
    begin("theirs")
    begin("theirs")
    begin("ours")
    assert fences(fake_kafka) == [(1, "theirs"), (2, "ours")]
    assert {decode_tick(record.value() or b"").clock_ms for record in fake_kafka.logs[TOPICS.events, 0]} == {2_000}


def test_a_responder_goes_on_from_a_state_that_another_query_has_made(fake_kafka: FakeKafka, begin: Begin) -> None:
    fake_kafka.append(TOPICS.events, None, encode_tick(2_000))
    begin("theirs")
    fake_kafka.append(TOPICS.events, b"g", HEARTBEAT)
    begin("ours", 3)
    fake_kafka.append(TOPICS.events, b"g", HEARTBEAT)
    run(iter([None]), replace(STATE, start_offset=0, end_offset=3))
    assert [dict(record.headers())["decided_at"] for record in fake_kafka.logs[TOPICS.responses, 0]] == [b"4"]


@pytest.mark.parametrize("is_before", [True, False])
def test_only_what_lies_before_its_beginning_may_be_answered_by_others(
    fake_kafka: FakeKafka, begin: Begin, is_before: bool
) -> None:
    def write_meanwhile(topic: str, key: bytes | None, value: bytes | None) -> None:
        if topic == TOPICS.events if is_before else key == key_of(QueryProgress):
            fake_kafka.before = lambda *_: None
            fake_kafka.append(TOPICS.progress, key_of(ResponderClaim), claim)
            fake_kafka.append(TOPICS.events, b"g", HEARTBEAT)

    fake_kafka.append(TOPICS.events, None, encode_tick(2_000))
    claim = encode_progress(ResponderClaim(core_hash="ours"))
    fake_kafka.before = write_meanwhile
    if not is_before:
        assert begin("theirs") is not None
        return
    with pytest.raises(CheckpointError, match="has not decided the event at offset 1"):
        begin("theirs")
    hashes = {record.core_hash for record in progress_of(fake_kafka) if isinstance(record, QueryProgress)}
    assert hashes == {"ours"}, "no responder of this release answers, which would know nothing of those answers"


@pytest.mark.parametrize(
    ("api", "request_", "clock_ms", "is_refused"),
    [
        ("JoinGroup", JOIN, 4_000, True),
        ("JoinGroup", JOIN, 3_999, False),
        ("OffsetCommit", COMMIT, 10**9, False),
    ],
)
def test_who_waits_for_a_timer_may_have_been_answered_by_it(
    fake_kafka: FakeKafka, begin: Begin, api: str, request_: Request, clock_ms: int, is_refused: bool
) -> None:
    """The query fires it a batch later than a responder, so no undecided request shows it."""
    version = {"JoinGroup": 3, "OffsetCommit": 2}[api]
    envelope = encode_request_event(
        api, version, request_, request_id="r", reply_partition=0, client_id="c", new_member_id="m"
    )
    event = decode_group_event("g", envelope)
    coordinator = GroupCoordinator("g", CONFIG.group, partition=0)
    coordinator.handle(group_event(event, 1, 1_000, 1_000))
    assert coordinator.group is not None
    deadline_ms = coordinator.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms <= clock_ms or clock_ms == 3_999
    group = StoredGroup(deadline_ms, *encode_group(coordinator.group))
    fake_kafka.append(TOPICS.progress, key_of(ResponderClaim), encode_progress(ResponderClaim(core_hash="ours")))
    fake_kafka.append(TOPICS.events, None, encode_tick(1_000), at_ms=1_000)
    fake_kafka.append(TOPICS.events, b"g", b"decided")
    fake_kafka.append(TOPICS.events, None, encode_tick(clock_ms), at_ms=clock_ms)
    state = replace(STATE, end_offset=2, groups={b"g": group})
    if not is_refused:
        assert begin("theirs", 2, state=state) is not None
        return
    with pytest.raises(CheckpointError, match="has not decided what the members of group 'g' are waiting for"):
        begin("theirs", 2, state=state)
    assert not fences(fake_kafka), "responders of the former release go on"


def test_a_query_does_not_begin_where_its_log_takes_no_fence(
    fake_kafka: FakeKafka, begin: Begin
) -> None:
    fake_kafka.append(TOPICS.events, None, encode_tick(2_000))
    fake_kafka.refuses.add(TOPICS.events)
    with pytest.raises(TopicError, match="takes no record"):
        begin("theirs")


def test_without_responders_those_of_another_release_are_ended(
    fake_kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would answer on until they are alone for too long."""
    fake_kafka.append(TOPICS.progress, key_of(ResponderClaim), encode_progress(ResponderClaim(core_hash="ours")))

    def begins() -> Iterator[None]:
        yield
        monkeypatch.setattr(answered_ahead, "open_reader", fake_kafka.reader)
        monkeypatch.setattr(answered_ahead, "committed_batch", lambda *_: CommittedBatch(3, 0, 0, 1_000))
        report = TopicReport(topics=TOPICS, partitions={}, created=(), warnings=())
        begin_progress(cast(Any, None), CONFIG.changed(responders=False), report, rebuild=False)
        yield
        yield

    with pytest.raises(ResponderRefusedError):
        run(begins())
