"""The process of one shard's responder: prepared, given its start, heard, and ended."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from typing import IO, NamedTuple

import msgspec

from group_coordinator.coordinating.responder.permission import ResponderAloneError, ResponderRefusedError
from group_coordinator.coordinating.responder.protocol import (
    ExitCode,
    ResponderStart,
    ResponderStatus,
    decode_status,
    write_start,
)
from streaming.child_processes import end_process
from streaming.stored_group import Groups, size_of

START_INTERVAL_S = 5.0
"""A responder that has ended is started again after so long at the earliest: reading the state costs the query."""
UNREADABLE_INTERVAL_MAX_S = 60.0
"""Where the state cannot be read, or responders end before they have answered, the pause doubles with each try up to
this: a try may start a JVM."""
SILENT_AFTER_S = 60.0
"""A responder says every second how it is going."""
STOP_TIMEOUT_S = 6.0
"""A responder that is asked to end gives to Kafka what it has decided; one that takes longer is killed."""
_COMMAND = (sys.executable, "-m", "group_coordinator.coordinating.responder")
_log = logging.getLogger(__name__)


class ResponderState(StrEnum):
    """How it is with the responder of a shard."""

    ANSWERING = "answering"
    STARTING = "starting"
    SILENT = "silent"
    """Its process runs and says nothing."""
    FALLEN_BACK = "fallen_back"
    """It has ended or cannot begin, and is tried again."""
    STOPPED = "stopped"
    """It may not answer: an answer has differed, or the query is of another release."""

    @property
    def words(self) -> str:
        """The state as a status line names it."""
        return self.replace("_", " ")


class ResponderReport(NamedTuple):
    """How it is with the responder of a shard, and why it does not answer; an empty reason if it does."""

    state: ResponderState
    reason: str = ""


class ResponderProcess:
    """The process of one shard."""

    def __init__(self, shard: int) -> None:
        self.status: ResponderStatus | None = None
        self._is_refused = False
        self._problem = ""
        """Why it does not answer; empty if nothing has gone wrong since its last status."""
        self._told = ""
        """The reason that was logged last why it must wait."""
        self._shard = shard
        self._process: subprocess.Popen[bytes] | None = None
        self._prepared: subprocess.Popen[bytes] | None = None
        """A process that waits for its start, or for the rest of the state."""
        self._reader: threading.Thread | None = None
        """Reads what the process says."""
        self._not_before_s = 0.0
        self._last_pause_s = 0.0
        """The last pause after a start that came to nothing; 0: the last one has answered."""
        self._reading_since_s: float | None = None
        """Since when the state is being read; None: it is not."""
        self._read_s = 0.0
        """When a piece of it has come last, or the reading was begun."""
        self._read_bytes = self._read_groups = 0
        self._heard_s = 0.0
        """When the process has said something last, or was started."""

    @property
    def process_id(self) -> int | None:
        """The process; None if none runs."""
        process = self._process
        return None if process is None else process.pid

    def is_due(self) -> bool:
        """Return whether a process is to be started."""
        process = self._process
        if process is not None and process.poll() is not None:
            self._ended(process.returncode)
        return self._process is None and time.monotonic() >= self._not_before_s

    def report(self) -> ResponderReport:
        """Return how it is with the responder."""
        if self._process is None and self._problem:
            return ResponderReport(
                ResponderState.STOPPED if self._is_refused else ResponderState.FALLEN_BACK, self._problem
            )
        silent_s = time.monotonic() - self._heard_s
        if self._process is not None and silent_s > SILENT_AFTER_S:
            return ResponderReport(ResponderState.SILENT, f"it has been silent for {silent_s:.0f} s")
        if self.status is None:
            return ResponderReport(ResponderState.STARTING, self._starting())
        return ResponderReport(ResponderState.ANSWERING)

    def _starting(self) -> str:
        since_s = self._reading_since_s
        if since_s is None:
            return "it is starting"
        return (
            f"it is starting, for {time.monotonic() - since_s:.0f} s, and has "
            f"{self._read_bytes / (1 << 20):.0f} MiB of the query's state"
        )

    def start_later(self, problem: str, pause_s: float | None = None) -> None:
        """Start none for a moment; `problem`: the reason."""
        self._end_prepared()
        self._reading_since_s = None
        self._problem = problem
        self._not_before_s = time.monotonic() + (START_INTERVAL_S if pause_s is None else pause_s)

    def start_much_later(self, problem: str) -> float:
        """Start none for a pause, which is longer each time, and return it; `problem`: the reason."""
        self._last_pause_s = min(2 * self._last_pause_s or START_INTERVAL_S, UNREADABLE_INTERVAL_MAX_S)
        self.start_later(problem, self._last_pause_s)
        return self._last_pause_s

    @property
    def silence_of_state_s(self) -> float:
        """How long no piece of the state has come, while it is being read; else 0."""
        return 0.0 if self._reading_since_s is None else time.monotonic() - self._read_s

    def wait(self, reason: ResponderRefusedError | ResponderAloneError) -> None:
        """Start none: it may not answer now. The reason is logged once."""
        self._is_refused = isinstance(reason, ResponderRefusedError)
        if type(reason).__name__ != self._told:
            self._told = type(reason).__name__
            _log.warning("No responder answers for shard %d: %s", self._shard, reason)
        self.start_later(str(reason))

    def prepare(self) -> None:
        """Have a process load its modules, which takes it half a second, while the state is read. Raises OSError."""
        self._prepared = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._read_bytes, self._read_groups, self._read_s = 0, 0, time.monotonic()
        self._reading_since_s = self._read_s

    def start(self, start: ResponderStart, pieces: Iterable[Groups]) -> int:
        """Let the process that was prepared answer, when it has all groups; return their number. Raises what reading
        them raises, and OSError if the process has ended meanwhile."""
        prepared = self._prepared
        assert prepared is not None
        assert prepared.stdin is not None
        assert prepared.stdout is not None
        write_start(prepared.stdin, start, self._counted(pieces))
        self._is_refused, self._told, self._reading_since_s = False, "", None
        self._heard_s = time.monotonic()
        self._process, self._prepared = prepared, None
        self._reader = threading.Thread(target=self._read, args=(prepared.stdout,), daemon=True)
        self._reader.start()
        return self._read_groups

    def _counted(self, pieces: Iterable[Groups]) -> Iterator[Groups]:
        for piece in pieces:
            self._read_s = time.monotonic()
            self._read_groups += len(piece)
            self._read_bytes += sum(size_of(key, group) for key, group in piece.items())
            yield piece

    def give_up_start(self) -> None:
        """End the process that waits for its start, whoever is writing to it. May be called in any thread."""
        prepared = self._prepared
        if prepared is not None:
            prepared.kill()  # to close its input would wait for whoever writes to it

    def _end_prepared(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        if self._prepared is not None:
            end_process(self._prepared, timeout_s)
            self._prepared = None

    def ask_to_end(self) -> None:
        """Ask the process to end; returns at once."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # it is gone
                self._process.stdin.close()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the process; one that takes longer than `timeout_s` is killed."""
        self._end_prepared(timeout_s)
        if self._process is None or self._reader is None:
            return
        end_process(self._process, timeout_s)
        self._reader.join()  # what it has said last must not count after its end
        self._process, self._reader, self.status = None, None, None

    def _ended(self, code: int) -> None:
        has_answered = self.status is not None
        self.stop()
        self._is_refused = code == ExitCode.REFUSED
        problem = "it may not answer" if self._is_refused else f"it has ended with code {code}"
        if has_answered:
            self.start_later(problem)
        else:
            self.start_much_later(problem)
        _log.warning(
            "The responder of shard %d has ended with code %d; answers come at the query's speed. It is started again.",
            self._shard, code,
        )  # fmt: skip

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            try:
                self.status, self._heard_s, self._problem = decode_status(line), time.monotonic(), ""
                self._last_pause_s = 0.0
            except msgspec.DecodeError:
                _log.warning("The responder of shard %d says: %s", self._shard, line[:200])
