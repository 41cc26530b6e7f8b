"""The records and lines of one group that are kept, and what of them is new since the group was last looked at.

Of commits, all are kept, or the last of each partition of a topic and minute. Which, follows from the records alone,
whenever they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from group_coordinator.observed.broker_lines import BrokerLine
from group_coordinator.observed.offsets_log import CommitRecord
from group_coordinator.observed.transactions import Commits, Fact, PendingCommits
from schemas.records import OffsetCommitKey

_MINUTE_MS = 60_000
_EMPTY_MAX = 64
"""So many facts may be empty before they are removed, and as many as there are others."""

Point = tuple[type[Commits], OffsetCommitKey, int]
"""Commits of one kind and key in one minute."""


class GroupEvidence:
    """What is known of one group."""

    def __init__(self, group_id: str, *, every_commit: bool) -> None:
        self.group_id = group_id
        self.lines: dict[BrokerLine, None] = {}
        """Each once."""
        self.is_changed = False
        """Whether what came is more than commits behind all else."""
        self._facts: list[Fact] = []
        self._followed = 0
        """How many of the facts were there when the group was last followed."""
        self._points: dict[Point, Commits] | None = None if every_commit else {}
        """Where the last commit of each is kept; None: all are."""
        self._empty = 0
        """How many facts have lost all their records to later ones."""
        self._partitions: dict[int, None] = {}

    def add_line(self, line: BrokerLine) -> bool:
        """Take a line of a broker's log; False when it was there before."""
        if line in self.lines:
            return False
        self.lines[line] = None
        self.is_changed = True
        return True

    def add(self, record: Fact) -> None:
        """Take a record, or what a marker ended."""
        if isinstance(record, CommitRecord) and record.value is not None:
            self._written(record)
            return
        if isinstance(record, Commits):
            if self._points is not None:
                for each in record.records:
                    self._supersede(record, each)
        else:
            self.is_changed = True
        self._append(record)

    def facts(self) -> list[Fact]:
        """By partition and offset."""
        self._drop_empty()
        if len(self._partitions) > 1:
            self._facts.sort(key=attrgetter("partition", "offset"))
        return self._facts

    def followed(self) -> None:
        """The group was followed through all that is known."""
        self._drop_empty()
        self._followed, self.is_changed = len(self._facts), False

    def new_commits(self) -> Sequence[Commits]:
        """What came since the group was followed, where that is commits alone."""
        return [each for each in self._facts[self._followed :] if isinstance(each, Commits) and each.records]

    def _written(self, record: CommitRecord) -> None:
        last = self._facts[-1] if self._facts else None
        if isinstance(last, Commits) and _continues(last, record):
            last.records.append(record)
            self.is_changed = self.is_changed or len(self._facts) == self._followed
        else:
            kind = Commits if record.producer_id is None else PendingCommits
            last = kind.begun_with(record)
            self._append(last)
        if self._points is not None:
            self._supersede(last, record)

    def _append(self, fact: Fact) -> None:
        self._facts.append(fact)
        if fact.partition not in self._partitions:
            self._partitions[fact.partition] = None
            self.is_changed = self.is_changed or len(self._partitions) > 1
        elif len(self._partitions) > 1:
            self.is_changed = True

    def _supersede(self, commits: Commits, record: CommitRecord) -> None:
        """Keep the last commit of a partition in a minute, and not the one before it."""
        assert self._points is not None
        point = type(commits), record.key, commits.timestamp_ms // _MINUTE_MS
        before = self._points.get(point)
        self._points[point] = commits
        if before is None:
            return
        kept = before.records
        place = next(place for place, each in enumerate(kept) if each.key is record.key or each.key == record.key)
        del kept[place]
        if not kept:
            self._empty += 1
            if self._empty > max(_EMPTY_MAX, len(self._facts) // 2):
                self._drop_empty()

    def _drop_empty(self) -> None:
        if not self._empty:
            return
        kept = [each for each in self._facts[: self._followed] if not isinstance(each, Commits) or each.records]
        rest = [each for each in self._facts[self._followed :] if not isinstance(each, Commits) or each.records]
        self._facts, self._followed, self._empty = kept + rest, len(kept), 0


def _continues(commits: Commits, record: CommitRecord) -> bool:
    """Whether a commit was written in the same step as those before it, as far as the topic tells."""
    if not commits.records or commits.timestamp_ms != record.timestamp_ms or commits.partition != record.partition:
        return False
    last = commits.records[-1]
    return last.offset + 1 == record.offset and last.producer_id == record.producer_id
