"""The records and lines of one group that are kept, and what of them is new since the group was last looked at.

What is kept follows from what came, whenever it came: of commits, the last of each partition and minute, with one that
went back and the one before it, and of these the newest; of other records the newest, and of those before them the last
of each key, as Kafka compacts a topic; of lines the newest. The oldest records and lines are dropped many at a time, so
that what is told of a group begins at the same place while much is added to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import get_args
from zlib import crc32

from msgspec import Struct

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.observed.offsets_log import CommitRecord, LogRecord
from group_coordinator.watching.observed.transactions import AnyCommits, Commits, Fact, PendingCommits
from schemas.records import OffsetCommitKey

_MINUTE_MS = 60_000
_OF_MINUTE_MAX = 3
_EMPTY_MAX = 64
"""So many facts may be empty before they are removed, and as many as half of the others."""
_CUTS = 4
"""Of so many lines as are kept at least, about so many may be the first one."""
_COMMITS_OF_EACH_MAX = 24 * 60

Place = tuple[int, int]
"""Partition and offset."""

CommitsOf = tuple[type[Commits], OffsetCommitKey]
"""Commits of one kind for one partition."""


class Bounds(Struct, frozen=True, kw_only=True):
    """How much is kept. None: all."""

    commits_max: int | None = None
    """All groups together keep so many. Each partition keeps its share, but the last commit at least."""
    records_per_group: int | None = None
    """That are no commits: so many at least, and up to half as many more."""
    lines_per_group: int | None = None
    """So many at least, and about a quarter as many more; five times as many at most."""
    memory_bytes: int | None = None
    """All groups together take about this much memory. The others lie on disk: nothing is lost by it."""


ALL = Bounds()
BOUNDED = Bounds(commits_max=500_000, records_per_group=300, lines_per_group=600)


class Shares:
    """How many commits each partition of each group may keep."""

    def __init__(self, commits_max: int | None) -> None:
        self._commits_max = commits_max
        self.partitions = 0
        """Those that have commits."""

    @property
    def are_bounded(self) -> bool:
        return self._commits_max is not None

    @property
    def of_each(self) -> int:
        assert self._commits_max is not None
        return min(max(self._commits_max // max(self.partitions, 1), 1), _COMMITS_OF_EACH_MAX)


class GroupEvidence:
    """What is known of one group."""

    def __init__(self, group_id: str, bounds: Bounds, shares: Shares) -> None:
        self.group_id = group_id
        self.is_changed = False
        """Whether what came is more than commits behind all else."""
        self._bounds = bounds
        self._shares = shares
        self._lines: dict[BrokerLine, None] = {}
        """Each once."""
        self._facts: list[Fact] = []
        self._followed = 0
        """How many of the facts were there when the group was last followed."""
        self._commits: dict[CommitsOf, list[Commits]] = {}
        """Where the commits of a partition are kept, the oldest first; empty where all are kept."""
        self._empty = 0
        """How many facts have lost all their commits to later ones."""
        self._partitions: dict[int, None] = {}
        self.whole_from: Place | None = None
        """Before it records were dropped; None: none were."""

    # -------------------------------------------------------------------------------------------------------- taking

    def add_line(self, line: BrokerLine) -> bool:
        """Take a line of a broker's log; False when it is there already."""
        if line in self._lines:
            return False
        self._lines[line] = None
        self.is_changed = True
        return True

    def add(self, record: Fact) -> None:
        """Take a record, or what a marker ended."""
        if isinstance(record, CommitRecord) and record.value is not None:
            self._written(record)
            return
        self._append(record)
        if not isinstance(record, Commits):
            self.is_changed = True
        elif self._shares.are_bounded:
            for commit in record.records:
                self._supersede(record, commit)

    def _written(self, record: CommitRecord) -> None:
        last = self._facts[-1] if self._facts else None
        if isinstance(last, Commits) and _continues(last, record):
            last.records.append(record)
            self.is_changed = self.is_changed or len(self._facts) == self._followed
        else:
            kind = Commits if record.producer_id is None else PendingCommits
            last = kind.begun_with(record)
            self._append(last)
        if self._shares.are_bounded:
            self._supersede(last, record)

    def _append(self, fact: Fact) -> None:
        self._facts.append(fact)
        self._partitions[fact.partition] = None
        self.is_changed = self.is_changed or len(self._partitions) > 1

    def _supersede(self, commits: Commits, record: CommitRecord) -> None:
        """Keep the last commit of each minute of a partition, and of these the newest. One that goes back stays with
        the one before, once in a minute."""
        kept_commits = self._commits_of(commits, record)
        of_minute = 0
        while of_minute < min(len(kept_commits), _OF_MINUTE_MAX) and _are_near(kept_commits[-1 - of_minute], commits):
            of_minute += 1
        if of_minute and not (of_minute < _OF_MINUTE_MAX and _goes_back(kept_commits[-2:], record)):
            self._forget(kept_commits.pop(), record.key)
        kept_commits.append(commits)
        self._keep_share(kept_commits, record.key)
        if self._empty > max(_EMPTY_MAX, len(self._facts) // 2):
            self._drop_empty()

    def _commits_of(self, commits: Commits, record: CommitRecord) -> list[Commits]:
        kept_commits = self._commits.get((type(commits), record.key))
        if kept_commits is None:
            kept_commits = self._commits[type(commits), record.key] = []
            self._shares.partitions += 1
        return kept_commits

    def restore(self, facts: Sequence[Fact], whole_from: Place | None, *, is_counted: bool = False) -> None:
        """Take what was kept before. `is_counted`: its share of the commits is, too."""
        partitions_before = self._shares.partitions
        self.whole_from = whole_from
        for fact in facts:
            self._append(fact)
            if isinstance(fact, Commits) and self._shares.are_bounded:
                for record in fact.records:
                    self._commits_of(fact, record).append(fact)
        if is_counted:
            self._shares.partitions = partitions_before
        self.is_changed = True

    # ------------------------------------------------------------------------------------------------------- looking

    def lines(self) -> Sequence[BrokerLine]:
        """Return the lines that are kept."""
        lines_min = self._bounds.lines_per_group
        if lines_min is not None and len(self._lines) > lines_min:
            lines = sorted(self._lines, key=attrgetter("time_ms", "file", "number"))
            cut = _cut_of_lines(lines, lines_min)
            if cut:
                self._lines = dict.fromkeys(lines[cut:])
        return list(self._lines)

    def facts(self) -> Sequence[Fact]:
        """Return the facts that are kept, by partition and offset."""
        if len(self._partitions) > 1:
            self._facts.sort(key=attrgetter("partition", "offset"))
        for (_, key), kept_commits in self._commits.items():
            self._keep_share(kept_commits, key)
        self._compact()
        self._drop_empty()
        return self._facts

    def followed(self) -> None:
        """Note that the group was followed through all that is known."""
        self._drop_empty()
        self._followed, self.is_changed = len(self._facts), False

    def new_commits(self) -> Sequence[Commits]:
        """Return what came since the group was followed, if that is commits alone."""
        return [fact for fact in self._facts[self._followed :] if isinstance(fact, Commits) and fact.records]

    # ------------------------------------------------------------------------------------------------------ forgetting

    def _keep_share(self, kept_commits: list[Commits], key: OffsetCommitKey) -> None:
        while len(kept_commits) > self._shares.of_each:
            self._forget(kept_commits.pop(0), key)

    def _forget(self, commits: Commits, key: OffsetCommitKey) -> None:
        """Forget the commit of this partition."""
        place = next(place for place, commit in enumerate(commits.records) if commit.key == key)
        del commits.records[place]
        self._empty += not commits.records

    def _compact(self) -> None:
        """Keep the last record of each key before the newest records, and nothing of deleted keys."""
        records_min = self._bounds.records_per_group
        places = [place for place, fact in enumerate(self._facts) if not isinstance(fact, Commits)]
        if records_min is None or len(places) <= records_min:
            return
        whole_from = self.whole_from or (0, 0)
        whole = [place for place in places if _place(self._facts[place]) >= whole_from]
        cut = _cut([_mixed(*_place(self._facts[place])) for place in whole], records_min)
        end = whole[cut]
        self.whole_from = _place(self._facts[end])
        last = {_key(self._facts[place]): place for place in places if place < end}
        for key, place in last.items():
            if isinstance(key, OffsetCommitKey):
                self._forget_deleted(key, self._facts[place])
        kept_places = [
            place
            for place, fact in enumerate(self._facts)
            if place >= end or isinstance(fact, Commits) or (last[_key(fact)] == place and fact.value is not None)
        ]
        self._followed = bisect_left(kept_places, self._followed)
        self._facts = [self._facts[place] for place in kept_places]

    def _forget_deleted(self, key: OffsetCommitKey, tombstone: Fact) -> None:
        for kind in get_args(AnyCommits):
            kept_commits = self._commits.get((kind, key), [])
            while kept_commits and kept_commits[0].offset < tombstone.offset:
                self._forget(kept_commits.pop(0), key)

    def _drop_empty(self) -> None:
        if self._empty:
            before, after = self._facts[: self._followed], self._facts[self._followed :]
            kept_before = list(_filled(before))
            self._facts, self._followed, self._empty = [*kept_before, *_filled(after)], len(kept_before), 0


def _cut(numbers: Sequence[int], kept_min: int) -> int:
    """Return how many of the oldest are dropped. `numbers`: each follows from the thing alone, the oldest first.

    Of the places where the cut may be, it is before the thing with the largest number. It never goes back when others
    come, wherever they belong; and it stays where it is while many come behind.
    """
    last = len(numbers) - kept_min
    if last <= 0:
        return 0
    first = max(last - kept_min // 2, 0)
    return max(range(first, last + 1), key=lambda place: (numbers[place], place))


def _cut_of_lines(lines: Sequence[BrokerLine], kept_min: int) -> int:
    """Return how many of the oldest lines are dropped.

    Lines come in any order, also older ones when others were dropped. So whether a line may be the first that is kept
    follows from itself alone, and it is the newest such line with enough lines behind it: that one only moves on.
    """
    last, apart = len(lines) - kept_min, max(kept_min // _CUTS, 1)
    for place in range(last, max(last - _CUTS * kept_min, 0), -1):
        if _mixed(lines[place].time_ms, lines[place].number) % apart == 0:
            return place
    return 0 if last <= _CUTS * kept_min else last


def _mixed(first: int, second: int) -> int:
    return crc32(b"%d %d" % (first, second))


def _are_near(commits: Commits, later: Commits) -> bool:
    return commits.timestamp_ms // _MINUTE_MS == later.timestamp_ms // _MINUTE_MS


def _goes_back(before: Sequence[Commits], record: CommitRecord) -> bool:
    """Return whether this commit goes back, or the last one did."""
    assert record.value is not None
    last = _offset_of(before[-1], record.key)
    return record.value.offset < last or (len(before) > 1 and last < _offset_of(before[-2], record.key))


def _offset_of(commits: Commits, key: OffsetCommitKey) -> int:
    """Return the last offset that was written for a partition in this step."""
    return next((commit.value.offset for commit in reversed(commits.records) if commit.key == key and commit.value), 0)


def _place(fact: Fact) -> Place:
    return fact.partition, fact.offset


def _filled(facts: Sequence[Fact]) -> Iterator[Fact]:
    return (fact for fact in facts if not isinstance(fact, Commits) or fact.records)


def _key(record: Fact) -> object:
    """Return the thing that a record is about."""
    if isinstance(record, LogRecord):
        return record.name, *map(str, record.key.items())
    assert isinstance(record, CommitRecord)
    return record.key


def _continues(commits: Commits, record: CommitRecord) -> bool:
    """Return whether a commit was written in the same step as those before it, as far as the topic tells."""
    if not commits.records or commits.timestamp_ms != record.timestamp_ms or commits.partition != record.partition:
        return False
    last = commits.records[-1]
    return last.offset + 1 == record.offset and last.producer_id == record.producer_id
