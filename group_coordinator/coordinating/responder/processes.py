"""The responders' processes: started with the query's state, watched, and started again when they end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict

from group_coordinator.coordinating.responder.permission import (
    ResponderAloneError,
    ResponderRefusedError,
    last_batch,
    require_permission,
    require_state_of,
)
from group_coordinator.coordinating.responder.process import STOP_TIMEOUT_S, ResponderProcess, ResponderReport
from group_coordinator.coordinating.responder.protocol import ResponderStart, ResponderStatus
from streaming.config import StreamingConfig
from streaming.core_hash import core_hash
from streaming.events_tail import open_reader
from streaming.progress_topic import read_progress
from streaming.stored_group import StateInPieces

STATE_SILENCE_MAX_S = 600.0
"""If no piece of the state comes for so long, the start is given up, and tried again. Spark writes all of the state to
disk before the first piece comes, at the lowest priority where processors are busy."""
_POLL_S = 0.2
_WAIT_FOR_START_S = 2.0
"""A stop waits so long for a start that is under way. What Spark has begun ends with Spark."""
_PROBLEM_CHARACTERS_MAX = 200

_log = logging.getLogger(__name__)


class ResponderProcesses:
    """Keeps a responder running for each shard, from `start` until `stop`."""

    def __init__(
        self,
        config: StreamingConfig,
        partitions: Mapping[str, int],
        read_state: Callable[[int], StateInPieces],
        *,
        are_apart: bool = False,
    ) -> None:
        """`partitions`: of the topics. `read_state` returns the state of a shard; it is called and read in a thread of
        ours. Whatever that raises is logged, and it is called again later, also if nothing comes of it for too long.
        `are_apart`: they do not end with the coordinator, and write the clock while it does not."""
        self._config = config
        self._partitions = dict(partitions)
        self._read_state = read_state
        self._may_tick = are_apart and config.ticker
        self._responders = {shard: ResponderProcess(shard) for shard in config.shards_here}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="responders", daemon=True)
        self._start_under_way: _Start | None = None
        """One at a time: to read a state takes memory, and costs the query."""

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
        """End all processes; returns when they have ended. It does not wait for a state that is being read."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._start_under_way is not None:
            self._start_under_way.give_up(_WAIT_FOR_START_S)
        for responder in self._responders.values():
            responder.ask_to_end()
        kill_at_s = time.monotonic() + STOP_TIMEOUT_S  # of all together
        for responder in self._responders.values():
            responder.stop(max(0.0, kill_at_s - time.monotonic()))

    def _run(self) -> None:
        while not self._stopping.wait(_POLL_S):
            due = [shard for shard, responder in self._responders.items() if responder.is_due()]
            start = self._start_under_way
            if start is not None and start.is_alive():
                self._give_up_if_silent(start)
            elif due:
                start = _Start(due[0], self._responders[due[0]], self._start)
                self._start_under_way = start
                start.start()

    def _give_up_if_silent(self, start: _Start) -> None:
        silence_s = start.responder.silence_of_state_s
        if silence_s > STATE_SILENCE_MAX_S:
            start.give_up(_WAIT_FOR_START_S)
            self._start_under_way = None
            self._try_again(start, f"no piece of the query's state has come for {silence_s:.0f} s")

    def _start(self, start: _Start) -> None:
        shard, responder, begin_s = start.shard, start.responder, time.monotonic()
        try:
            published = self._require_permission(shard)  # first: to read the state takes seconds, and a JVM
        except (ResponderRefusedError, ResponderAloneError) as reason:
            responder.wait(reason)
            return
        except Exception as problem:
            self._warn("How far the query of shard %d is cannot be read for its responder: %s", shard, problem)
            responder.start_later("how far the query is cannot be read")
            return
        if self._stopping.is_set():
            return
        try:
            responder.prepare()
        except OSError as problem:  # no memory, no descriptor
            _log.warning("The responder of shard %d cannot be started: %s", shard, problem)
            responder.start_later("its process cannot be started")
            return
        try:
            groups = self._hand_over(published, shard, responder)
        except Exception as problem:
            if not start.is_given_up.is_set():
                self._try_again(start, f"the state of the query cannot be read: {_in_short(problem)}")
            return
        _log.info(
            "The responder of shard %d begins with %d groups; its start took %.1f s.",
            shard, groups, time.monotonic() - begin_s,
        )  # fmt: skip

    def _hand_over(self, published: int, shard: int, responder: ResponderProcess) -> int:
        """Read the state and give it to the process that was prepared, piece by piece; return the number of groups."""
        state, pieces = self._read_state(shard)
        with closing(pieces):
            require_state_of(published, state.batch_id)
            start = ResponderStart(
                settings=asdict(self._config),
                partitions=self._partitions,
                shard=shard,
                state=state,
                may_tick=self._may_tick,
            )
            return responder.start(start, pieces)

    def _try_again(self, start: _Start, problem: str) -> None:
        pause_s = start.responder.start_much_later(problem)
        self._warn(
            "The responder of shard %d cannot start: %s. Answers come at the query's speed. It is tried again in "
            f"{pause_s:.0f} s.", start.shard, problem,
        )  # fmt: skip

    def _warn(self, text: str, shard: int, problem: Exception | str) -> None:
        if not self._stopping.is_set():  # then it is no wonder
            _log.warning(text, shard, problem)

    def _require_permission(self, shard: int) -> int:
        """Return the last batch that the query has published. Raises ResponderRefusedError, ResponderAloneError,
        ResponderError and KafkaException."""
        config = self._config
        own_hash = core_hash(config.operator_config(self._partitions, shard))
        with open_reader(config.client_properties) as reader:
            published = read_progress(reader, config.topics.progress, shard)
        require_permission(published, shard, own_hash, config.responder_alone_max_ms)
        return last_batch(published)


class _Start(threading.Thread):
    """The start of one responder is under way."""

    def __init__(self, shard: int, responder: ResponderProcess, run: Callable[[_Start], None]) -> None:
        super().__init__(target=run, args=(self,), name=f"responder-{shard}", daemon=True)
        self.shard, self.responder = shard, responder
        self.is_given_up = threading.Event()
        """Whatever comes of it does not count any more."""

    def give_up(self, timeout_s: float) -> None:
        """End the process that waits for its start. Whoever reads the state may go on for longer than `timeout_s`, for
        nobody."""
        self.is_given_up.set()
        self.responder.give_up_start()
        if self.is_alive():
            self.join(timeout_s)


def _in_short(problem: Exception) -> str:
    """Return the first line of an error: Spark's have the whole trace of the JVM."""
    first = next(iter(str(problem).splitlines()), "") or type(problem).__name__
    return first[:_PROBLEM_CHARACTERS_MAX]
