"""A group's committed offsets as history: what was stored, what was removed, what waits for its transaction."""

from __future__ import annotations

from group_coordinator.watching.observed.offsets_log import CommitRecord
from group_coordinator.watching.observed.teller import Teller
from group_coordinator.watching.observed.transactions import AbortedCommits, Commits, PendingCommits
from schemas.history import HistoryRecord, OffsetChange, OffsetsCommitted
from schemas.observed_history import OffsetsRemoved
from schemas.transaction_history import TransactionalOffsetsAborted, TransactionalOffsetsPending


class GroupCommits:
    """The committed offsets of one group."""

    def __init__(self, teller: Teller) -> None:
        self._tell = teller
        self._offsets: dict[tuple[str, int], int] = {}

    def written(self, commits: Commits) -> None:
        """Note offsets that were committed, are pending, or are aborted."""
        if isinstance(commits, PendingCommits):
            self._of_transaction(TransactionalOffsetsPending, commits)
        elif isinstance(commits, AbortedCommits):
            self._of_transaction(TransactionalOffsetsAborted, commits)
        else:
            changes = self._changes(commits)
            self._offsets |= {
                (change.topic, change.partition): change.offset for change in changes if change.offset is not None
            }
            self._tell.say(OffsetsCommitted, member_id=None, offsets=changes)

    def _of_transaction(self, kind: type[HistoryRecord], commits: Commits) -> None:
        self._tell.say(
            kind,
            producer_id=commits.producer_id,
            producer_epoch=commits.producer_epoch,
            offsets=self._changes(commits),
        )

    def removed(self, record: CommitRecord) -> None:
        """Note that an offset is no longer stored. Nothing is recorded where none was known."""
        place = record.key.topic, record.key.partition
        before = self._offsets.pop(place, None)
        if before is not None:
            change = OffsetChange(*place, None, before)
            self._tell.say(OffsetsRemoved, certainty="not_known", offsets=(change,))

    def _changes(self, commits: Commits) -> tuple[OffsetChange, ...]:
        return tuple(self._change(record) for record in commits.records)

    def _change(self, record: CommitRecord) -> OffsetChange:
        key, value = record.key, record.value
        assert value is not None
        before = self._offsets.get((key.topic, key.partition))
        return OffsetChange(key.topic, key.partition, value.offset, before, value.leader_epoch, value.metadata)
