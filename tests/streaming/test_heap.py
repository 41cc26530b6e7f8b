"""When the heap is collected, without a JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streaming import heap
from streaming.heap import LARGE_BATCH_MS, REST_S, Heap


def test_it_is_collected_once_when_no_large_batch_has_come_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    collections: list[float] = []
    now_s = 0.0
    monkeypatch.setattr(heap.time, "monotonic", lambda: now_s)
    jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=SimpleNamespace(gc=lambda: collections.append(now_s)))))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm))
    kept = Heap(spark)

    def batch(batch_ms: int) -> None:
        progress: Any = SimpleNamespace(batch_ms=batch_ms)
        kept.batch_ended(progress)

    batch(LARGE_BATCH_MS)
    now_s = REST_S / 2
    batch(LARGE_BATCH_MS)
    now_s = REST_S
    batch(100)
    kept.turned()
    assert collections == []
    now_s = 2 * REST_S
    kept.turned()
    kept.turned()
    batch(100)
    kept.turned()
    assert collections == [2 * REST_S]
