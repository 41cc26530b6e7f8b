"""A broker's clock is compared by the newest generations, in whatever order they come."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from group_coordinator.watching.broker_logs.broker_lines import AssignmentTaken, BrokerLine
from group_coordinator.watching.observed.clock_skew import Skew, Skews
from group_coordinator.watching.observed.offsets_log import LogRecord

SKEW_MS = 60_000
SET_AT = 10_000
"""From this generation on the clock is right."""
GENERATIONS = 20_000
BROKER = 1


def record(generation_id: int) -> LogRecord:
    value: dict[str, object] = {"members": ({},), "generation": generation_id}
    return LogRecord(
        partition=0, offset=generation_id, timestamp_ms=generation_id * 1_000, leader_epoch=0, group_id="g",
        name="GroupMetadata", key={}, value=value, raw=(b"", b""),
    )  # fmt: skip


def line(generation_id: int) -> BrokerLine:
    skew_ms = 0 if generation_id >= SET_AT else SKEW_MS
    return BrokerLine(
        time_ms=generation_id * 1_000 + skew_ms, broker=BROKER, partition=0, file="server.log", number=generation_id,
        event=AssignmentTaken(group_id="g", generation_id=generation_id),
    )  # fmt: skip


def test_the_newest_count() -> None:
    numbers = list(range(GENERATIONS))
    estimates = []
    for seed in range(3):
        skews = Skews()
        for number in Random(seed).sample(numbers, len(numbers)):
            skews.record(record(number))
        for number in Random(seed + 10).sample(numbers, len(numbers)):
            skews.line(line(number))
            if number % 5_000 == 0:
                skews.estimate()
        estimates.append(skews.estimate()[BROKER])
    assert estimates == [Skew(skew_ms=0, pairs=4_096)] * 3


def test_a_generation_that_is_told_twice_does_not_count() -> None:
    skews = Skews()
    skews.record(record(1))
    skews.record(record(2))
    skews.line(line(1))
    skews.line(line(2))
    skews.line(replace(line(2), time_ms=5))
    assert skews.estimate()[BROKER].pairs == 1
