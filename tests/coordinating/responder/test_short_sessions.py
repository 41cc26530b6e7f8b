"""How often a responder tells how far it has answered, for which the clock waits."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from group_coordinator.coordinating.responder import loop
from group_coordinator.coordinating.responder.loop import Responder
from schemas.events import encode_tick
from schemas.query_progress import ResponderProgress, decode_progress
from tests.coordinating.responder.fake_shard import CONFIG, STATE, TOPICS, kafka_with_progress


@pytest.mark.parametrize(("shortest_session_ms", "is_told"), [(4, True), (60_000, False)])
def test_the_clock_of_short_sessions_does_not_wait_for_a_status(
    monkeypatch: pytest.MonkeyPatch, shortest_session_ms: int, is_told: bool
) -> None:
    kafka = kafka_with_progress(monkeypatch)
    monkeypatch.setattr(loop, "STATUS_INTERVAL_S", 15.0)

    def looks() -> Iterator[None]:
        for clock_ms in (2_000, 3_000):
            kafka.append(TOPICS.events, None, encode_tick(clock_ms))
            time.sleep(0.002)
            yield
        time.sleep(0.002)
        yield

    look = looks()
    config = CONFIG.changed(group_min_session_timeout_ms=shortest_session_ms).operator_config()
    Responder(config, {}, STATE, "ours", alone_max_ms=60_000).run(lambda: next(look, "end") != "end")
    records = [decode_progress(message.value() or b"") for message in kafka.logs[TOPICS.progress, 0]]
    told_ms = [record.clock_ms for record in records if isinstance(record, ResponderProgress)]
    assert told_ms[0] == 2_000
    assert (3_000 in told_ms) == is_told
