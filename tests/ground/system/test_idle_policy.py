"""Linux's idle policy, for real processes: taken and left again by all threads, where the system allows it."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from group_coordinator.coordinating import idle_policy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the policy is Linux's")
NICENESS = 7
PR_CAPBSET_DROP = 24
CAP_SETPCAP, CAP_SYS_NICE, CAP_SYS_RESOURCE = 8, 23, 24
CHILD = """
import subprocess, sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdout=subprocess.PIPE) as grandchild:
    grandchild.stdout.readline()
    print(grandchild.pid, flush=True)
"""


@pytest.fixture
def processes() -> Iterator[list[int]]:
    """Yield a process with a second thread, and its child."""
    command = [sys.executable, "-c", CHILD]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(NICENESS)
    ) as child:
        assert child.stdout is not None
        yield [child.pid, int(child.stdout.readline())]
        child.communicate()


def threads(process_id: int) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{process_id}/task").iterdir()]


def test_all_threads_have_it_and_leave_it_and_keep_their_niceness(processes: list[int]) -> None:
    if not idle_policy.can_be_left(NICENESS):
        pytest.skip("this process may not leave the policy")
    everywhere = [thread for process in processes for thread in threads(process)]
    assert len(everywhere) > 2
    for change, policy in ((idle_policy.take, os.SCHED_IDLE), (idle_policy.leave, os.SCHED_OTHER)):
        before = os.sched_getscheduler(0)
        change(processes[0])
        assert {os.sched_getscheduler(thread) for thread in everywhere} == {policy}
        assert os.sched_getscheduler(0) == before
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in everywhere} == {
        os.getpriority(os.PRIO_PROCESS, 0) + NICENESS
    }


def test_a_process_that_has_ended_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    idle_policy.take(child.pid)
    idle_policy.leave(child.pid)


@pytest.mark.parametrize(("limit", "is_enough"), [(0, False), (20 - NICENESS - 1, False), (20 - NICENESS, True)])
def test_without_the_capability_the_limit_of_niceness_decides(limit: int, is_enough: bool) -> None:
    needed = (CAP_SETPCAP, CAP_SYS_RESOURCE) if limit else (CAP_SETPCAP,)
    if not all(capabilities() >> capability & 1 for capability in needed):
        pytest.skip("this process may not drop a capability, or not raise the limit")

    def restrict() -> None:
        assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE) == 0  # what is started now has it no more
        resource.setrlimit(resource.RLIMIT_NICE, (limit, limit))

    program = f"from group_coordinator.coordinating import idle_policy; print(idle_policy.can_be_left({NICENESS}))"
    said = subprocess.check_output([sys.executable, "-c", program], text=True, preexec_fn=restrict)
    assert said == f"{is_enough}\n"


def capabilities() -> int:
    """Return those of this process, as bits (capabilities(7))."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
