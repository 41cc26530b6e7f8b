"""Commands that are asked to end, as supervisors and terminals do it: all of their processes at once."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from group_coordinator.command_line import signals
from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.signals import stop_requested
from group_coordinator.proving.commands import replay
from group_coordinator.proving.commands.replay import told_by_replay
from tests.command_line.calls import REQUEST_LOG, call
from tests.command_line.processes import START_TIMEOUT_S, STOP_TIMEOUT_S, command, session_of, wait_for
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def hangup_is_not_ignored() -> Iterator[None]:
    """A run of the tests under `nohup` ignores SIGHUP, and so would the commands that it starts."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_is_asked_and_its_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_requested() as stop:
        assert not stop.is_set()
        for _ in range(3):  # `timeout` sends it twice, a terminal's shell too
            signal.raise_signal(number)
            assert stop.is_set()
    assert signal.getsignal(number) == before


def test_who_insists_by_ctrl_c_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "SAME_INTERVAL_S", -1.0)
    with stop_requested():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_hangup_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requested() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


# -------------------------------------------------------------------------------------------------------- processes


def processes_of(process: subprocess.Popen[str]) -> list[int]:
    return [int(line.split()[0]) for line in session_of(process)]


def ask_all(process: subprocess.Popen[str]) -> None:
    """As systemd does by default: SIGTERM to every process, whatever its group."""
    for number in processes_of(process):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGTERM)


def assert_nothing_left(process: subprocess.Popen[str]) -> None:
    """Waits for the processes that end because their parent has."""
    wait_until(lambda: not session_of(process), STOP_TIMEOUT_S, lambda: session_of(process), interval_s=0.2)


def assert_no_traceback(directory: Path) -> None:
    """But for that of Spark's own daemon, whose worker was writing when Spark's JVM ended before it."""
    text = (directory / "err").read_text()
    of_spark = re.findall(r'Traceback \(most recent call last\):\n  File "[^"]*pyspark/daemon\.py"', text)
    assert text.count("Traceback") == len(of_spark), text


def test_a_failing_clean_up_does_not_hide_that_a_replay_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError), told_by_replay({}):
        raise Py4JNetworkError("Answer from Java side is empty")
    monkeypatch.setattr(replay, "was_interrupted", lambda: True)
    with pytest.raises(KeyboardInterrupt), told_by_replay({}):
        raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.end_to_end
def test_the_coordinator_ends_in_order_when_all_its_processes_are_asked(tmp_path: Path, kafka_jars: Path) -> None:
    arguments = ("run", "--embedded", "--gateway", "127.0.0.1:0", "--dashboard", "127.0.0.1:0", "--no-responder")
    with command(tmp_path, *arguments) as process:
        text = wait_for(process, tmp_path, r"The gateway is ready")
        assert "A responder answers" not in text
        wait_for_workers(process)
        ask_all(process)
        assert process.wait(STOP_TIMEOUT_S) == 0, (tmp_path / "err").read_text()
    assert (tmp_path / "out").read_text().endswith("Stopped.\n")
    assert_no_traceback(tmp_path)
    assert session_of(process) == []


@pytest.mark.end_to_end
def test_the_coordinator_that_is_asked_while_it_starts(tmp_path: Path, kafka_jars: Path) -> None:
    with command(tmp_path, "run", "--embedded") as process:
        wait_for(process, tmp_path, r"Starting Spark")
        wait_for_workers(process, program="java -cp", count=1)  # Spark's JVM; the broker's has options before
        ask_all(process)
        assert process.wait(STOP_TIMEOUT_S) == 0, (tmp_path / "err").read_text()
    assert (tmp_path / "out").read_text().endswith("Stopped.\n")
    assert_no_traceback(tmp_path)
    assert_nothing_left(process)


@pytest.mark.end_to_end
def test_a_coordinator_ends_though_spark_and_its_broker_do_nothing_any_more(tmp_path: Path, kafka_jars: Path) -> None:
    with command(tmp_path, "run", "--embedded", "--gateway", "127.0.0.1:0") as process:
        wait_for(process, tmp_path, "The gateway is ready")
        wait_for_workers(process)
        for line in session_of(process):
            number, program = line.split()[:2]
            if "java" in program:
                os.kill(int(number), signal.SIGSTOP)
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0, (tmp_path / "err").read_text()
    text = (tmp_path / "out").read_text()
    assert "the next start repeats it" in text
    assert text.endswith("Stopped.\n")
    assert_no_traceback(tmp_path)
    assert_nothing_left(process)


@pytest.mark.end_to_end
def test_a_coordinator_that_is_killed_leaves_nothing_behind(tmp_path: Path, kafka_jars: Path) -> None:
    with command(tmp_path, "run", "--embedded") as process:
        wait_for(process, tmp_path, r"The coordinator runs")
        wait_for_workers(process)
        process.kill()
        process.wait()
    assert_nothing_left(process)


def wait_for_workers(process: subprocess.Popen[str], *, program: str = "worker_daemon", count: int = 2) -> None:
    """Until a batch has called Python, by the daemon and a worker."""
    wait_until(
        lambda: sum(program in line for line in session_of(process)) >= count,
        START_TIMEOUT_S,
        f"no {program} has started",
        interval_s=0.1,
    )


@pytest.mark.end_to_end
@pytest.mark.parametrize(("program", "count"), [("java -cp", 1), ("worker_daemon", 2)])
def test_a_replay_that_is_asked_to_end(program: str, count: int, tmp_path: Path, kafka_jars: Path) -> None:
    with command(tmp_path, "replay", str(REQUEST_LOG)) as process:
        wait_for_workers(process, program=program, count=count)
        ask_all(process)
        assert process.wait(STOP_TIMEOUT_S) == 130, (tmp_path / "err").read_text()
    assert (tmp_path / "err").read_text() == ""
    assert_nothing_left(process)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("replayed")
    assert call("replay", REQUEST_LOG, "--in-process", "--out", directory).exit_code == 0
    return directory


@pytest.mark.end_to_end
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_dashboard_ends_in_order(number: signal.Signals, replayed: Path, tmp_path: Path) -> None:
    with command(tmp_path, "dashboard", "--from", str(replayed), "--port", "0") as process:
        wait_for(process, tmp_path, "Ctrl-C ends it")
        os.killpg(process.pid, number)
        assert process.wait(STOP_TIMEOUT_S) == 0, (tmp_path / "err").read_text()
    assert (tmp_path / "out").read_text().endswith("Stopped.\n")
    assert (tmp_path / "err").read_text() == ""


# -------------------------------------------------------------------------------------------------------- terminals


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, process: subprocess.Popen[str], master: int) -> None:
        self.process, self._master, self.text = process, master, ""

    def wait_for(self, pattern: str) -> None:
        while not re.search(pattern, self.text):
            self.text += os.read(self._master, 10_000).decode(errors="replace")

    def press_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def close(self) -> None:
        if self._master >= 0:
            os.close(self._master)
        self._master = -1


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    master, slave = os.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "group_coordinator.command_line.main", *arguments], stdin=slave, stdout=slave,
        stderr=slave, text=True, preexec_fn=take_terminal,
    )  # fmt: skip
    os.close(slave)
    opened = Terminal(process, master)
    try:
        yield opened
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        opened.close()


@pytest.mark.end_to_end
def test_a_coordinator_whose_terminal_is_closed_ends_in_order(tmp_path: Path, kafka_jars: Path) -> None:
    with terminal("run", "--embedded", "--embedded-data", str(tmp_path / "kafka")) as opened:
        opened.wait_for(r"shard 0|batch|groups")
        wait_for_workers(opened.process)
        opened.close()
        assert opened.process.wait(STOP_TIMEOUT_S) == 0
    assert_nothing_left(opened.process)
    checkpoint = tmp_path / "kafka" / "checkpoint" / "shard-0"
    begun, ended = (
        {path.name for path in (checkpoint / name).iterdir() if path.name.isdecimal()}
        for name in ("offsets", "commits")
    )
    assert begun == ended, "it stopped between two batches"


@pytest.mark.end_to_end
def test_ctrl_c_on_a_terminal_ends_the_demo_in_order(kafka_jars: Path) -> None:
    with terminal("demo") as opened:
        opened.wait_for("From another terminal")
        opened.press_ctrl_c()
        opened.wait_for("explain --group payments --from")
        assert opened.process.wait(STOP_TIMEOUT_S) == 0
    assert "Traceback" not in opened.text
    assert_nothing_left(opened.process)
