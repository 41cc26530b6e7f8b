"""The processes of responders: what is said of them after their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from group_coordinator.coordinating.responder import process as one_process
from group_coordinator.coordinating.responder import processes
from group_coordinator.coordinating.responder.permission import ResponderAloneError, ResponderRefusedError
from group_coordinator.coordinating.responder.process import SILENT_AFTER_S, ResponderState
from group_coordinator.coordinating.responder.processes import ResponderProcesses
from group_coordinator.coordinating.responder.protocol import ResponderStatus, decode_status, encode_line
from streaming.child_processes import ChildProcess, end_process
from streaming.config import StreamingConfig
from streaming.stored_group import Groups, ShardState, StateInPieces, StoredGroup, in_pieces
from tests.coordinating.responder.query_batches import pieces_of
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

    monkeypatch.setattr(one_process, "decode_status", read_late)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(one_process, "_COMMAND", [sys.executable, "-c", LAST_WORDS])
    monkeypatch.setattr(one_process, "end_process", end)
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: pieces_of(EMPTY))
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

    def read_state(shard: int) -> StateInPieces:
        raise AssertionError("it was read")

    monkeypatch.setattr(one_process, "START_INTERVAL_S", 0.1)
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

    def read_state(shard: int) -> StateInPieces:
        tries_s.append(time.monotonic())
        raise OSError("no such directory")

    monkeypatch.setattr(processes, "_POLL_S", 0.01)
    monkeypatch.setattr(one_process, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(one_process, "UNREADABLE_INTERVAL_MAX_S", 0.3)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    running = ResponderProcesses(StreamingConfig(), {}, read_state)
    running.start()
    wait_until(lambda: len(tries_s) >= 5)
    running.stop()
    assert running.reports() == {
        0: (ResponderState.FALLEN_BACK, "the state of the query cannot be read: no such directory")
    }
    pauses_s = [later - earlier for earlier, later in pairwise(tries_s[:5])]
    assert all(pause_s >= least_s for pause_s, least_s in zip(pauses_s, (0.1, 0.2, 0.3, 0.3), strict=True))


def test_a_process_loads_its_modules_while_the_state_is_read_and_ends_if_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    touch = "__import__('pathlib').Path({!r}).touch()"
    script = f"import sys; {touch.format(str(begun))}; sys.stdin.read(); {touch.format(str(ended))}"
    monkeypatch.setattr(one_process, "_COMMAND", [sys.executable, "-c", script])
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)

    def read_state(shard: int) -> StateInPieces:
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
    monkeypatch.setattr(one_process, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(one_process, "_COMMAND", ["/there/is/no/such/program"])
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: pieces_of(EMPTY))
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
    monkeypatch.setattr(one_process, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: 4)
    monkeypatch.setattr(one_process, "_COMMAND", [sys.executable, "-c", TALKS_UNTIL_THE_END])
    state = msgspec.structs.replace(EMPTY, batch_id=batch_id)
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: pieces_of(state))
    running.start()
    wait_until(lambda: caplog.text.count(words) > 1)
    assert running.reports()[0].state is ResponderState.FALLEN_BACK
    assert words in running.reports()[0].reason
    running.stop()


def test_a_responder_that_the_query_leaves_alone_has_fallen_back_and_is_not_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def leave(self: ResponderProcesses, shard: int) -> int:
        raise ResponderAloneError("silence")

    monkeypatch.setattr(ResponderProcesses, "_require_permission", leave)
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: pieces_of(EMPTY))
    running.start()
    wait_until(lambda: running.reports() == {0: (ResponderState.FALLEN_BACK, "silence")})
    running.stop()


def test_a_responder_starts_answers_is_silent_ends_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begins, may_start = threading.Semaphore(0), threading.Semaphore(0)

    def read_state(shard: int) -> StateInPieces:
        begins.release()
        assert may_start.acquire(timeout=60)
        return pieces_of(EMPTY)

    monkeypatch.setattr(one_process, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(one_process, "_COMMAND", [sys.executable, "-c", TALKS_UNTIL_THE_END])
    running = ResponderProcesses(StreamingConfig(), {}, read_state)
    running.start()
    assert begins.acquire(timeout=60)
    assert running.reports()[0].state is ResponderState.STARTING
    may_start.release()
    wait_until(lambda: running.reports() == {0: (ResponderState.ANSWERING, "")})
    with monkeypatch.context() as later:
        now_s = time.monotonic() + SILENT_AFTER_S + 1
        later.setattr("group_coordinator.coordinating.responder.process.time.monotonic", lambda: now_s)
        assert running.reports()[0].state is ResponderState.SILENT
    os.kill(running.process_ids[0], signal.SIGKILL)
    assert begins.acquire(timeout=60)
    assert running.reports() == {0: (ResponderState.FALLEN_BACK, "it has ended with code -9")}
    may_start.release()
    wait_until(lambda: running.reports() == {0: (ResponderState.ANSWERING, "")})
    running.stop()


TAKES_ALL = """
import sys
from group_coordinator.coordinating.responder.protocol import ResponderStatus, encode_line, read_start
groups = read_start(sys.stdin.buffer).state.groups
size = sum(len(key) + len(group.membership) + len(group.offsets) for key, group in groups.items())
print(encode_line(ResponderStatus(groups=len(groups), state_bytes=size)).decode(), flush=True)
sys.stdin.buffer.read(1)
"""


def test_a_large_state_goes_to_the_responder_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts a responder has one piece of the state in memory at a time."""
    alive, most = 0, 0

    def gone() -> None:
        nonlocal alive
        alive -= 1

    def groups() -> Iterator[tuple[bytes, StoredGroup]]:
        for number in range(300):
            yield b"%d" % number, StoredGroup(None, b"m" * 200_000, b"o" * 10_000)

    def pieces() -> Generator[Groups]:
        nonlocal alive, most
        for piece in in_pieces(groups()):
            watched = Watched(piece)
            weakref.finalize(watched, gone)
            alive += 1
            most = max(most, alive)
            yield watched

    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(one_process, "_COMMAND", [sys.executable, "-c", TAKES_ALL])
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: StateInPieces(EMPTY, pieces()))
    running.start()
    wait_until(lambda: running.statuses[0] is not None)
    running_status = running.statuses[0]
    assert running_status is not None
    assert (running_status.groups, running_status.state_bytes) == (300, 300 * 210_000 + 10 + 90 * 2 + 200 * 3)
    assert 1 <= most <= 2
    running.stop()


class Watched(dict[bytes, StoredGroup]):
    """A piece whose end can be seen."""


@pytest.mark.parametrize("with_pieces", [False, True])
def test_a_stop_does_not_wait_for_a_state_that_does_not_come(
    monkeypatch: pytest.MonkeyPatch, with_pieces: bool
) -> None:
    """Spark may hang for ever. Where the process waits for the rest of the state, it is ended."""
    is_reading, may_go_on = threading.Event(), threading.Event()

    def hang() -> Generator[Groups]:
        yield {b"g": StoredGroup(None, b"m", b"o")}
        is_reading.set()
        may_go_on.wait()

    def read_state(shard: int) -> StateInPieces:
        if not with_pieces:
            is_reading.set()
            may_go_on.wait()
        return StateInPieces(EMPTY, hang())

    monkeypatch.setattr(processes, "_WAIT_FOR_START_S", 0.1)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    running = ResponderProcesses(StreamingConfig(), {}, read_state)
    running.start()
    assert is_reading.wait(60)
    running.stop()
    assert not may_go_on.is_set()
    assert not running.process_ids
    may_go_on.set()
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "responder-0"])
    assert not running.process_ids


def test_a_stop_does_not_wait_for_a_process_that_does_not_take_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing reads the pipe, which is full."""
    monkeypatch.setattr(processes, "_WAIT_FOR_START_S", 60.0)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(one_process, "_COMMAND", [sys.executable, "-c", "import time; time.sleep(600)"])
    given: list[int] = []

    def pieces() -> Generator[Groups]:
        for number in range(10):
            given.append(number)
            yield {b"g": StoredGroup(None, b"m" * 1_000_000, b"o")}

    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: StateInPieces(EMPTY, pieces()))
    running.start()
    wait_until(lambda: bool(given))
    time.sleep(0.3)
    running.stop()
    assert len(given) < 10
    assert not [thread for thread in threading.enumerate() if thread.name == "responder-0"]


def test_a_state_of_which_nothing_comes_for_too_long_is_given_up_said_and_read_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[int] = []
    may_end = threading.Event()

    def read_state(shard: int) -> StateInPieces:
        tries.append(shard)
        if len(tries) == 1:
            may_end.wait()
            raise OSError("late words")
        return pieces_of(EMPTY)

    monkeypatch.setattr(processes, "STATE_SILENCE_MAX_S", 0.3)
    monkeypatch.setattr(processes, "_WAIT_FOR_START_S", 0.1)
    monkeypatch.setattr(one_process, "START_INTERVAL_S", 0.5)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(one_process, "_COMMAND", [sys.executable, "-c", TALKS_UNTIL_THE_END])
    running = ResponderProcesses(StreamingConfig(), {}, read_state)
    running.start()
    wait_until(lambda: running.reports()[0].state is ResponderState.FALLEN_BACK)
    assert "no piece of the query's state has come" in running.reports()[0].reason
    wait_until(lambda: "no piece of the query's state has come" in caplog.text)  # it is told after that
    wait_until(lambda: running.reports() == {0: (ResponderState.ANSWERING, "")})
    may_end.set()  # who was given up says nothing, and changes nothing
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "responder-0"])
    assert running.reports() == {0: (ResponderState.ANSWERING, "")}
    assert "late words" not in caplog.text
    running.stop()


def test_a_start_says_how_long_it_takes_and_how_much_of_the_state_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    is_read, may_end = threading.Event(), threading.Event()

    def pieces() -> Generator[Groups]:
        yield {b"g": StoredGroup(None, b"m" * 3_000_000, b"o" * 300_000)}
        is_read.set()
        may_end.wait()
        raise OSError("the disk is gone\nat org.apache.spark")

    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(one_process, "_COMMAND", [sys.executable, "-c", "import sys; sys.stdin.buffer.read()"])
    running = ResponderProcesses(StreamingConfig(), {}, lambda shard: StateInPieces(EMPTY, pieces()))
    running.start()
    assert is_read.wait(60)
    assert running.reports()[0].state is ResponderState.STARTING
    assert "3 MiB of the query's state" in running.reports()[0].reason
    may_end.set()
    wait_until(lambda: running.reports()[0].state is ResponderState.FALLEN_BACK)
    assert running.reports()[0].reason == "the state of the query cannot be read: the disk is gone"
    running.stop()


def test_a_responder_that_ends_before_it_answers_is_started_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have no room for the state, which costs the query each time that it is read."""
    tries_s: list[float] = []

    def read_state(shard: int) -> StateInPieces:
        tries_s.append(time.monotonic())
        return pieces_of(EMPTY)

    ends_at_once = "from sys import stdin; from group_coordinator.coordinating.responder.protocol import read_start; "
    ends_at_once += "read_start(stdin.buffer); exit(1)"
    monkeypatch.setattr(processes, "_POLL_S", 0.01)
    monkeypatch.setattr(one_process, "START_INTERVAL_S", 0.1)
    monkeypatch.setattr(ResponderProcesses, "_require_permission", lambda self, shard: -1)
    monkeypatch.setattr(one_process, "_COMMAND", [sys.executable, "-c", ends_at_once])
    running = ResponderProcesses(StreamingConfig(), {}, read_state)
    running.start()
    wait_until(lambda: len(tries_s) >= 4)
    running.stop()
    pauses_s = [later - earlier for earlier, later in pairwise(tries_s[:4])]
    assert all(pause_s >= least_s for pause_s, least_s in zip(pauses_s, (0.1, 0.2, 0.4), strict=True))
