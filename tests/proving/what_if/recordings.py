"""Recordings of real brokers, as logs that can be played again. The main group of each has the recording's name."""

from __future__ import annotations

from datetime import UTC
from functools import cache
from pathlib import Path

from coordinator_state import GroupConfig
from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.proving.recordings.following import follow
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.what_if.group_log import GroupLog, group_log
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.replay import replay_in_process

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"


@cache
def records(name: str) -> tuple[Record, ...]:
    log = RequestLog([RECORDINGS / f"{name}.request.log.gz"], time_zone=UTC)
    log.read()
    return tuple(EventsImport(follow(log, {})))


@cache
def log_of(name: str) -> GroupLog:
    return group_log(records(name), name, GroupConfig().tick_ahead_bound_ms)


@cache
def recorded(name: str) -> tuple[bytes, ...]:
    """The history of the recording itself."""
    groups = dict(replay_in_process(records(name), StreamingConfig()))
    return tuple(group.value or b"" for group in groups[name.encode()] if group.topic == "coordinator.history")
