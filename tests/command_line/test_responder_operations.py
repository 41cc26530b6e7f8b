"""Health and metrics of `responder`: what its probes say when a responder is silent, away or not started yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from group_coordinator.command_line.errors import CommandError
from group_coordinator.coordinating.commands import responder
from group_coordinator.coordinating.commands.responder_operations import ResponderHealth, responder_values, status_line
from group_coordinator.coordinating.responder.process import ResponderReport, ResponderState
from group_coordinator.coordinating.responder.protocol import ResponderStatus
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.health import STALE_AFTER_S
from streaming.config import StreamingConfig


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("shards", [1, 3])
def test_another_number_of_shards_than_the_coordinators_is_refused(
    monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    monkeypatch.setattr(responder, "partition_count", lambda properties, topic: 2)
    assert responder.topic_partitions(StreamingConfig(shards=2)) == dict.fromkeys(
        ("coordinator.events", "coordinator.responses", "coordinator.offsets", "coordinator.progress"), 2
    )
    with pytest.raises(CommandError, match=f"has 2 partitions but --shards is {shards}"):
        responder.topic_partitions(StreamingConfig(shards=shards))


def test_it_is_ready_once_every_shard_has_a_responder() -> None:
    health = ResponderHealth(now_s=Clock())
    assert health.not_ready() == ["no responder has been started yet"]
    health.look({0: ResponderStatus(), 1: None})
    assert health.not_ready() == ["shard 1 has no responder"]
    health.look({0: ResponderStatus(), 1: ResponderStatus()})
    assert health.not_ready() == []
    health.look({0: None, 1: ResponderStatus()})
    assert health.not_ready() == ["shard 0 has no responder"]
    assert health.not_live() == []


def test_a_responder_that_says_nothing_new_is_not_ready() -> None:
    clock = Clock()
    health = ResponderHealth(now_s=clock)
    status = ResponderStatus(answers=7)
    health.look({0: status})
    clock.now_s += STALE_AFTER_S + 1
    health.look({0: status})
    assert health.not_ready() == [f"the responder of shard 0 has been silent for {STALE_AFTER_S + 1:.0f} s"]
    health.look({0: ResponderStatus(answers=7)})  # the same numbers, said again
    assert health.not_ready() == []


def test_a_command_that_hangs_is_not_live() -> None:
    clock = Clock()
    health = ResponderHealth(now_s=clock)
    health.look({0: ResponderStatus()})
    clock.now_s += STALE_AFTER_S + 1
    assert health.not_live() == [f"nobody has looked at the responders for {STALE_AFTER_S + 1:.0f} s"]


def test_the_file_is_as_old_as_the_last_sign_of_whom_was_silent_longest(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "health"
    health = ResponderHealth(file, clock)
    first, second = ResponderStatus(), ResponderStatus()
    health.look({0: first, 1: None})
    assert not file.exists()
    health.look({0: first, 1: second})
    assert file.exists()
    os.utime(file, (0, 0))
    clock.now_s += 5
    health.look({0: ResponderStatus(), 1: second})
    assert file.stat().st_mtime == 0
    health.look({0: first, 1: ResponderStatus()})
    assert file.stat().st_mtime > 0


def test_metrics_of_a_responder_that_runs_and_of_one_that_does_not() -> None:
    values = list(responder_values({0: ResponderStatus(lead_ms=1_500, state_bytes=42, is_ticking=True), 1: None}))
    assert [(value.metric, value.labels, value.value) for value in values] == [
        (m.RESPONDER_UP, ("0",), 1),
        (m.RESPONDER_TICKS, ("0",), 1),
        (m.RESPONDER_STATE, ("0",), 42),
        (m.RESPONDER_LEAD, ("0",), 1.5),
        (m.RESPONDER_UP, ("1",), 0),
        (m.RESPONDER_TICKS, ("1",), 0),
    ]


def test_the_status_line_says_which_shard_has_no_responder_and_why() -> None:
    statuses = {
        0: ResponderStatus(groups=1, answers=7, next_offset=9, lead_ms=800, is_ticking=True), 1: None, 2: None, 3: None,
        4: ResponderStatus(),
    }  # fmt: skip
    reports = {
        0: ResponderReport(ResponderState.ANSWERING),
        1: ResponderReport(ResponderState.STARTING, "it is starting"),
        2: ResponderReport(ResponderState.STOPPED, "an answer has differed"),
        3: ResponderReport(ResponderState.FALLEN_BACK, "it has ended with code 1"),
        4: ResponderReport(ResponderState.SILENT, "it has been silent for 70 s"),
    }
    assert status_line(statuses, reports).split("; ") == [
        "shard 0: 1 group, 7 answers, at offset 9, 800 ms ahead of the query, writes the clock",
        "shard 1: no responder yet",
        "shard 2: no responder, stopped",
        "shard 3: no responder, fallen back",
        "shard 4: 0 groups, 0 answers, at offset 0, it has been silent for 70 s",
    ]
