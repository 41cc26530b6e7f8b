"""A query is stopped between two batches, also when it was idle as its last events were written."""

from __future__ import annotations

from typing import Any

import pytest

from streaming import stopping
from streaming.stopping import BUSY_S, REST_S, stop_after_batches

LOOK_S, PAUSE_S, BATCH_S = 0.01, 0.02, 0.15


class Query:
    """Looks at its log, works off what it finds, pauses; on the time of the test."""

    def __init__(self, written_s: list[float], *, is_busy: bool = False) -> None:
        """`written_s`: when something comes into the log. `is_busy`: there is always more."""
        self.written_s, self.is_busy = written_s, is_busy
        self.phase, self.until_s = "look", LOOK_S
        self.batches = 0
        self.stopped_in: str | None = None

    def goes_on(self, now_s: float) -> None:
        while self.stopped_in is None and now_s >= self.until_s:
            if self.phase == "look":
                has_batch = self.is_busy or any(write_s <= self.until_s for write_s in self.written_s)
                self.written_s = [write_s for write_s in self.written_s if write_s > self.until_s]
                self.phase, took_s = ("batch", BATCH_S) if has_batch else ("pause", PAUSE_S)
            else:
                self.batches += self.phase == "batch"
                self.phase, took_s = "look", LOOK_S
            self.until_s += took_s

    @property
    def isActive(self) -> bool:
        return self.stopped_in is None

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": self.phase != "pause", "isDataAvailable": self.phase == "batch"}

    @property
    def lastProgress(self) -> dict[str, int] | None:
        return {"batchId": self.batches - 1} if self.batches else None

    def stop(self) -> None:
        self.stopped_in = self.phase


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """The queries of a time that goes by while it is slept."""
    queries: list[Query] = []
    now_s = [0.0]

    def sleep(seconds: float) -> None:
        now_s[0] += seconds
        for query in queries:
            query.goes_on(now_s[0])

    monkeypatch.setattr("streaming.stopping.time.sleep", sleep)
    monkeypatch.setattr("streaming.stopping.time.monotonic", lambda: now_s[0])
    return queries


@pytest.mark.parametrize("written_s", [[], [0.0], [0.015], [0.03], [0.1], [0.0, 0.1], [0.0, 0.05, 0.2]])
def test_all_that_was_written_before_is_worked_off(passes: list[Query], written_s: list[float]) -> None:
    query: Any = Query(list(written_s))
    passes.append(query)
    stop_after_batches([query])
    assert query.stopped_in == "pause"
    assert query.written_s == []
    assert bool(query.batches) == bool(written_s)


def test_a_query_that_never_rests_ends_after_its_batch(passes: list[Query]) -> None:
    quiet: Any = Query([])
    busy: Any = Query([], is_busy=True)
    passes += [quiet, busy]
    stop_after_batches([quiet, busy])
    assert (quiet.stopped_in, busy.stopped_in) == ("pause", "look")
    assert quiet.batches == 0
    assert busy.batches * (LOOK_S + BATCH_S) >= BUSY_S


def test_a_query_that_waits_long_for_its_next_trigger_is_not_waited_for(passes: list[Query]) -> None:
    query: Any = WaitingQuery([])
    passes.append(query)
    stop_after_batches([query])
    assert query.stopped_in == "pause"
    assert query.now_s < BUSY_S + REST_S


class WaitingQuery(Query):
    """One whose last batch had data, and whose next trigger is in a day."""

    def goes_on(self, now_s: float) -> None:
        self.now_s, self.phase = now_s, "pause"

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": False, "isDataAvailable": True}


def test_a_batch_without_an_end_is_not_waited_for(passes: list[Query]) -> None:
    query: Any = Query([0.0])
    passes.append(query)
    query.phase, query.until_s = "batch", stopping.TIMEOUT_S + REST_S + 10
    stop_after_batches([query])
    assert query.stopped_in == "batch"
