"""CPU time of this process and all that it started: what a busy machine does not change much, unlike the time by the clock."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds(pid: int | None = None) -> float:
    """Of a process (this one), its living descendants, and those that ended and were waited for. Linux."""
    process = Path(f"/proc/{pid or os.getpid()}")
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        children = [int(child) for thread in (process / "task").iterdir() for child in (thread / "children").read_text().split()]
    except OSError:  # it has ended meanwhile
        return 0.0
    ticks = sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(cpu_seconds, children))
