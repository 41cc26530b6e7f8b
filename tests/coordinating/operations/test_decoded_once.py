"""The readers in one process of `run` share history: each record is fetched and decoded once, however many show it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from group_coordinator.coordinating.commands.dashboard_thread import index_of_dashboard, start_dashboard
from group_coordinator.coordinating.commands.live_groups import LiveGroups, group_size
from group_coordinator.coordinating.operations.operations import Operations
from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.server import RunningServer
from schemas.foreign_json import json_decoder
from schemas.history import History, MemberJoined, decode_history
from streaming.topics import TopicReport
from tests.coordinating.operations.records import CONFIG, log, outputs
from tests.waiting import wait_until

TOPICS = CONFIG.topics
NAMES = (TOPICS.events, *TOPICS.outputs)
REPORT = TopicReport(topics=TOPICS, partitions=dict.fromkeys(NAMES, 1), created=(), warnings=())
LETTER = {"reason": b"bad_body", "topic": b"e", "partition": b"0", "offset": b"0"}
ADDRESS = "127.0.0.1:0"


class Message(NamedTuple):
    """A record as a consumer gives it."""

    place: Partition
    at: int
    data: bytes | None
    with_headers: list[tuple[str, bytes]]
    with_key: bytes

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.with_key

    def value(self) -> bytes | None:
        return self.data

    def headers(self) -> list[tuple[str, bytes]]:
        return self.with_headers

    def timestamp(self) -> tuple[int, int]:
        return 2, 0

    def error(self) -> None:
        return None


class Logs:
    """Topics in memory, of one partition each."""

    def __init__(self) -> None:
        self.of_topic: dict[str, list[Message]] = {topic: [] for topic in NAMES}
        self.fetched: Counter[Partition] = Counter()

    def write(
        self, topic: str, value: bytes | None, headers: Mapping[str, bytes] | None = None, key: bytes = b"g"
    ) -> None:
        messages = self.of_topic[topic]
        messages.append(Message((topic, 0), len(messages), value, list((headers or {}).items()), key))


class MemoryReader:
    """In place of `TopicReader`."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._positions: dict[Partition, int] = {}
        self._never = threading.Event()

    def partitions(self, topic: str) -> list[Partition]:
        return [(topic, 0)]

    def bounds(self, topic: str, number: int) -> Bounds:
        return Bounds(0, len(self._logs.of_topic[topic]))

    bounds_when_led = bounds

    def last_known_end(self, topic: str, number: int) -> int:
        return self.bounds(topic, number).end

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self._positions = dict(positions)

    def poll(self, timeout_s: float) -> list[Message]:
        messages = [
            message for place, offset in self._positions.items() for message in self._logs.of_topic[place[0]][offset:]
        ]
        for message in messages:
            self._positions[message.place] = message.at + 1
            self._logs.fetched[message.place] += 1
        if not messages:
            self._never.wait(min(timeout_s, 0.02))
        return messages

    def close(self) -> None: ...


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    all_logs = Logs()
    for module in ("ground.kafka_topics.follower", "coordinating.commands.live_groups"):
        monkeypatch.setattr(f"group_coordinator.{module}.TopicReader", lambda *_, **__: MemoryReader(all_logs))
    monkeypatch.setattr("group_coordinator.watching.dashboard.end_poller.log_bounds", lambda *_: {})
    return all_logs


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """How often each value of the history topic was decoded."""
    counts: Counter[bytes] = Counter()
    decode: Callable[[bytes], History] = json_decoder(History)

    def count(value: bytes) -> History:
        counts[value] += 1
        return decode(value)

    monkeypatch.setattr("schemas.history._decode_history", count)
    return counts


@dataclass(frozen=True)
class Process:
    """What `run` puts together, but for Spark and the gateway."""

    operations: Operations
    server: RunningServer
    index: Index

    def counted(self, metric: m.Metric, **labels: str) -> float | None:
        return self.operations.metrics.registry.get_sample_value(metric.name, labels)

    def lags(self) -> set[float]:
        families = self.operations.metrics.registry.collect()
        return {sample.value for family in families if family.name == m.READER_LAG.name for sample in family.samples}


def history_of(group_id: str) -> list[bytes]:
    return [
        record.value for record in outputs(log(group_id)) if record.topic == TOPICS.history and record.value is not None
    ]


@pytest.fixture
def process(logs: Logs, decoded: Counter[bytes]) -> Iterator[Process]:
    """With the history of one group, a dead letter and a value that is no history from before its start."""
    for value in history_of("before"):
        logs.write(TOPICS.history, value)
    logs.write(TOPICS.history, b"{}")
    logs.write(TOPICS.history, None)
    logs.write(TOPICS.dead_letters, b"x", LETTER)
    index = index_of_dashboard(ADDRESS, CONFIG)
    assert index is not None
    with Operations(CONFIG, index) as operations, LiveGroups(CONFIG, group_size) as groups:
        operations.topics_found(REPORT)
        with start_dashboard(CONFIG, ADDRESS, index, operations.follower) as server:
            groups.poll(0)
            yield Process(operations, server, index)


def test_each_record_is_fetched_and_decoded_once(logs: Logs, decoded: Counter[bytes], process: Process) -> None:
    before, after = history_of("before"), history_of("after")
    for value in after:
        logs.write(TOPICS.history, value)
    wait_until(lambda: process.index.records == len(before) + len(after))
    assert set(decoded) == {*before, *after, b"{}"}
    assert set(decoded.values()) == {1}
    assert logs.fetched[TOPICS.history, 0] == len(logs.of_topic[TOPICS.history])


def test_the_dashboard_shows_all_and_metrics_count_what_is_new(logs: Logs, process: Process) -> None:
    wait_until(lambda: process.server.source.progress()["caught_up"])
    assert (process.index.group_ids(), process.index.unreadable) == (["before"], 1)
    assert process.counted(m.MEMBERS_JOINED) == 0
    joined = sum(isinstance(decode_history(value), MemberJoined) for value in history_of("after"))
    for value in (*history_of("after"), *history_of("before")):  # what is written again is new to the counters
        logs.write(TOPICS.history, value)
    logs.write(TOPICS.dead_letters, b"x", LETTER | {"offset": b"1"})
    wait_until(lambda: process.counted(m.MEMBERS_JOINED) == 2 * joined and len(process.index.dead_letters) == 2)
    assert process.index.group_ids() == ["after", "before"]
    wait_until(lambda: process.counted(m.DEAD_LETTERS, reason="bad_body") == 1)
    wait_until(lambda: process.lags() == {0.0})


def publish(logs: Logs, group_id: str) -> None:
    for record in outputs(log(group_id)):
        if record.topic == TOPICS.assignments:
            logs.write(record.topic, record.value, key=record.key or b"")


def judged(index: Index) -> tuple[list[str], int]:
    groups, not_judged = index.judged()
    return sorted(each.group_id for each, _ in groups), not_judged


def is_judged(index: Index, logs: Logs) -> None:
    """A group is judged whichever comes first, its history or itself, and until it is gone."""
    wait_until(lambda: index.group_ids() == ["before"])
    assert judged(index) == ([], 1)
    for group_id in ("before", "early"):
        publish(logs, group_id)
    wait_until(lambda: judged(index) == (["before"], 0))
    for value in history_of("early"):
        logs.write(TOPICS.history, value)
    wait_until(lambda: judged(index) == (["before", "early"], 0))
    logs.write(TOPICS.assignments, b"{}")
    logs.write(TOPICS.assignments, None, key=b"early")
    wait_until(lambda: judged(index) == (["before"], 1))
    assert index.unreadable == 2
    assert index.broker_settings[""].source == "settings given here"


def test_the_dashboard_beside_the_coordinator_judges_groups(logs: Logs, process: Process) -> None:
    is_judged(process.index, logs)


def test_the_dashboard_alone_judges_groups(logs: Logs, process: Process) -> None:
    with start_dashboard(CONFIG, ADDRESS) as server:
        is_judged(server.index, logs)


def test_without_a_dashboard_history_is_read_from_its_end(logs: Logs, decoded: Counter[bytes]) -> None:
    for value in history_of("before"):
        logs.write(TOPICS.history, value)
    with Operations(CONFIG) as operations:
        operations.topics_found(REPORT)
        for value in history_of("after"):
            logs.write(TOPICS.history, value)
        wait_until(lambda: set(decoded) == set(history_of("after")))
    assert set(decoded.values()) == {1}
