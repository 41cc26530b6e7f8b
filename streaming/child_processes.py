"""The end of a process that was started here, and that ends when its standard input does."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import IO, Protocol


class ChildProcess(Protocol):
    """What is needed of `subprocess.Popen`; py4j's is one without types."""

    stdin: IO[bytes] | None

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


def end_process(process: ChildProcess, timeout_s: float) -> None:
    """Close a process's standard input and wait for its end; a process that takes longer than `timeout_s` is killed."""
    if process.stdin is not None:
        with suppress(OSError):  # it is gone
            process.stdin.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
