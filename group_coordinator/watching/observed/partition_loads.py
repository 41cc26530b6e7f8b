"""When other brokers took over a partition of the offsets topic, and with it all groups that lie in it."""

from __future__ import annotations

from operator import attrgetter

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, PartitionLoaded
from group_coordinator.watching.broker_logs.broker_patterns import NO_GROUP
from group_coordinator.watching.observed.offsets_log import Entry, TransactionMarker
from group_coordinator.watching.observed.ordering import OF_RECORDS

_LINES_MAX = 64


class PartitionLoads:
    """It keeps the lines that tell of one partition, and what the leader epochs of its records show."""

    def __init__(self) -> None:
        self.lines: list[BrokerLine] = []
        """The newest."""
        self.group_ids: dict[str, None] = {}
        """The groups of which it is known that they lie in the partition."""
        self._leader_epoch: int | None = None
        """Its last record had this one."""

    def add(self, line: BrokerLine) -> bool:
        """Take a line; False when it is there already, or older than those that are kept."""
        if line in self.lines:
            return False
        self.lines.append(line)
        self.lines.sort(key=attrgetter("time_ms", "file", "number"))
        dropped = self.lines[:-_LINES_MAX]
        del self.lines[:-_LINES_MAX]
        if line.file == OF_RECORDS and isinstance(line.event, PartitionLoaded):
            self.note_epoch(line.event.leader_epoch)
        return line not in dropped

    def note_epoch(self, leader_epoch: int | None) -> bool:
        """Note the leader epoch of a record; True where another broker leads since the last one."""
        before = self._leader_epoch
        if leader_epoch is None or (before is not None and leader_epoch <= before):
            return False
        self._leader_epoch = leader_epoch
        return before is not None

    def record(self, entry: Entry) -> bool:
        """Take the next record of the partition, of any group; True where it shows another leader."""
        if isinstance(entry, TransactionMarker) or not self.note_epoch(entry.leader_epoch):
            return False
        assert entry.leader_epoch is not None
        event = PartitionLoaded(group_id=NO_GROUP, of_partition=entry.partition, leader_epoch=entry.leader_epoch)
        return self.add(
            BrokerLine(
                time_ms=entry.timestamp_ms,
                broker=None,
                partition=entry.partition,
                file=OF_RECORDS,
                number=entry.offset,
                event=event,
            )
        )
