"""The processes of a running coordinator, as /proc shows them: what there is to kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

WORKER_DAEMONS = ("streaming.tuning.worker_daemon", "pyspark.daemon")
"""What Spark's Python daemon runs: ours, or Spark's own where ours is not asked for."""


def parent_of(pid: int) -> int | None:
    """None: there is no such process any more, or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[1])


def descendants(pid: int) -> Iterator[int]:
    """All living descendants of a process, parents first."""
    parents = {
        int(entry.name): parent_of(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdecimal()
    }
    waiting = [pid]
    while waiting:
        above = waiting.pop(0)
        below = [child for child, parent in parents.items() if parent == above]
        yield from below
        waiting += below


def command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def driver_of(pid: int) -> int | None:
    """The JVM of Spark below a `group-coordinator run`."""
    return next((descendant for descendant in descendants(pid) if "SparkSubmit" in command_of(descendant)), None)


def workers_of(pid: int) -> list[int]:
    """The Python workers below it: forks of Spark's Python daemon, or the daemon where it has none yet."""
    daemons = [descendant for descendant in descendants(pid) if is_worker(descendant)]
    return [daemon for daemon in daemons if parent_of(daemon) in daemons] or daemons


def responder_of(pid: int) -> int | None:
    """The responder below it."""
    return next(
        (child for child in descendants(pid) if "group_coordinator.coordinating.responder" in command_of(child)), None
    )


def is_worker(pid: int) -> bool:
    """Whether it is Spark's Python daemon or a fork of it."""
    words = command_of(pid).split()
    return any(daemon in words for daemon in WORKER_DAEMONS)


def kill_all(pid: int) -> None:
    """A process and all below it, at once: SIGSTOP first, so that nobody sees another's end."""
    everybody = [pid, *descendants(pid)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in everybody:
            with suppress(ProcessLookupError):
                os.kill(process, number)
