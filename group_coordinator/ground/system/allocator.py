"""Freed memory goes back to the system; by default the C library keeps it for the next buffer."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)
_LARGE_BYTES = 524_288
"""More than what is read from a socket at a time, which must stay cheap."""


def give_free_memory_back() -> None:
    """Let large buffers be mappings of their own, and threads share their arenas.

    Where the C library is not glibc it does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 2)
