"""A tick from the future in the log: what takes it for nothing,
and the way out where an older release took it for the time."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import EventError, encode_tick
from schemas.records_file import Record
from schemas.ticks import CLOCK_MAX_MS, read_tick
from streaming.clock import Standstill, TickerStatus
from streaming.config import StreamingConfig
from streaming.watcher import Watcher
from tests.crash.coordinators import TIMEOUT_S, append, make_topics, running
from tests.crash.outputs import Outputs, count, events_of, expected_of, has_written, require_same, written_of
from tests.making_topics import delete_topics
from tests.streaming.random_log import make_log
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BELIEVES_ALL_MS = 10**15
"""`tick_ahead_max_ms` of who believes every tick, as older releases did."""


@pytest.fixture
def config(kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path) -> StreamingConfig:
    return StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix, responses_partitions=8,
        offsets_partitions=2,
        checkpoint=str(tmp_path / "checkpoint"), ticker=False, shuffle_partitions=1, max_events_per_batch=100,
        group_initial_rebalance_delay_ms=1_000,
    )  # fmt: skip


class TickerWatcher(Watcher):
    def __init__(self) -> None:
        self.status = TickerStatus()

    def ticker_reported(self, shard: int, status: TickerStatus) -> None:
        self.status = status


def reasons(outputs: Outputs) -> list[str]:
    return [
        record.headers["reason"]
        for output in outputs.values()
        for _, record in output
        if record.topic.endswith("dead-letters")
    ]


def histories(outputs: Outputs, kind: str) -> int:
    word = f'"type":"{kind}"'.encode()
    return sum(
        word in (record.value or b"")
        for output in outputs.values()
        for _, record in output
        if record.topic.endswith("history")
    )


def ticks(config: StreamingConfig) -> list[int]:
    """The valid ones."""
    ticks_read = []
    for record in events_of(config):
        with suppress(EventError):
            if record.key is None:
                ticks_read.append(read_tick(record.value, record.timestamp_ms, config.group.tick_ahead_bound_ms))
    return ticks_read


def test_a_log_that_was_poisoned_before_is_read_anew(
    spark: SparkSession, config: StreamingConfig, tmp_path: Path
) -> None:
    make_topics(config)
    log = make_log(11, groups=3, requests=120, poisons=False)
    half = len(log) // 2
    future = [
        Record(partition=0, key=None, value=encode_tick(time.time_ns() // 1_000_000 + days * 86_400_000))
        for days in (8, 9)
    ]
    append(config, [*log[:half], *future, Record(partition=0, key=None, value=encode_tick(CLOCK_MAX_MS)), *log[half:]])

    older = config.changed(tick_ahead_max_ms=BELIEVES_ALL_MS)
    believed, right = expected_of(older, events_of(config)), expected_of(config, events_of(config))
    assert histories(believed, "member_expired") > histories(right, "member_expired")
    assert reasons(right) == ["malformed_tick"] * 3
    with running(older, spark) as failures:
        wait_until(lambda: bool(failures) or has_written(config, count(believed)), TIMEOUT_S)
    require_same(written_of(config).outputs, believed)

    # This release, on that checkpoint: its clock stands still, and says so.
    watcher = TickerWatcher()
    with running(config.changed(ticker=True), spark, watcher=watcher) as failures:
        wait_until(lambda: bool(failures) or watcher.status.standstill is Standstill.LOG_AHEAD, TIMEOUT_S)

    # As docs/recovery.md says: without the outputs of the wrong story, from the beginning of the log.
    topics, admin = config.topics, new_admin_client(config.client_properties)
    delete_topics(admin, lambda name: name in topics.outputs)
    anew = config.changed(checkpoint=str(tmp_path / "another"))
    expected = expected_of(anew, events_of(anew))
    assert reasons(expected) == ["malformed_tick"] * 3
    with running(anew, spark, rebuild=True) as failures:
        wait_until(lambda: bool(failures) or has_written(anew, count(expected)), TIMEOUT_S)
    require_same(written_of(anew).outputs, expected)

    # And with its ticker the clock goes on.
    watcher = TickerWatcher()
    began_ms = time.time_ns() // 1_000_000
    with running(anew.changed(ticker=True), spark, watcher=watcher) as failures:
        wait_until(lambda: bool(failures) or max(ticks(anew)) >= began_ms, TIMEOUT_S)
    assert watcher.status.standstill is None
