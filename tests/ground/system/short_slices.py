"""Whether this system lets threads ask for short slices of processor time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from group_coordinator.ground.system.processor_time import ask_for_short_slices

Answer = TypeVar("Answer")


def in_a_thread(call: Callable[[], Answer]) -> Answer:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()


def slices_are_known() -> bool:
    """Ask in a thread that ends."""
    return in_a_thread(ask_for_short_slices)
