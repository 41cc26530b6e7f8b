"""How Linux shares the processors among threads that are ready to run, as far as a thread may ask for something.

A thread that wakes up waits until those before it have used up their slices, also where it needs only a moment. Since
Linux 6.12 a thread may ask for shorter slices: it gets no more time in all, but gets it sooner.

Source: sched(7), sched_setattr(2), and `sched-eevdf` in the kernel's documentation of its scheduler.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from contextlib import suppress

SLICE_NS = 100_000
"""The shortest that Linux grants. A thread that answers runs for about as long, and waits for the next request."""
_SYSTEM_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""The numbers of sched_setattr and sched_getattr, for which the C library has names only since lately."""
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""`struct sched_attr`: size, policy, flags, niceness, priority, slice in nanoseconds, and two of no meaning here."""
_POLICY, _NICENESS, _SLICE_NS = 1, 3, 5


def ask_for_short_slices() -> bool:
    """Let this thread, and those that it starts from now on, wait less for a processor, and run for less at a time.

    Returns False, and changes nothing, where the system knows no such thing or somebody has chosen another policy than
    the usual one for this process.
    """
    attributes = _attributes()
    if attributes is None or attributes[_POLICY] != os.SCHED_OTHER:
        return False
    system_call, (set_attributes, _) = ctypes.CDLL(None).syscall, _SYSTEM_CALLS[platform.machine()]
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, attributes[_NICENESS], 0, SLICE_NS, 0, 0)
    return system_call(set_attributes, 0, wanted, 0) == 0 and slice_ns() == SLICE_NS


def slice_ns(thread_id: int = 0) -> int | None:
    """Return how long this or another thread may run while others wait; None where the system does not say."""
    attributes = _attributes(thread_id)
    return (attributes[_SLICE_NS] or None) if attributes is not None else None


def _attributes(thread_id: int = 0) -> tuple[int, ...] | None:
    if not sys.platform.startswith("linux") or platform.machine() not in _SYSTEM_CALLS:
        return None
    with suppress(OSError, AttributeError):
        _, get_attributes = _SYSTEM_CALLS[platform.machine()]
        found = ctypes.create_string_buffer(_ATTRIBUTES.size)
        if ctypes.CDLL(None).syscall(get_attributes, thread_id, found, _ATTRIBUTES.size, 0) == 0:
            return _ATTRIBUTES.unpack(found.raw)
    return None
