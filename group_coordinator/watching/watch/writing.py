"""What is watched is written to files again and again, and once more at the end.

An output is replaced as a whole, and never before the source has read all that was there at its start: a process that
is killed leaves what was last written. A write that finds nothing new is left out. What is large is written less often.
At the end a write that takes long is given up, and leaves what was last written, too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.sources import Source
from group_coordinator.watching.history.stored_generations import StoredGenerations
from group_coordinator.watching.watch.conditions import Conditions
from schemas.history import History

INTERVAL_S = 60.0
_IDLE_SHARE = 3.0
"""For each second of writing, so many are left for what is watched."""
_BYTES_PER_S = 1024 * 1024
"""On average no more is written than that."""
_END_S = 10.0
"""A write that has not ended so long after the end was asked for is given up."""
_POLL_S = 0.2
_DOUBTS = "the outputs"
"""The origin of the doubts about outputs; no cluster can have a name with a space."""
_log = logging.getLogger(__name__)


class GroupHistory(NamedTuple):
    """What is known of one group."""

    cluster: str
    """Its cluster, where there are several."""
    records: Sequence[History]
    stored: StoredGenerations | None = None
    """Of a classic group, what its generations say."""


class HistorySource(Source, Protocol):
    """A source that can tell the history of its groups anew."""

    @property
    def is_whole(self) -> bool:
        """Whether all that was there at the start has been read."""

    @property
    def changes(self) -> int:
        """Grows with what is read."""

    def histories(self) -> Iterator[GroupHistory]:
        """Yield what is known of each group, in the order of clusters and groups. For any thread."""

    def conditions(self) -> Conditions:
        """Return how the watching of each cluster goes."""


class WriteGivenUpError(RuntimeError):
    """The program ends, and a write would keep it waiting."""


class Output(Protocol):
    """Something that is written as a whole."""

    def write(self, histories: Iterator[GroupHistory], index: Index, go_on: Callable[[], None]) -> int:
        """Replace what was there; where that fails, it stays. Returns how many bytes were written.

        `go_on` is called for each group, as `histories` does by itself. Raises OSError, and WriteGivenUpError by these.
        """


class WrittenSource:
    """A source, and the outputs that are made of it. One thread writes."""

    def __init__(
        self,
        source: HistorySource,
        outputs: Sequence[Output],
        interval_s: float = INTERVAL_S,
        end_s: float = _END_S,
    ) -> None:
        """`end_s`: how long a write may keep the end waiting."""
        self.name, self.is_live = source.name, source.is_live
        self._source = source
        self._outputs = outputs
        self._interval_s = interval_s
        self._written = -1
        """How much had been read when all was written."""
        self._end_s = end_s
        self._ends_at_s: float | None = None
        """When a write is given up."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, index: Index) -> None:
        """Raises SourceError."""
        self._source.start(index)
        self._thread = threading.Thread(target=self._run, args=(index,), name="watch-outputs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and return when all that was watched is written, or when that takes too long."""
        self._ends_at_s = time.monotonic() + self._end_s
        self._source.stop()
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def read_request(self, partition: int, offset: int) -> Any:
        return self._source.read_request(partition, offset)

    def progress(self) -> dict[str, Any]:
        return self._source.progress()

    def _run(self, index: Index) -> None:
        while not self._source.is_whole and not self._stopping.wait(_POLL_S):
            pass
        while not self._stopping.is_set():
            begun_s = time.monotonic()
            written_bytes = self._write(index)
            took_s = time.monotonic() - begun_s
            self._stopping.wait(max(self._interval_s, took_s * _IDLE_SHARE, written_bytes / _BYTES_PER_S - took_s))
        self._write(index)

    def _write(self, index: Index) -> int:
        changes = self._source.changes
        if not self._source.is_whole or changes == self._written:
            return 0
        problems, written_bytes = [], 0
        for output in self._outputs:
            try:
                written_bytes += output.write(self._histories(), index, self._go_on)
            except WriteGivenUpError:
                _log.warning("The outputs are not written once more: it takes too long. They are as they were before.")
                return written_bytes
            except Exception as problem:
                _log.exception("writing what is watched")
                problems.append(f"What is watched is not written: {problem}")
        self._written = self._written if problems else changes
        index.doubt(_DOUBTS, problems)
        return written_bytes

    def _histories(self) -> Iterator[GroupHistory]:
        for history in self._source.histories():
            self._go_on()
            yield history

    def _go_on(self) -> None:
        """Raises WriteGivenUpError."""
        if self._ends_at_s is not None and time.monotonic() > self._ends_at_s:
            raise WriteGivenUpError
