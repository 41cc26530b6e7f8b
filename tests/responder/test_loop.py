"""The loop of a responder without a broker: how far it says that it has answered, and how long it goes on alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

import pytest
from msgspec.structs import replace

from group_coordinator.responder import loop
from group_coordinator.responder.loop import Responder
from group_coordinator.responder.permission import ResponderAloneError, ResponderError
from schemas.events import encode_request_event, encode_tick
from schemas.messages import HeartbeatRequest
from schemas.query_progress import QueryProgress, ResponderProgress, decode_progress, encode_progress, key_of
from streaming import progress_topic
from streaming.config import StreamingConfig
from streaming.progress_topic import ProgressPublisher, PublishedRecord
from streaming.stored_group import CommittedBatch, ShardState
from tests.responder.fake_kafka import FakeKafka

CONFIG = StreamingConfig(responders=True)
TOPICS = CONFIG.topic_settings.topics
STATE = ShardState(batch_id=3, start_offset=0, end_offset=0, clock_ms=1_000, groups={})
PROGRESS = QueryProgress(core_hash="ours", batch_id=3, start_offset=0, end_offset=0, clock_ms=1_000)
HEARTBEAT = encode_request_event(
    "Heartbeat", 4, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), request_id="r", reply_partition=0,
    client_id="c",
)  # fmt: skip
ALONE_MAX_MS = 60_000


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """The query has published its batch."""
    kafka = FakeKafka()
    monkeypatch.setattr(loop, "TopicReader", kafka.reader)
    monkeypatch.setattr(loop, "Producer", kafka.producer)
    monkeypatch.setattr(progress_topic, "Producer", kafka.producer)
    monkeypatch.setattr(loop, "STATUS_INTERVAL_S", 0.0)
    kafka.append(TOPICS.progress, key_of(QueryProgress), encode_progress(PROGRESS))
    return kafka


def run(doings: Iterator[object], state: ShardState = STATE) -> None:
    """Run a responder; before each of its looks the next thing happens."""
    responder = Responder(CONFIG.operator_config(), {}, state, "ours", alone_max_ms=ALONE_MAX_MS)
    responder.run(lambda: next(doings, "end") != "end")


def published(kafka: FakeKafka) -> list[tuple[int, int]]:
    """Offset and clock up to which it says that it has answered."""
    records = [decode_progress(record.value() or b"") for record in kafka.logs[TOPICS.progress, 0]]
    return [(record.end_offset, record.clock_ms) for record in records if isinstance(record, ResponderProgress)]


def test_what_kafka_has_not_taken_is_not_answered(kafka: FakeKafka) -> None:
    def story() -> Iterator[None]:
        kafka.append(TOPICS.events, None, encode_tick(2_000))
        yield
        kafka.takes_nothing.add(TOPICS.responses)
        kafka.append(TOPICS.events, b"g", HEARTBEAT)
        kafka.append(TOPICS.events, None, encode_tick(3_000))
        yield
        kafka.append(TOPICS.events, None, encode_tick(4_000))
        yield
        assert set(published(kafka)) == {(1, 2_000)}
        kafka.takes_nothing.clear()
        yield
        yield

    run(story())
    assert published(kafka)[-1] == (4, 4_000)


def published_before(record: QueryProgress, age_ms: int) -> PublishedRecord:
    return PublishedRecord(record, time.time_ns() // 1_000_000 - age_ms)


@pytest.mark.parametrize(
    ("batch_id", "core_hash", "gives_time"), [(3, "ours", False), (4, "ours", True), (3, "theirs", True)]
)
def test_a_coordinator_that_only_starts_again_gives_no_time(
    kafka: FakeKafka, batch_id: int, core_hash: str, gives_time: bool
) -> None:
    old = published_before(replace(PROGRESS, core_hash=core_hash), ALONE_MAX_MS + 1)
    ProgressPublisher(TOPICS, {0: "ours"}, {}).begin(0, CommittedBatch(batch_id, 0, 9, 1_000), old)
    (start,) = [each for each in kafka.logs[TOPICS.progress, 0][1:] if each.key() == key_of(QueryProgress)]
    assert (start.timestamp()[1] > old.timestamp_ms) == gives_time
    if gives_time:
        run(iter([None, None]))
    else:
        with pytest.raises(ResponderAloneError):
            run(iter([None, None]))


def test_nor_does_it_to_a_responder_that_runs(kafka: FakeKafka) -> None:
    record, published_ms = published_before(PROGRESS, ALONE_MAX_MS - 500)
    assert isinstance(record, QueryProgress)

    def starts_again() -> Iterator[None]:
        while True:
            kafka.append(TOPICS.progress, key_of(QueryProgress), encode_progress(record), at_ms=published_ms)
            yield
            time.sleep(0.02)

    kafka.logs[TOPICS.progress, 0].clear()
    kafka.append(TOPICS.progress, key_of(QueryProgress), encode_progress(record), at_ms=published_ms)
    with pytest.raises(ResponderAloneError):
        run(islice(starts_again(), 500))


@pytest.mark.parametrize(("start_offset", "is_enough"), [(0, False), (2, False), (3, True)])
def test_the_ticks_of_the_querys_last_batch_are_needed(
    kafka: FakeKafka, start_offset: int, is_enough: bool
) -> None:
    """They are the clock of what follows."""
    for clock_ms in range(1_000, 6_000, 1_000):
        kafka.append(TOPICS.events, None, encode_tick(clock_ms))
    kafka.begins[TOPICS.events, 0] = 3
    state = replace(STATE, start_offset=start_offset, end_offset=4)
    if is_enough:
        run(iter([None]), state)
        assert published(kafka)[-1] == (5, 5_000)
    else:
        with pytest.raises(ResponderError, match="deleted"):
            run(iter([None]), state)
