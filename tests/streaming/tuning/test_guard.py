"""A name of Spark's inside that is gone costs what was tuned by it, and a line in the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from streaming.executors import ExecutorsAwaited
from streaming.tuning.guard import spared
from streaming.tuning.hadoop import tune_hadoop
from streaming.tuning.heap import LOOK_INTERVAL_S, Heap


def changed_spark() -> Any:
    """A session of a Spark without `_jvm` and `_jsc`."""
    context = SimpleNamespace(master="local[2]", getConf=lambda: SimpleNamespace(getAll=list))
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize(
    "problem", [TypeError("'JavaPackage' object is not callable"), AttributeError("gone"), Py4JError("gone")]
)
def test_what_is_gone_is_left_out_and_logged(problem: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise problem

    with spared("something"):
        fail()
    (record,) = caplog.records
    assert record.getMessage().startswith(f"Left out: something ({type(problem).__name__}: ")


@pytest.mark.parametrize("problem", [Py4JNetworkError("the JVM is gone"), ConnectionRefusedError(), KeyError("ours")])
def test_all_else_is_passed_on(problem: Exception) -> None:
    with pytest.raises(type(problem)), spared("something"):
        raise problem


def test_hadoop_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    tune_hadoop(changed_spark())
    assert len(caplog.records) == 2


def test_the_heap_is_asked_for_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    monkeypatch.setattr("streaming.tuning.heap.time.monotonic", lambda: now_s)
    heap = Heap(changed_spark())
    for _ in range(3):
        now_s += LOOK_INTERVAL_S
        heap.polled()
    assert len(caplog.records) == 1


def test_no_executor_is_awaited(caplog: pytest.LogCaptureFixture) -> None:
    ExecutorsAwaited(changed_spark()).look()
    assert len(caplog.records) == 1
