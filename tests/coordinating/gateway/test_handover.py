"""From the reader's thread to the loop's, which may not follow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from group_coordinator.coordinating.gateway.handover import Handover, TopicRecord


def test_a_reader_waits_while_the_loop_does_not_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.coordinating.gateway.handover._HANDED_OVER_BYTES_MAX", 1_000)
    monkeypatch.setattr("group_coordinator.coordinating.gateway.handover._SLICE_BYTES", 300)
    received: list[TopicRecord] = []
    outstanding = []

    async def live() -> None:
        loop = asyncio.get_running_loop()
        handover = Handover(loop, received.extend)
        records = [TopicRecord(b"k", bytes(99), number) for number in range(500)]
        done = threading.Event()
        complete = asyncio.Event()

        def give() -> None:
            handover.give(records, lambda: False)
            handover.when_taken(complete.set)
            done.set()

        thread = threading.Thread(target=give)
        thread.start()
        while not complete.is_set():
            outstanding.append(handover.waiting_bytes)
            await asyncio.sleep(0)
        thread.join()
        assert received == records

    asyncio.run(live())
    assert max(outstanding) <= 1_300


def test_a_reader_that_is_told_to_end_does_not_wait_for_a_loop_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.coordinating.gateway.handover._HANDED_OVER_BYTES_MAX", 1_000)
    monkeypatch.setattr("group_coordinator.coordinating.gateway.handover._SLICE_BYTES", 300)

    class Busy:
        def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
            pass

    handover = Handover(Busy(), lambda records: None)  # type: ignore[arg-type]
    handover.give([TopicRecord(b"k", bytes(99), number) for number in range(500)], lambda: True)
    assert handover.waiting_bytes <= 1_300
