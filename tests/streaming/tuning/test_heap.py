"""When the heap is collected, without a JVM."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.tuning.heap import GROWN_BYTES, LARGE_BATCH_MS, LOOK_INTERVAL_S, WAIT_MAX_S, WAIT_MIN_S, Heap


class Jvm:
    """A JVM that keeps what it had until it is collected, and all that stands between it and the app."""

    def __init__(self) -> None:
        self.size = self.alive = 100
        self.in_use = 0
        """What a batch kept the JVM from giving back, though it is not alive."""
        self.collections: list[float] = []
        self.now_s = 0.0
        self.sparkContext = self._jvm = self.java = self.lang = self.System = self.Runtime = self

    def gc(self) -> None:
        self.collections.append(self.now_s)
        self.size = max(self.alive, self.in_use)

    def getRuntime(self) -> Jvm:
        return self

    def totalMemory(self) -> int:
        return self.size

    def freeMemory(self) -> int:
        return self.size - self.alive


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> Jvm:
    jvm = Jvm()
    monkeypatch.setattr("streaming.tuning.heap.time.monotonic", lambda: jvm.now_s)
    return jvm


def passes(jvm: Jvm, heap: Heap, seconds: float, batch_ms: int = 100) -> None:
    for _ in range(int(seconds)):
        jvm.now_s += 1
        progress: Any = type("Progress", (), {"batch_ms": batch_ms})
        heap.batch_ended(progress)
        heap.polled()


def test_what_it_grew_by_is_given_back_once(jvm: Any) -> None:
    heap = Heap(jvm)
    passes(jvm, heap, 2 * WAIT_MIN_S)
    assert jvm.collections == []
    jvm.size += GROWN_BYTES
    passes(jvm, heap, 10 * WAIT_MIN_S)
    assert len(jvm.collections) == 1


def test_what_a_start_with_a_backlog_took_is_given_back(jvm: Any) -> None:
    heap = Heap(jvm)
    jvm.size = 4 * GROWN_BYTES
    passes(jvm, heap, 300, LARGE_BATCH_MS)
    assert jvm.collections == []
    passes(jvm, heap, LOOK_INTERVAL_S)
    assert len(jvm.collections) == 1


def test_a_collection_in_the_midst_of_a_batch_is_not_the_last(jvm: Any) -> None:
    """The heap stayed large then, and does not grow any more."""
    heap = Heap(jvm)
    jvm.in_use = jvm.size = 4 * GROWN_BYTES
    passes(jvm, heap, WAIT_MIN_S)
    assert len(jvm.collections) == 1
    jvm.in_use = 0
    passes(jvm, heap, 2 * WAIT_MAX_S)
    assert jvm.size == 100


def test_what_is_alive_is_not_collected_again_and_again(jvm: Any) -> None:
    heap = Heap(jvm)
    jvm.size = jvm.alive = 4 * GROWN_BYTES
    passes(jvm, heap, 100 * WAIT_MAX_S)
    assert len(jvm.collections) == 1
    jvm.size = 7 * GROWN_BYTES
    passes(jvm, heap, 10 * WAIT_MAX_S)
    assert len(jvm.collections) == 1, "it is less than twice what is alive"


def test_a_little_more_is_not_worth_it(jvm: Any) -> None:
    heap = Heap(jvm)
    passes(jvm, heap, 2 * WAIT_MIN_S)
    jvm.size = GROWN_BYTES - 1
    passes(jvm, heap, 10 * WAIT_MIN_S)
    assert jvm.collections == []


def test_it_is_not_collected_while_large_batches_come(jvm: Any) -> None:
    heap = Heap(jvm)
    passes(jvm, heap, 2 * WAIT_MIN_S)
    jvm.size += GROWN_BYTES
    passes(jvm, heap, 600, LARGE_BATCH_MS)
    assert jvm.collections == []
    passes(jvm, heap, LOOK_INTERVAL_S)
    assert len(jvm.collections) == 1


def test_who_needs_it_again_and_again_has_it(jvm: Any) -> None:
    heap = Heap(jvm)
    passes(jvm, heap, 2 * WAIT_MIN_S)
    for _ in range(20_000):
        jvm.size = 100 + GROWN_BYTES
        passes(jvm, heap, 1)
    assert len(jvm.collections) <= 20_000 / WAIT_MAX_S + 3
    last_s = jvm.collections[-1]
    assert last_s - jvm.collections[-2] >= WAIT_MAX_S
    passes(jvm, heap, 10 * WAIT_MAX_S)
    jvm.size = 100 + GROWN_BYTES
    passes(jvm, heap, WAIT_MIN_S)
    assert jvm.collections[-1] > last_s, "it has been at rest since"
