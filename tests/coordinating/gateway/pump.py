"""The coordinator without Spark: a thread that reads the events topic, handles each event by the wall clock,
writes what comes out.

Fast, and the same core and the same bytes as the stream job; what it lacks is only what the stream job adds (ticks in
the log, batches, state over restarts).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from coordinator_state import Coordinator, GroupConfig, Output
from coordinator_state.outputs import group_event
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.events import EventError, decode_group_event, decode_group_id
from schemas.history import HistoryRecord
from schemas.messages import HeartbeatRequest, Request
from streaming.operator_config import OperatorConfig
from streaming.published_subscriptions import PublishedSubscriptions
from streaming.reply_partitions import ReplyPartitions
from streaming.rows import output_record
from streaming.topic_watcher import TopicWatcher
from streaming.topics import TopicSettings, ensure_topics
from tests.waiting import wait_until

_TICK_S = 0.02
_LOOK_INTERVAL_MS = 200
NO_RETENTION_CHECK_MS = 100 * 365 * 86_400_000
"""`offsets_retention_check_interval_ms`. At each multiple of it an Empty group without offsets is deleted. A test that
runs by the wall clock must not meet one by chance."""

SESSION_TIMEOUT_MS = 10_000
"""That of members of the consumer protocol, who do not choose it themselves."""

Record = TypeVar("Record", bound=HistoryRecord)


class Pump:
    """Runs between `start` and `stop`; `pause` makes it deaf and dumb, as a Spark that restarts."""

    def __init__(
        self, bootstrap_servers: str, settings: TopicSettings, look_interval_ms: int = _LOOK_INTERVAL_MS
    ) -> None:
        """`look_interval_ms`: how often its watcher looks at all topics."""
        self.group_config = GroupConfig(
            group_initial_rebalance_delay_ms=0,
            group_consumer_assignment_interval_ms=0,
            group_consumer_heartbeat_interval_ms=500,
            group_consumer_min_heartbeat_interval_ms=500,
            group_consumer_session_timeout_ms=SESSION_TIMEOUT_MS,
            group_consumer_min_session_timeout_ms=SESSION_TIMEOUT_MS,
            offsets_retention_check_interval_ms=NO_RETENTION_CHECK_MS,
        )
        self.history: list[HistoryRecord] = []
        self._bootstrap = {"bootstrap.servers": bootstrap_servers}
        report = ensure_topics(new_admin_client({"bootstrap.servers": bootstrap_servers}), settings)
        self._operator_config = OperatorConfig(
            group=self.group_config,
            topics=report.topics,
            partition=0,
            reply_partitions=ReplyPartitions(report.topics.responses, report.partitions[report.topics.responses]),
            offsets_partitions=report.partitions[report.topics.offsets],
            output_max_bytes=settings.output_max_bytes,
        )
        self.coordinator = Coordinator(self.group_config)
        self._heartbeats: dict[str, Counter[str]] = defaultdict(Counter)
        """Group -> member id -> how many were handled."""
        self._stop = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._pause_before: tuple[Callable[[str, Request], bool], threading.Event] | None = None
        self._away_ms = 0.0
        self._thread = threading.Thread(target=self._run, name="pump", daemon=True)
        self._failure: BaseException | None = None
        self._offsets_partitions = report.partitions[report.topics.offsets]
        self._look_interval_ms = look_interval_ms
        self._watcher = self._new_watcher()

    def _new_watcher(self) -> TopicWatcher:
        topics, offsets_partitions = self._operator_config.topics, self._offsets_partitions
        self._subscriptions = PublishedSubscriptions(topics.assignments, 1, 1, [0], self._bootstrap, topics.progress)
        return TopicWatcher(
            topics, 0, 1, offsets_partitions, self._bootstrap, self._subscriptions, interval_ms=self._look_interval_ms
        )

    def __enter__(self) -> Pump:
        self._watcher.start()
        # It reads what gateways have seen of topics from its start on: what they tell before, it never hears.
        wait_until(lambda: self._subscriptions.pending(0) is not None, message="the watcher hears of topics")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._running.set()
        self._stop_watcher()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _stop_watcher(self) -> None:
        self._watcher.stop()
        self._watcher.require_alive()

    def change_watcher(self, *, overlap: bool = False) -> None:
        """Another watcher of topics takes over; `overlap`: while the old one is still there."""
        successor = self._new_watcher()
        if overlap:
            successor.start()
        self._stop_watcher()
        if not overlap:
            successor.start()
        self._watcher = successor

    def pause(self) -> None:
        self._running.clear()

    def pause_before(self, is_it: Callable[[str, Request], bool]) -> threading.Event:
        """Pause by itself when a request is met, not handled yet, for which `is_it` (group, request);
        the event says that it was."""
        met = threading.Event()
        self._pause_before = is_it, met
        return met

    def resume(self) -> None:
        self._running.set()

    def told(self, kind: type[Record], group_id: str) -> list[Record]:
        """The history of a group, one kind of record."""
        return [record for record in list(self.history) if isinstance(record, kind) and record.group_id == group_id]

    def wait_for_heartbeats(self, group_id: str, members: int, heartbeats_each: int = 3) -> None:
        """Until so many members of a group have been heard so often again: what was to happen to them has happened."""
        before = Counter(self._heartbeats[group_id])

        def enough_heartbeats() -> bool:
            more = self._heartbeats[group_id] - before
            return sum(count >= heartbeats_each for count in more.values()) >= members

        wait_until(enough_heartbeats, message=lambda: f"{self._heartbeats[group_id] - before} heartbeats")

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as failure:
            self._failure = failure
            raise

    def _work(self) -> None:
        producer = Producer({**self._bootstrap, "linger.ms": "0"})
        consumer = Consumer({**self._bootstrap, "group.id": "pump", "enable.auto.commit": "false"})
        consumer.assign([TopicPartition(self._operator_config.topics.events, 0, OFFSET_BEGINNING)])
        while not self._stop.is_set():
            self._be_away()
            first = consumer.poll(_TICK_S)
            messages = [] if first is None else [first, *consumer.consume(1_000, 0)]
            outputs: list[Output] = []
            for message in messages:
                assert message.error() is None, message.error()
                try:
                    group_id = decode_group_id(message.key())
                    decoded = decode_group_event(group_id, message.value())
                except EventError as problem:
                    raise AssertionError(f"the gateway wrote an event that is a dead letter: {problem}") from problem
                request = decoded[1] if isinstance(decoded, tuple) else None
                if request is not None and self._pause_before is not None and self._pause_before[0](group_id, request):
                    self.pause()
                    self._pause_before[1].set()
                    self._pause_before = None
                    self._be_away()
                offset = message.offset()
                assert offset is not None
                event = group_event(decoded, offset, self._now_ms, message.timestamp()[1])
                outputs += self.coordinator.handle(group_id, event)
                self._watcher.handled(offset + 1)
                if isinstance(request, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
                    self._heartbeats[group_id][request.member_id] += 1
            outputs += self.coordinator.advance_to(self._now_ms)
            self._write(producer, outputs)
        consumer.close()
        producer.flush()

    @property
    def _now_ms(self) -> int:
        return int(time.time() * 1_000 - self._away_ms)

    def _be_away(self) -> None:
        """While it is paused. Time in which nobody was heard is not held against anybody."""
        if not self._running.is_set():
            left_s = time.monotonic()
            self._running.wait()
            self._away_ms += (time.monotonic() - left_s) * 1_000

    def _write(self, producer: Producer, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, HistoryRecord):
                self.history.append(output)
            topic, partition, key, value, headers = output_record(output, self._operator_config)
            producer.produce(topic, value, key, partition, headers=dict(headers))
        producer.poll(0)
