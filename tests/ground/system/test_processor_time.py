"""Slices of processor time, on the system that is here; where it knows none, that nothing happens."""

from __future__ import annotations

import os
import platform
import threading

import pytest

from group_coordinator.ground.system.processor_time import SLICE_NS, ask_for_short_slices, slice_ns
from tests.ground.system.short_slices import in_a_thread, slices_are_known


def test_a_thread_and_those_that_it_starts_have_short_slices_and_others_keep_theirs() -> None:
    if not slices_are_known():
        pytest.skip("this system knows no slices")
    before = slice_ns()
    assert before != SLICE_NS

    def asks() -> tuple[int | None, int | None, int]:
        assert ask_for_short_slices()
        return slice_ns(), in_a_thread(slice_ns), os.getpriority(os.PRIO_PROCESS, 0)

    assert in_a_thread(asks) == (SLICE_NS, SLICE_NS, os.getpriority(os.PRIO_PROCESS, 0))
    assert slice_ns() == before


def test_a_niceness_that_somebody_has_chosen_stays() -> None:
    def asks() -> tuple[int, bool]:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 7)
        asked = ask_for_short_slices()
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), asked

    assert in_a_thread(asks) == (7, slices_are_known())


def test_a_policy_that_somebody_has_chosen_stays() -> None:
    def asks() -> tuple[bool, int]:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return ask_for_short_slices(), os.sched_getscheduler(0)

    assert in_a_thread(asks) == (False, os.SCHED_BATCH)


@pytest.mark.parametrize("system", ["machine", "platform"])
def test_a_system_that_is_not_known_is_left_alone(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if system == "machine":
        monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    else:
        monkeypatch.setattr("sys.platform", "darwin")
    before = os.sched_getscheduler(0)
    assert not ask_for_short_slices()
    assert slice_ns() is None
    assert os.sched_getscheduler(0) == before
