"""The processes of responders: what is said of them after their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from group_coordinator.responder import processes
from group_coordinator.responder.permission import ResponderAloneError, ResponderRefusedError
from group_coordinator.responder.processes import SILENT_AFTER_S, ResponderProcesses, ResponderState
from group_coordinator.responder.protocol import ResponderStatus, decode_status, encode_line
from streaming.child_processes import ChildProcess, end_process
from streaming.config import StreamingConfig
from streaming.stored_group import ShardState
from tests.waiting import wait_until

EMPTY = ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=0, groups={})
LAST_WORDS = f"import sys; sys.stdin.buffer.read(1); print({encode_line(ResponderStatus(answers=1)).decode()!r})"

TALKS_UNTIL_THE_END = f"""
import sys
print({encode_line(ResponderStatus(answers=1)).decode()!r}, flush=True)
while sys.stdin.buffer.read(1):
    pass
"""


def test_the_last_words_of_a_process_that_has_ended_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    may_read, is_read = threading.Event(), threading.Event()

    def read_late(line: bytes) -> ResponderStatus:
        is_read.set()
        may_read.wait()
        return decode_status(line)

    def end(process: ChildProcess, timeout_s: float) -> None:
        threading.Timer(0.2, may_read.set).start()
        end_process(process, timeout_s)

    monkeypatch.setattr(processes, "decode_status", read_late)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(processes, "_COMMAND", [sys.executable, "-c", LAST_WORDS])
    monkeypatch.setattr(processes, "end_process", end)
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: EMPTY)
    running.start()
    assert is_read.wait(60)
    running.stop()
    assert running.statuses == {0: None}
    wait_until(may_read.is_set)
    assert running.statuses == {0: None}
    assert not running.process_ids


def test_a_process_that_does_not_end_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.PIPE)
    end_process(process, 0.1)
    assert process.returncode == -9


def test_a_process_without_permission_is_not_started_and_no_state_is_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[int] = []

    def refuse(self: ResponderProcesses, shard: int) -> int:
        looks.append(shard)
        raise ResponderRefusedError("another hash")

    def read_state(shard: int) -> ShardState:
        raise AssertionError("it was read")

    monkeypatch.setattr(processes, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", refuse)
    running = ResponderProcesses(StreamingConfig(), {}, read_state)
    running.start()
    wait_until(lambda: len(looks) > 3)
    assert running.reports() == {0: (ResponderState.STOPPED, "another hash")}
    running.stop()
    assert caplog.text.count("another hash") == 1
    assert "was read" not in caplog.text


def test_a_state_that_cannot_be_read_is_tried_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try may start a JVM."""
    tries_s: list[float] = []

    def read_state(shard: int) -> ShardState:
        tries_s.append(time.monotonic())
        raise OSError("no such directory")

    monkeypatch.setattr(processes, "_POLL_S", 0.01)
    monkeypatch.setattr(processes, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(processes, "UNREADABLE_INTERVAL_MAX_S", 0.3)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    running = ResponderProcesses(StreamingConfig(), {}, read_state)
    running.start()
    wait_until(lambda: len(tries_s) >= 5)
    running.stop()
    assert running.reports() == {0: (ResponderState.FALLEN_BACK, "the state of the query cannot be read")}
    pauses_s = [later - earlier for earlier, later in pairwise(tries_s[:5])]
    assert all(pause_s >= least_s for pause_s, least_s in zip(pauses_s, (0.1, 0.2, 0.3, 0.3), strict=True))


def test_a_process_loads_its_modules_while_the_state_is_read_and_ends_if_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    touch = "__import__('pathlib').Path({!r}).touch()"
    script = f"import sys; {touch.format(str(begun))}; sys.stdin.read(); {touch.format(str(ended))}"
    monkeypatch.setattr(processes, "_COMMAND", [sys.executable, "-c", script])
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)

    def read_state(shard: int) -> ShardState:
        wait_until(begun.exists)
        raise OSError("no such directory")

    running = ResponderProcesses(StreamingConfig(), {}, read_state)
    running.start()
    wait_until(ended.exists)
    running.stop()


def test_a_process_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The machine may have neither memory nor a descriptor left at the moment."""
    monkeypatch.setattr(processes, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(processes, "_COMMAND", ["/there/is/no/such/program"])
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: EMPTY)
    running.start()
    wait_until(lambda: caplog.text.count("no/such/program") > 1)
    assert running.statuses == {0: None}
    running.stop()
    assert running.reports() == {0: (ResponderState.FALLEN_BACK, "its process cannot be started")}


@pytest.mark.parametrize(("batch_id", "words"), [(-1, "has no batch"), (3, "ends with batch 3")])
def test_no_responder_begins_with_a_state_that_is_older_than_what_the_query_has_published(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, batch_id: int, words: str
) -> None:
    """Somebody has named another checkpoint. An empty one would stand for a coordinator that begins: its groups would
    have no members."""
    monkeypatch.setattr(processes, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: 4)
    monkeypatch.setattr(processes, "_COMMAND", [sys.executable, "-c", TALKS_UNTIL_THE_END])
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: msgspec.structs.replace(EMPTY, batch_id=batch_id))
    running.start()
    wait_until(lambda: caplog.text.count(words) > 1)
    assert running.reports() == {0: (ResponderState.FALLEN_BACK, "the state of the query cannot be read")}
    running.stop()


def test_a_responder_that_the_query_leaves_alone_has_fallen_back_and_is_not_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def leave(self: ResponderProcesses, shard: int) -> int:
        raise ResponderAloneError("silence")

    monkeypatch.setattr(ResponderProcesses, "_require_permission", leave)
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: EMPTY)
    running.start()
    wait_until(lambda: running.reports() == {0: (ResponderState.FALLEN_BACK, "silence")})
    running.stop()


def test_a_responder_starts_answers_is_silent_ends_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begins, may_start = threading.Semaphore(0), threading.Semaphore(0)

    def read_state(shard: int) -> ShardState:
        begins.release()
        assert may_start.acquire(timeout=60)
        return EMPTY

    monkeypatch.setattr(processes, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(processes, "_COMMAND", [sys.executable, "-c", TALKS_UNTIL_THE_END])
    running = ResponderProcesses(StreamingConfig(), {}, read_state)
    running.start()
    assert begins.acquire(timeout=60)
    assert running.reports()[0].state is ResponderState.STARTING
    may_start.release()
    wait_until(lambda: running.reports() == {0: (ResponderState.ANSWERING, "")})
    with monkeypatch.context() as later:
        now_s = time.monotonic() + SILENT_AFTER_S + 1
        later.setattr("group_coordinator.responder.processes.time.monotonic", lambda: now_s)
        assert running.reports()[0].state is ResponderState.SILENT
    os.kill(running.process_ids[0], signal.SIGKILL)
    assert begins.acquire(timeout=60)
    assert running.reports() == {0: (ResponderState.FALLEN_BACK, "it has ended with code -9")}
    may_start.release()
    wait_until(lambda: running.reports() == {0: (ResponderState.ANSWERING, "")})
    running.stop()
