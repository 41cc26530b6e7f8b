"""To wait for what happens in other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(is_so: Callable[[], bool], timeout_s: float = 30.0, tell: Callable[[], object] = lambda: "") -> None:
    """Wait until it is so; `tell`: what to say when it does not come to that."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, tell()
        time.sleep(0.01)
