"""Which broker coordinates a group, and when another one takes over: by lines of brokers, and by the leader epochs of
records."""

from __future__ import annotations

from typing import Literal, NamedTuple

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.observed.offsets_log import CommitRecord, LogRecord
from group_coordinator.watching.observed.ordering import OF_RECORDS, TimedLine
from group_coordinator.watching.observed.transactions import Commits


class TakeOver(NamedTuple):
    """A broker coordinates the group from here on, another one or the same anew."""

    certainty: Literal["told", "inferred"]
    broker_id: int | None
    leader_epoch: int | None


class Coordinator:
    """The coordinator of one group."""

    def __init__(self) -> None:
        self._broker: int | None = None
        """Whose lines tell of the group."""
        self._superseded: set[int] = set()
        """Brokers after which another one took over: what such a one still tells is not what the group is."""
        self.leader_epoch: int | None = None
        """The last record had this one."""
        self._loaded: line_events.LineEvent | None = None
        """The line that told of the last take-over, until a record is written."""

    def is_past(self, line: TimedLine) -> bool:
        """Return whether a line is of a broker that does not coordinate the group any more, and does not know it."""
        if isinstance(line.line.event, line_events.GroupLoaded | line_events.PartitionLoaded):
            return False
        return line.line.broker in self._superseded

    def may_be_moved_by(self, line: TimedLine) -> bool:
        """Return whether a line tells of another coordinator, or is another broker's."""
        if line.line.file == OF_RECORDS:
            return False
        match line.line.event:
            case line_events.GroupLoaded() | line_events.PartitionLoaded() | line_events.GroupUnloaded():
                return True
            case _:
                return self._broker is not None and line.line.broker not in (None, self._broker)

    def line(self, line: TimedLine) -> TakeOver | None:
        """Return the take-over that a line of a broker tells of, or shows."""
        event, broker = line.line.event, line.line.broker
        match event:
            case line_events.GroupLoaded():
                # The line of the partition stands before it or behind it, and tells of the same.
                is_told = isinstance(self._loaded, line_events.PartitionLoaded) and broker == self._broker
                epoch = None
            case line_events.PartitionLoaded():
                epoch = event.leader_epoch
                is_told = self._loaded is not None and broker in (None, self._broker)
                is_told = is_told or (self.leader_epoch is not None and epoch <= self.leader_epoch)
            case line_events.GroupUnloaded():
                return None
            case _:
                moved = broker is not None and self._broker is not None and broker != self._broker
                self._follow(broker)
                return TakeOver("inferred", broker, None) if moved else None
        self._loaded = event
        if is_told:
            return None
        self._follow(broker)
        return TakeOver("inferred" if line.line.file == OF_RECORDS else "told", broker, epoch)

    def _follow(self, broker: int | None) -> None:
        """Believe this broker from now on."""
        if broker is None or broker == self._broker:
            return
        if self._broker is not None:
            self._superseded.add(self._broker)
        self._superseded.discard(broker)
        self._broker = broker

    def record(self, record: LogRecord | CommitRecord | Commits) -> TakeOver | None:
        """Return the take-over that a record shows of which no line has told."""
        epoch, before = record.leader_epoch, self.leader_epoch
        if epoch is None:
            return None
        was_told, self._loaded = self._loaded is not None, None
        self.leader_epoch = max(epoch, before or 0)
        if before is None or epoch <= before or was_told:
            return None
        self._broker, self._superseded = None, set()  # whose lines are right now is not known
        return TakeOver("inferred", None, epoch)
