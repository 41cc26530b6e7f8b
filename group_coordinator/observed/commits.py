"""A group's committed offsets as history: what was stored, what was removed, what waits for its transaction."""

from __future__ import annotations

from typing import Any

from group_coordinator.observed.offsets_log import LogRecord
from group_coordinator.observed.teller import Teller
from group_coordinator.observed.transactions import AbortedCommits, Commits, PendingCommits
from schemas.history import HistoryRecord, OffsetChange, OffsetsCommitted
from schemas.observed_history import OffsetsRemoved, TransactionalOffsetsAborted, TransactionalOffsetsPending


class GroupCommits:
    """The committed offsets of one group."""

    def __init__(self, teller: Teller) -> None:
        self._tell = teller
        self._offsets: dict[tuple[str, int], int] = {}

    def written(self, commits: Commits) -> None:
        """Offsets were committed, are pending, or are aborted."""
        if isinstance(commits, PendingCommits):
            self._of_transaction(TransactionalOffsetsPending, commits)
        elif isinstance(commits, AbortedCommits):
            self._of_transaction(TransactionalOffsetsAborted, commits)
        else:
            changes = self._changes(commits)
            self._offsets |= {(each.topic, each.partition): each.offset for each in changes if each.offset is not None}
            self._tell.say(OffsetsCommitted, member_id=None, offsets=changes)

    def _of_transaction(self, kind: type[HistoryRecord], commits: Commits) -> None:
        self._tell.say(
            kind,
            producer_id=commits.producer_id,
            producer_epoch=commits.producer_epoch,
            offsets=self._changes(commits),
        )

    def removed(self, record: LogRecord) -> None:
        """An offset is stored no more; nothing is said where none was known."""
        topic, partition = _place(record)
        before = self._offsets.pop((topic, partition), None)
        if before is not None:
            change = OffsetChange(topic, partition, None, before)
            self._tell.say(OffsetsRemoved, certainty="not_known", offsets=(change,))

    def _changes(self, commits: Commits) -> tuple[OffsetChange, ...]:
        return tuple(self._change(record) for record in commits.records)

    def _change(self, record: LogRecord) -> OffsetChange:
        value: dict[str, Any] = record.value or {}
        topic, partition = _place(record)
        return OffsetChange(
            topic,
            partition,
            value["offset"],
            self._offsets.get((topic, partition)),
            value.get("leader_epoch", -1),
            value["metadata"],
        )


def _place(record: LogRecord) -> tuple[str, int]:
    key: dict[str, Any] = record.key
    return key["topic"], key["partition"]
