"""CPU time of a process and of those that it started, from /proc (Linux): unlike elapsed time, it hardly depends on who else runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CpuTime(NamedTuple):
    """Milliseconds of CPU."""

    own_ms: float
    children_ms: float
    """Of all that descends from it: those that live, and those that have ended."""

    def since(self, before: CpuTime) -> CpuTime:
        return CpuTime(self.own_ms - before.own_ms, self.children_ms - before.children_ms)


def cpu_time(process: int) -> CpuTime:
    """Of a process that runs."""
    table = _table()
    own, ended = table[process][1:]
    descendants = [process]
    for parent in descendants:  # it grows on the way
        descendants += [each for each, (its_parent, *_) in table.items() if its_parent == parent]
    return CpuTime(own, ended + sum(sum(table[each][1:]) for each in descendants[1:]))


def _table() -> dict[int, tuple[int, float, float]]:
    """Process -> (parent, its milliseconds, those of its children that have ended and were waited for)."""
    found: dict[int, tuple[int, float, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:  # it has just ended
            continue
        fields = text[text.rindex(")") + 2 :].split()
        own, ended = (1_000 * sum(map(int, fields[first : first + 2])) / TICKS_PER_S for first in (11, 13))
        found[int(stat.parent.name)] = int(fields[1]), own, ended
    return found
