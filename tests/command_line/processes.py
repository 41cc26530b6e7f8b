"""Commands that run in processes of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 90.0


@contextmanager
def command(tmp_path: Path, *arguments: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A command in a session of its own; what it prints goes to files. With `cwd` as it is installed, and there."""
    module = [sys.executable, "-m", "group_coordinator.command_line.main"]
    program = module if cwd is None else [str(Path(sys.executable).with_name("group-coordinator"))]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            [*program, *arguments], stdout=out, stderr=err, text=True, start_new_session=True, cwd=cwd
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def wait_for(process: subprocess.Popen[str], tmp_path: Path, pattern: str) -> str:
    """What was printed, as soon as it has this."""
    def printed() -> str:
        return (tmp_path / "out").read_text()

    def otherwise() -> str:
        return f"no {pattern!r}; exit code {process.poll()}\n{printed()}\n{(tmp_path / 'err').read_text()}"

    wait_until(
        lambda: re.search(pattern, printed()) or process.poll() is not None, START_TIMEOUT_S, otherwise, interval_s=0.2
    )
    text = printed()
    assert re.search(pattern, text), otherwise()
    return text


def session_of(process: subprocess.Popen[str]) -> list[str]:
    """The processes of its session that are still alive."""
    command = ["ps", "-o", "pid=,args=", "-s", str(process.pid)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in result.stdout.splitlines() if "<defunct>" not in line]
