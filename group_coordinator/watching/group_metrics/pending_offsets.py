"""Offsets in transactions that have not ended: since when each group has had some."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from group_coordinator.watching.group_metrics.names import kept_name
from schemas.history import OffsetChange, OffsetsCommitted
from schemas.transaction_history import NeverCounted, TransactionalOffsetsPending

KEPT_MAX = 100_000
"""So many pending offsets are followed; of those beyond nothing is told."""

_Pending = tuple[str, int, int]
"""Topic, partition, producer."""


class PendingOffsets:
    """Follows the history of all groups. Safe for a thread that adds and one that reads."""

    def __init__(self) -> None:
        self._since_ms: dict[str, dict[_Pending, int]] = {}
        self._kept = 0
        self._lock = threading.Lock()

    def written(self, record: TransactionalOffsetsPending) -> None:
        """Take offsets that were written in a transaction."""
        with self._lock:
            of_group = self._since_ms.setdefault(kept_name(record.group_id), {})
            for change in record.offsets:
                pending = change.topic, change.partition, record.producer_id
                if pending not in of_group and self._kept < KEPT_MAX:
                    of_group[pending] = record.timestamp_ms
                    self._kept += 1
            if not of_group:
                del self._since_ms[kept_name(record.group_id)]

    def committed(self, record: OffsetsCommitted) -> None:
        """Take offsets that were stored, perhaps because a transaction was committed. A watched cluster does not tell
        which one."""
        if record.cause.kind == "transaction_ended":
            self._end(record.group_id, record.offsets, record.cause.producer_id)
        elif record.cause.kind == "observed":
            self._end(record.group_id, record.offsets, None)

    def never_counted(self, record: NeverCounted) -> None:
        """Take the end of a transaction that was aborted, or whose offsets later commits had replaced."""
        self._end(record.group_id, record.offsets, record.producer_id)

    def removed(self, group_id: str, offsets: Iterable[OffsetChange]) -> None:
        """Take offsets that were deleted, the pending ones among them."""
        self._end(group_id, offsets, None)

    def forget(self, group_id: str) -> None:
        """Take the end of a group."""
        with self._lock:
            self._kept -= len(self._since_ms.pop(kept_name(group_id), {}))

    def oldest_ms(self) -> dict[str, int]:
        """Return since when each group has had pending offsets."""
        with self._lock:
            return {group_id: min(of_group.values()) for group_id, of_group in self._since_ms.items()}

    @property
    def kept(self) -> int:
        """How many pending offsets are followed."""
        return self._kept

    def _end(self, group_id: str, offsets: Iterable[OffsetChange], producer_id: int | None) -> None:
        """Forget what is pending for these partitions. `producer_id`: whose; None: of all producers."""
        with self._lock:
            of_group = self._since_ms.get(kept_name(group_id))
            if of_group is None:
                return
            ended = {(change.topic, change.partition) for change in offsets}
            for pending in list(of_group):
                if pending[:2] in ended and producer_id in (None, pending[2]):
                    del of_group[pending]
                    self._kept -= 1
            if not of_group:
                del self._since_ms[kept_name(group_id)]
