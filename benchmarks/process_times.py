"""CPU time of a process and of those that it started, from /proc (Linux): unlike elapsed time, it hardly depends on who
else runs.

    before = cpu_times(process)
    ...
    used = cpu_times(process).since(before)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """Milliseconds of CPU."""

    own_ms: float
    descendants_ms: float


class Times(NamedTuple):
    """The times of one process since its start."""

    parent: int
    began: int
    """By which it differs from another one that had its number before."""
    own_ms: float
    ended_ms: float
    """Of its children that have ended, if it waited for them. Spark's Python daemon does not: what an ended worker
    used is in no sum."""

    @property
    def sum_ms(self) -> float:
        return self.own_ms + self.ended_ms


class CpuTimes(NamedTuple):
    """A process and all that descend from it, at one moment."""

    process: int
    times: dict[int, Times]

    def since(self, before: CpuTimes) -> Used:
        """Return the CPU time used in between; children that nobody waited for do not count."""
        own_ms = self.times[self.process].own_ms - before.times[self.process].own_ms
        all_ms = sum(now.sum_ms - before.sum_of(process, now.began) for process, now in self.times.items())
        return Used(own_ms, all_ms - own_ms - self._used_before(before))

    def sum_of(self, process: int, began: int) -> float:
        """0 where that process had not begun yet."""
        times = self.times.get(process)
        return times.sum_ms if times and times.began == began else 0.0

    def _used_before(self, before: CpuTimes) -> float:
        """Return the earlier CPU time of children that have ended since: a parent that waited for them has it in its
        sum now."""
        used_ms = 0.0
        for process in before.times.keys() - self.times.keys():
            times_then = before.times[process]
            parent, parent_then = self.times.get(times_then.parent), before.times.get(times_then.parent)
            if parent and parent_then and parent.ended_ms - parent_then.ended_ms >= times_then.sum_ms:
                used_ms += times_then.sum_ms
        return used_ms


def cpu_times(process: int) -> CpuTimes:
    """Return the CPU times of a running process."""
    table = _table()
    family = [process]
    for parent in family:  # it grows on the way
        family += [pid for pid, times in table.items() if times.parent == parent]
    return CpuTimes(process, {pid: table[pid] for pid in family})


def _table() -> dict[int, Times]:
    times_by_pid: dict[int, Times] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:  # it has just ended
            continue
        fields = text[text.rindex(")") + 2 :].split()  # proc_pid_stat(5), from the state on
        own_ms, ended_ms = (1_000 * sum(map(int, fields[first : first + 2])) / TICKS_PER_S for first in (11, 13))
        times_by_pid[int(stat.parent.name)] = Times(int(fields[1]), int(fields[19]), own_ms, ended_ms)
    return times_by_pid
