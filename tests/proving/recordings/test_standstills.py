"""A request log in which nothing is counted for a while: a standstill keeps its times, a clock set forward does not."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.log_doubts import doubts_of
from tests.proving.recordings.broker_logs import FIXTURES
from tests.proving.recordings.disturbances import as_kafka_writes, from_on
from tests.watching.observed.recorded import CLUSTERS, entries

FAILOVER = CLUSTERS / "failover-3.7.broker-3.request.log.gz"
RECORDING = FIXTURES / "recordings" / "manual.request.log.gz"


def read(path: Path, moments_us: Sequence[int] = ()) -> RequestLog:
    log = RequestLog([path], moments_us=moments_us)
    log.read()
    return log


def disturbed(path: Path, by: timedelta) -> Path:
    with gzip.open(RECORDING) as file:
        lines = file.readlines()
    path.write_bytes(from_on(0.5, by)(as_kafka_writes(lines))[0])
    return path


def test_a_machine_that_stood_still_has_right_times() -> None:
    """The machine of these three brokers did, for twelve and a half seconds; records of all brokers have the gap."""
    log = read(FAILOVER)
    clock = log.clocks[0]
    assert list(clock.steps()) == []
    [standstill] = clock.standstills
    records_us = [entry.timestamp_ms * 1000 for entry in entries("failover-3.7")]
    last_us = standstill.until_us - 250_000  # its second line was written when its request had been answered
    assert not any(standstill.from_us < record_us < last_us for record_us in records_us)
    list(log.requests())
    assert any("stood still" in doubt and "No time is changed" in doubt for doubt in doubts_of(log))
    assert not any("was set forward at" in doubt for doubt in doubts_of(log))


@pytest.mark.parametrize("seconds", [40, 95, 290, 1000])
def test_a_silence_is_no_clock_that_was_set(tmp_path: Path, seconds: int) -> None:
    log = read(disturbed(tmp_path / "request.log", timedelta(seconds=seconds)))
    assert list(log.clocks[0].steps()) == []
    assert len(log.clocks[0].standstills) == 1


def test_an_hour_is_summer_time_unless_another_source_goes_on(tmp_path: Path) -> None:
    path = disturbed(tmp_path / "request.log", timedelta(hours=1))
    alone = read(path)
    [(line_number, step_us)] = alone.clocks[0].steps()
    assert step_us == -3_600_000_000
    assert alone.clocks[0].standstills == []
    last_us = alone.clocks[0].last_us
    for moment_us in (last_us - 1_800_000_000, last_us - 100_000):
        beside = read(path, [moment_us])
        assert list(beside.clocks[0].steps()) == []
        assert [standstill.line_number for standstill in beside.clocks[0].standstills] == [line_number]
    begun_us = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    assert list(read(path, [begun_us]).clocks[0].steps()) == list(alone.clocks[0].steps())
