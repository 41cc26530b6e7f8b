"""A responder whose process stood still while the coordinator was upgraded, on a real broker without Spark."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection
from typing import Any, cast

import pytest

from group_coordinator.coordinating.responder.protocol import ExitCode
from group_coordinator.ground.kafka_topics.reader import read_topic
from schemas.events import decode_tick
from streaming import answered_ahead
from streaming.answered_ahead import begin_progress
from streaming.stored_group import CommittedBatch
from streaming.topics import TopicReport
from tests.coordinating.responder.shard_without_query import Shard
from tests.streaming.running_app import HEARTBEAT, TIMEOUT_S
from tests.waiting import wait_until

RESPONDERS = 5
FETCH_WAIT_S = 2.0
"""A fetch that was sent before is answered by then, with nothing."""


def begin_query_of_another_release(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on from a batch that has decided all that is there."""
    clock_ms = max(decode_tick(tick.value() or b"").clock_ms for tick in shard.ticks())
    batch = CommittedBatch(0, 0, len(shard.events()), clock_ms)
    monkeypatch.setattr(answered_ahead, "committed_batch", lambda *_: batch)
    report = TopicReport(topics=shard.topics, partitions={}, created=(), warnings=())
    assert begin_progress(cast(Any, None), shard.config, report, rebuild=False) is not None


def test_what_another_release_decides_is_not_answered_by_responders_that_wake_up(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They get events and progress at once. Which of them they read first is chance, so there are some of them."""
    ticker = shard.coordinator_ticker()
    processes = [shard.start_responder_process() for _ in range(RESPONDERS)]
    shard.client.join(60_000)
    before = shard.client.send("Heartbeat", 4, HEARTBEAT)
    wait_until(lambda: len(answers_to(shard, {before})) == RESPONDERS, TIMEOUT_S)
    ticker.stop()
    for process in processes:
        os.kill(process.pid or 0, signal.SIGSTOP)
    threading.Event().wait(FETCH_WAIT_S)
    begin_query_of_another_release(shard, monkeypatch)
    requests = {shard.client.send("Heartbeat", 4, HEARTBEAT) for _ in range(100)}
    for process in processes:
        os.kill(process.pid or 0, signal.SIGCONT)
        process.join(TIMEOUT_S)
        assert process.exitcode == ExitCode.REFUSED
    assert not answers_to(shard, requests)


def answers_to(shard: Shard, requests: Collection[str]) -> list[str]:
    answers = read_topic(shard.config.client_properties, shard.topics.responses)
    return [key for answer in answers if (key := bytes(answer.key() or b"").decode()) in requests]
