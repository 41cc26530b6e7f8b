"""The responders' processes: started with the query's state, watched, and started again when they end."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from typing import IO, NamedTuple

import msgspec

from group_coordinator.responder.permission import (
    ResponderAloneError,
    ResponderRefusedError,
    last_batch,
    require_permission,
    require_state_of,
)
from group_coordinator.responder.protocol import ExitCode, ResponderStart, ResponderStatus, decode_status, write_start
from streaming.child_processes import end_process
from streaming.config import StreamingConfig
from streaming.core_hash import core_hash
from streaming.events_tail import open_reader
from streaming.progress_topic import read_progress
from streaming.stored_group import ShardState

START_INTERVAL_S = 5.0
"""A responder that has ended is started again after so long at the earliest: reading the state costs the query."""
UNREADABLE_INTERVAL_MAX_S = 60.0
"""Where the state cannot be read, the pause doubles with each try up to this: a try may start a JVM."""
SILENT_AFTER_S = 60.0
"""A responder says every second how it is going."""
_STOP_TIMEOUT_S = 10.0
_COMMAND = (sys.executable, "-m", "group_coordinator.responder")
_POLL_S = 0.2

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


class ResponderProcesses:
    """Keeps a responder running for each shard, from `start` until `stop`."""

    def __init__(
        self,
        config: StreamingConfig,
        partitions: Mapping[str, int],
        read_state: Callable[[int], ShardState],
        *,
        are_apart: bool = False,
    ) -> None:
        """`partitions`: of the topics. `read_state` returns the state of a shard; it is called in a thread of ours.
        Whatever it raises is logged, and it is called again later. `are_apart`: they do not end with the coordinator,
        and write the clock while it does not."""
        self._config = config
        self._partitions = dict(partitions)
        self._read_state = read_state
        self._may_tick = are_apart and config.ticker
        self._responders = {shard: _Responder(shard) for shard in config.shards_here}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="responders", daemon=True)

    @property
    def statuses(self) -> dict[int, ResponderStatus | None]:
        """The last status of each shard's responder; None: none is running."""
        return {shard: responder.status for shard, responder in self._responders.items()}

    @property
    def process_ids(self) -> dict[int, int]:
        """The processes that run, by shard."""
        return {
            shard: pid for shard, responder in self._responders.items() if (pid := responder.process_id) is not None
        }

    def reports(self) -> dict[int, ResponderReport]:
        """Return how it is with each shard's responder."""
        return {shard: responder.report() for shard, responder in self._responders.items()}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End all processes; returns when they have ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for responder in self._responders.values():
            responder.stop()

    def _run(self) -> None:
        while not self._stopping.wait(_POLL_S):
            for shard, responder in self._responders.items():
                if responder.is_due():
                    self._start(shard, responder)

    def _start(self, shard: int, responder: _Responder) -> None:
        begin_s = time.monotonic()
        try:
            published = self._require_permission(shard)  # first: to read the state takes seconds, and a JVM
        except (ResponderRefusedError, ResponderAloneError) as reason:
            responder.wait(reason)
            return
        except Exception as problem:
            self._warn("How far the query of shard %d is cannot be read for its responder: %s", shard, problem)
            responder.start_later("how far the query is cannot be read")
            return
        try:
            responder.prepare()
        except OSError as problem:  # no memory, no descriptor
            _log.warning("The responder of shard %d cannot be started: %s", shard, problem)
            responder.start_later("its process cannot be started")
            return
        try:
            state = self._read_state(shard)
            require_state_of(published, state.batch_id)
        except Exception as problem:
            self._warn("The state of shard %d cannot be read for its responder: %s", shard, problem)
            responder.read_later()
            return
        if self._stopping.is_set():
            return
        start = ResponderStart(
            settings=asdict(self._config),
            partitions=self._partitions,
            shard=shard,
            state=state,
            may_tick=self._may_tick,
        )
        responder.start(start)
        _log.info(
            "The responder of shard %d begins at offset %d with %d groups; its start took %.1f s.",
            shard, state.end_offset, len(state.groups), time.monotonic() - begin_s,
        )  # fmt: skip

    def _warn(self, text: str, shard: int, problem: Exception) -> None:
        if not self._stopping.is_set():  # then it is no wonder
            _log.warning(text, shard, problem)

    def _require_permission(self, shard: int) -> int:
        """Return the last batch that the query has published. Raises ResponderRefusedError, ResponderAloneError,
        ResponderError and KafkaException."""
        config = self._config
        own_hash = core_hash(config.operator_config(self._partitions, shard))
        with open_reader(config.client_properties) as reader:
            published = read_progress(reader, config.topic_settings.topics.progress, shard)
        require_permission(published, shard, own_hash, config.responder_alone_max_ms)
        return last_batch(published)


class _Responder:
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
        """A process that waits for its start."""
        self._reader: threading.Thread | None = None
        """Reads what the process says."""
        self._not_before_s = 0.0
        self._unreadable_pause_s = 0.0
        """The last pause after the state could not be read; 0: it could."""
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
            return ResponderReport(ResponderState.STARTING, "it is starting")
        return ResponderReport(ResponderState.ANSWERING)

    def start_later(self, problem: str, pause_s: float | None = None) -> None:
        """Start none for a moment; `problem`: the reason."""
        self._end_prepared()
        self._problem = problem
        self._not_before_s = time.monotonic() + (START_INTERVAL_S if pause_s is None else pause_s)

    def read_later(self) -> None:
        """Start none for a moment, which is longer each time: the state cannot be read."""
        doubled_s = 2 * self._unreadable_pause_s or START_INTERVAL_S
        self._unreadable_pause_s = min(doubled_s, UNREADABLE_INTERVAL_MAX_S)
        self.start_later("the state of the query cannot be read", self._unreadable_pause_s)

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

    def start(self, start: ResponderStart) -> None:
        """Let the process that was prepared answer."""
        self._is_refused, self._told, self._unreadable_pause_s = False, "", 0.0
        self._heard_s = time.monotonic()
        self._process, self._prepared = self._prepared, None
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        with suppress(BrokenPipeError):  # it has ended, which is found in a moment
            write_start(self._process.stdin, start)

    def _end_prepared(self) -> None:
        if self._prepared is not None:
            end_process(self._prepared, _STOP_TIMEOUT_S)
            self._prepared = None

    def stop(self) -> None:
        self._end_prepared()
        if self._process is None or self._reader is None:
            return
        end_process(self._process, _STOP_TIMEOUT_S)
        self._reader.join()  # what it has said last must not count after its end
        self._process, self._reader, self.status = None, None, None

    def _ended(self, code: int) -> None:
        self.stop()
        self._is_refused = code == ExitCode.REFUSED
        self.start_later("it may not answer" if self._is_refused else f"it has ended with code {code}")
        _log.warning(
            "The responder of shard %d has ended with code %d; answers come at the query's speed. It is started again.",
            self._shard, code,
        )  # fmt: skip

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            try:
                self.status, self._heard_s, self._problem = decode_status(line), time.monotonic(), ""
            except msgspec.DecodeError:
                _log.warning("The responder of shard %d says: %s", self._shard, line[:200])
