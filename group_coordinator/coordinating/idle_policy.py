"""Linux's idle policy: a thread that has it runs where a processor has nothing else to do.

Niceness alone does not help those who answer enough: however small the share of a nice thread is, once it is its turn
it runs until the next tick of the system's clock, for some milliseconds.

Source: sched(7), `SCHED_IDLE` and "The nice value"; getrlimit(2), `RLIMIT_NICE`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TRIAL = """
import os
os.nice({niceness})
for policy in (os.SCHED_IDLE, os.SCHED_OTHER):
    os.sched_setscheduler(0, policy, os.sched_param(0))
"""
_TRIAL_TIMEOUT_S = 10.0


def can_be_left(niceness: int) -> bool:
    """Return whether a process that we start, so much nicer than we are, can have the policy and be freed of it again.

    That takes the capability CAP_SYS_NICE, or a limit RLIMIT_NICE of at least 20 less its niceness. It is tried, with a
    process of its own, because a capability may hold in a container alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    trial = [sys.executable, "-I", "-S", "-c", _TRIAL.format(niceness=niceness)]
    try:
        return subprocess.run(trial, capture_output=True, check=False, timeout=_TRIAL_TIMEOUT_S).returncode == 0
    except subprocess.TimeoutExpired:  # no processor is ever idle here
        return False


def take(process_id: int) -> None:
    """Give the policy to all threads of a process and its descendants, which hand it on to those that they start."""
    _set_policy(process_id, os.SCHED_IDLE)


def leave(process_id: int) -> None:
    """Give the usual policy back to all of them; their niceness is what it was. Raises PermissionError."""
    _set_policy(process_id, os.SCHED_OTHER)


def _set_policy(process_id: int, policy: int) -> None:
    seen: set[int] = set()
    # A thread that has not been reached yet may start another, which has the old policy.
    while new := set(_threads(process_id)) - seen:
        for thread_id in new:
            with suppress(ProcessLookupError):
                os.sched_setscheduler(thread_id, policy, os.sched_param(0))
        seen |= new


def _threads(process_id: int) -> Iterator[int]:
    """Yield the threads of a process and of its descendants (proc_pid_task(5))."""
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        for task in Path(f"/proc/{process_id}/task").iterdir():
            yield int(task.name)
            for child in (task / "children").read_text().split():
                yield from _threads(int(child))
