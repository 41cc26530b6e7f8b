"""The operator without a JVM over whole logs of both protocols: whatever the batches, the order of their rows and the
frames in which they come, it puts out what a replay puts out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from schemas.events import EventError
from schemas.records_file import Record
from schemas.ticks import NO_CLOCK, read_tick
from streaming.config import StreamingConfig
from streaming.operator import streaming_operator
from streaming.replay import replay_in_process
from streaming.rows import output_batch
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.operator_events import group_state, is_removed, rows_of, timeout_ms
from tests.streaming.random_log import make_log

CONFIG = StreamingConfig(**SETTINGS)
OPERATOR = CONFIG.operator_config()
Row = tuple[int, int, int, bytes | None]
"""Offset, clock, timestamp, value."""


class Query:
    """What Spark does around the operator: state and a timeout for each group, and the watermark of a batch."""

    def __init__(self, chance: random.Random) -> None:
        self.outputs: list[dict[str, Any]] = []
        self._chance = chance
        self._function = streaming_operator(OPERATOR)
        self._states: dict[bytes | None, tuple[bytes, bytes]] = {}
        self._timeouts_ms: dict[bytes | None, int] = {}
        self._watermark_ms = NO_CLOCK

    def run_batch(self, records: Sequence[Record]) -> None:
        clock_ms, rows = self._watermark_ms, dict[bytes | None, list[Row]]()
        for record in records:
            if record.key is None:
                try:
                    clock_ms = max(
                        clock_ms, read_tick(record.value, record.timestamp_ms, OPERATOR.group.tick_ahead_bound_ms)
                    )
                    continue
                except EventError:
                    pass  # a dead letter
            rows.setdefault(record.key, []).append(
                (record.offset or 0, clock_ms, record.timestamp_ms or 0, record.value)
            )
        for key, of_group in rows.items():
            self._call(key, of_group)
        for key in [key for key, due_ms in self._timeouts_ms.items() if due_ms < self._watermark_ms]:
            self._call(key, [])
        self._watermark_ms = clock_ms

    def _call(self, key: bytes | None, rows: list[Row]) -> None:
        self._timeouts_ms.pop(key, None)
        state = group_state(self._states.get(key), watermark_ms=self._watermark_ms, has_timed_out=not rows)
        self.outputs += rows_of(self._function((key,), self._frames(rows), state))
        if is_removed(state) or not state.exists:
            self._states.pop(key, None)
            return
        self._states[key] = state.get
        if timeout_ms(state) > 0:
            self._timeouts_ms[key] = timeout_ms(state)

    def _frames(self, rows: list[Row]) -> list[pd.DataFrame]:
        self._chance.shuffle(rows)
        frames = []
        while rows:
            size = self._chance.randint(1, 5)
            frames.append(pd.DataFrame(rows[:size], columns=["offset", "clock_ms", "timestamp_ms", "value"]))
            rows = rows[size:]
        return frames


@pytest.mark.parametrize(("seed", "records_max"), [(1, 1), (2, 7), (3, 40), (4, 1_000)])
def test_the_outputs_are_those_of_a_replay(seed: int, records_max: int) -> None:
    log = make_log(seed, groups=3, mixed_groups=3, requests=240)
    chance = random.Random(seed)
    query, rest = Query(chance), log
    while rest:
        size = chance.randint(1, records_max)
        query.run_batch(rest[:size])
        rest = rest[size:]
    query.run_batch([])
    expected = output_batch(replay_in_process(log, CONFIG)).to_pylist()
    assert len(expected) > 500
    assert sorted(map(repr, query.outputs)) == sorted(map(repr, expected))
