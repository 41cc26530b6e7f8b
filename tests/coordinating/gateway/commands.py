"""Our own commands as processes that can be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_until

START_TIMEOUT_S = 240.0


class Command:
    """`group-coordinator ...`; its output goes to a file."""

    def __init__(self, output: Path, ready: str, *arguments: str) -> None:
        """`ready`: what it says when it is."""
        self._output, self._ready, self._arguments = output, ready, arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it is ready."""
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "group_coordinator.command_line.main", *self._arguments],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.wait_for(self._ready)

    def wait_for(self, words: str) -> None:
        """Wait until it has said them since its start."""
        process = self._process
        assert process is not None

        def output() -> str:
            return self._output.read_text(errors="replace")

        wait_until(lambda: words in output() or process.poll() is not None, START_TIMEOUT_S, output, interval_s=0.1)
        assert words in output(), output()

    def stop(self) -> None:
        """Ask it to end, and wait."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(60) == 0, self._output.read_text(errors="replace")

    def kill(self) -> None:
        """End it and all its processes without a word."""
        if self._process is not None and self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
