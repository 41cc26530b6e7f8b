"""The dashboard's memory: of every group what it is now and its latest records, bounded by the settings. No I/O.

One thread adds records, others read: every method takes the lock for a short time only, and those that read have it
first. The list of groups is read without it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition, Reach
from group_coordinator.ground.system.disk_store import DiskStore
from group_coordinator.ground.system.yielding_lock import YieldingLock
from group_coordinator.watching.dashboard.api_types import DeadLetter, Group, PastGroup
from group_coordinator.watching.dashboard.committed import ShareOffset, of_share_group
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.feed import Feed, FeedItem
from group_coordinator.watching.dashboard.group_list import GroupList
from group_coordinator.watching.dashboard.indexed_groups import IndexedGroup, IndexedGroups, KindAndState
from group_coordinator.watching.dashboard.lag import EndOffsets, GroupLag
from group_coordinator.watching.dashboard.readiness import BrokerSettings, readiness_of
from group_coordinator.watching.dashboard.ring import Chunk, values
from group_coordinator.watching.dashboard.rows import group_row
from group_coordinator.watching.dashboard.settings import DashboardSettings
from group_coordinator.watching.dashboard.watched import Watched
from group_coordinator.watching.history.current_group import CLASSIC, SHARE
from group_coordinator.watching.history.published_generation import published_generation
from group_coordinator.watching.history.stored_generations import StoredGenerations
from group_coordinator.watching.tables.readiness_row import Readiness
from schemas.group_states import GroupState
from schemas.history import History, OffsetsCommitted, decode_history, decode_snapshot

_ENDS_AT_ONCE = 1_000
"""The lock is held for so many partitions."""

Frozen = tuple[tuple[Chunk, ...], tuple[bytes, ...]]


class GroupRecords(NamedTuple):
    """The records that the index has of one group."""

    facts_version: int
    life: Frozen
    commits: Frozen
    base: tuple[bytes, bytes] | None
    """The fold of the records that were dropped."""
    dropped: int
    """How many records of its life are beyond the window."""
    dropped_commits: int


class Index:
    """The index has all that the dashboard knows."""

    def __init__(self, settings: DashboardSettings | None = None, disk: DiskStore | None = None) -> None:
        """`disk`: where groups lie that find no room in memory; None: all groups stay in memory."""
        self.settings = settings or DashboardSettings()
        self._ends: dict[str, EndOffsets] = {"": EndOffsets()}
        """By cluster."""
        self.records = 0
        self.unreadable = 0
        self._doubts: dict[str, tuple[str, ...]] = {}
        """By the origin that says them."""
        self._watched: dict[str, Watched] = {}
        """By cluster."""
        self.broker_settings: dict[str, BrokerSettings] = {}
        """By cluster, where brokers have told them."""
        self.first_ms: int | None = None
        self.last_ms = 0
        self.on_news: Callable[[History], None] | None = None
        """Called with each new record, at once, in the thread that adds it."""
        self.dead_letters: deque[DeadLetter] = deque(maxlen=self.settings.dead_letters_max)
        self._lock = YieldingLock()
        self._list = GroupList(self._lock, self._row_of)
        self._groups = IndexedGroups(self.settings, self._list, disk)
        self._feed = Feed(self.settings.feed_max, self.settings.feed_max_bytes)
        self._dead_letters_seen = 0
        self._asked: dict[str, str] = {}
        """Groups whose records were asked for, and their clusters."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why what is shown may not be what happened, in sentences: every page says it at its top."""
        return tuple(sentence for sentences in list(self._doubts.values()) for sentence in sentences)

    @doubts.setter
    def doubts(self, sentences: Iterable[str]) -> None:
        self.doubt("", sentences)

    def doubt(self, origin: str, sentences: Iterable[str]) -> None:
        """Take an origin's doubts, in place of those that it had."""
        self._doubts[origin] = tuple(sentences)

    @property
    def watched(self) -> tuple[Watched, ...]:
        """Clusters whose own brokers coordinate the groups, and from which sources that is known."""
        return tuple(self._watched.values())

    @watched.setter
    def watched(self, clusters: Iterable[Watched]) -> None:
        self._watched = {cluster.cluster: cluster for cluster in clusters}

    def watch(self, cluster: str, watched: Watched) -> None:
        """Take what is known of a cluster, in place of what was."""
        self._watched[cluster] = watched

    # -------------------------------------------------------------------------------------------------------- coming in

    def add(self, value: bytes) -> bool:
        """Take a value of the history topic; False when it was there before, or cannot be read."""
        try:
            record = decode_history(value)
        except msgspec.DecodeError:
            self.unreadable += 1
            return False
        return self.add_record(record, value)

    def add_record(self, record: History, value: bytes, cluster: str = "") -> bool:
        """Take a record that was decoded from this value; False when it was there before.

        `cluster`: whose group it is, where there are several.
        """
        with self._lock.yielding():
            group = self._groups.get(record.group_id) or self._groups.begin(record.group_id, cluster)
            is_new = self._add(group, record, value)
            self._groups.make_room()
            return is_new

    def replace_group(self, group_id: str, records: Iterable[tuple[History, bytes]], cluster: str = "") -> None:
        """Take all that is known of a group, with the values, in place of what was known before.

        The feed gets what is later than all that it has had of the group.
        """
        with self._lock.yielding():
            before = self._groups.get(group_id)
            group = self._groups.begin(group_id, cluster)
            last_ms = None
            if before is not None:
                last_ms, group.facts.version = before.facts.last_ms, before.facts.version + 1
            for record, value in records:
                self._add(group, record, value, is_news=last_ms is None or record.timestamp_ms > last_ms)
            if before is not None and SHARE == before.facts.kind == group.facts.kind:
                group.facts.offsets, group.facts.not_begun = before.facts.offsets, before.facts.not_begun
            self._list.changed((group_id,))
            self._groups.make_room()

    def share_groups(self, cluster: str = "") -> list[str]:
        """Return the share groups of a cluster in memory."""
        groups = [group for group in list(self._groups.held.values()) if group.cluster == cluster]
        return [group.facts.group_id for group in groups if group.facts.kind == SHARE]

    def take_share_offsets(self, offsets: Mapping[str, Mapping[Partition, ShareOffset]], cluster: str = "") -> None:
        """Take where share groups of a cluster stand. Of its others this is not known any more."""
        for group_id in self.share_groups(cluster):
            with self._lock.yielding():
                group = self._groups.held.get(group_id)
                if group is not None and (group_id in offsets or group.facts.offsets or group.facts.not_begun):
                    group.facts.offsets, group.facts.not_begun = of_share_group(offsets.get(group_id, {}))
                    group.facts.version += 1
                    self._list.changed((group_id,))

    def take_stored(self, group_id: str, stored: StoredGenerations | None) -> None:
        """Take what a group's stored generations say, in place of what was known."""
        with self._lock.yielding():
            self._groups.store(group_id, stored)

    def take_published(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record of the assignments topic: how a group of our own coordinator is now."""
        group_id = (key or b"").decode(errors="replace")
        try:
            snapshot = None if value is None else decode_snapshot(value)
        except msgspec.DecodeError:
            self.unreadable += 1
            return
        with self._lock.yielding():
            self._groups.store(group_id, published_generation(self._groups.stored(group_id), snapshot))

    def add_dead_letter(
        self, key: bytes | None, value: bytes | None, headers: dict[str, str], timestamp_ms: int
    ) -> None:
        """Take a record of the dead letters topic."""

        def number(name: str) -> int | None:
            text = headers.get(name, "")
            return int(text) if text.isdigit() else None

        with self._lock:
            self._dead_letters_seen += 1
            self.dead_letters.append(
                DeadLetter(
                    number=self._dead_letters_seen,
                    timestamp_ms=number("timestamp_ms") or timestamp_ms,
                    group_id=None if key is None else key.decode(errors="replace"),
                    reason=headers.get("reason", "unknown"),
                    detail=headers.get("detail", ""),
                    partition=number("partition"),
                    offset=number("offset"),
                    value="" if value is None else value[:2_000].decode(errors="replace"),
                )
            )

    def poll_ends(
        self,
        now_ms: int,
        bounds: dict[Partition, Bounds],
        cluster: str = "",
        reaches: Mapping[Partition, Reach] | None = None,
    ) -> None:
        """Take the bounds of a cluster's logs as they are now. `reaches`: of those that `wanted_reaches` named."""
        ends = self._ends.setdefault(cluster, EndOffsets())
        polled = list(bounds.items())
        for begin in range(0, len(polled), _ENDS_AT_ONCE):
            with self._lock.yielding():
                ends.take(now_ms, polled[begin : begin + _ENDS_AT_ONCE])
        with self._lock.yielding():
            ends.polled(now_ms, bounds, reaches)
        groups = [group for group in list(self._groups.held.values()) if group.cluster == cluster]
        with self._lock.yielding():
            self._list.changed(
                group.facts.group_id for group in groups if group.facts.offsets or group.facts.uncommitted
            )

    # ---------------------------------------------------------------------------------------------------------- reading

    def rows(self, now_ms: int, patience_s: float | None = None) -> list[Group]:
        """Return the groups in memory as they are now, by id. `patience_s`: as of `GroupList.rows`."""
        return self._list.rows(now_ms, patience_s)

    def on_disk(self) -> Counter[KindAndState]:
        """Return how many groups find no room in memory, by kind and state as they were when they went to disk."""
        return self._groups.on_disk.copy()

    def rows_at(self, time_ms: int) -> list[PastGroup]:
        """Return the groups in memory as they were at a time."""
        groups = self._groups.held.copy()
        moments = ((group_id, groups[group_id].facts.at(time_ms)) for group_id in sorted(groups))
        return [
            PastGroup(
                group_id=group_id, state=moment.state, state_since_ms=moment.since_ms, members=moment.members,
                generation=moment.generation_id,
            )
            for group_id, moment in moments
            if moment is not None and moment.state != GroupState.DEAD
        ]  # fmt: skip

    def judged(self) -> tuple[list[tuple[Readiness, str]], int]:
        """Return the judgements of the classic groups in memory, each with its cluster and without what rebalances
        cost; and how many such groups cannot be judged, since their generations are not known."""
        groups = [group for group in list(self._groups.held.values()) if group.facts.kind == CLASSIC]
        usual = BrokerSettings()
        judged = [
            (readiness_of(group.facts.group_id, stored, self.broker_settings.get(group.cluster, usual)), group.cluster)
            for group in groups
            if (stored := group.stored) is not None
        ]
        return judged, sum(group.stored is None and group.facts.state != GroupState.DEAD for group in groups)

    def take_changed(self, now_ms: int) -> list[Group]:
        """The rows of groups that have changed since the last call, by record or by time. For one caller only."""
        return self._list.take_changed(now_ms)

    def facts(self, group_id: str) -> GroupFacts | None:
        """Return a group's present facts. They go on changing: read them under `lock`."""
        with self._lock:
            group = self._groups.get(group_id)
            return None if group is None else group.facts

    def row(self, group_id: str, now_ms: int) -> Group | None:
        with self._lock:
            group = self._groups.get(group_id)
            return None if group is None else self._row(group, now_ms)

    @property
    def lock(self) -> YieldingLock:
        return self._lock

    def group_records(self, group_id: str) -> GroupRecords | None:
        """The records of one group; None: there is no such group."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                return None
            self._asked[group_id] = group.cluster
            return GroupRecords(
                group.facts.version,
                group.life.freeze(),
                group.commits.freeze(),
                group.base,
                group.dropped,
                group.dropped_commits,
            )

    def take_asked(self, cluster: str = "") -> list[str]:
        """Return the groups of a cluster whose records were asked for since the last call."""
        with self._lock.yielding():
            asked = [group_id for group_id, of_cluster in self._asked.items() if of_cluster == cluster]
            for group_id in asked:
                del self._asked[group_id]
            return asked

    def group_ids(self, cluster: str | None = None) -> list[str]:
        """Return the ids of the groups of one cluster, or of all."""
        with self._lock:
            return self._groups.ids(cluster)

    def listed_ids(self) -> list[str]:
        """Return the groups in memory, in order."""
        return sorted(self._groups.held)

    @property
    def listed(self) -> int:
        """How many groups are in memory."""
        return len(self._groups.held)

    def has_group(self, group_id: str) -> bool:
        with self._lock:
            return group_id in self._groups

    def places(self, cluster: str = "") -> set[Partition]:
        """The partitions that any group of a cluster in memory has committed for, or was assigned."""
        groups = [group for group in list(self._groups.held.values()) if group.cluster == cluster]
        return {place for group in groups for place in (*list(group.facts.offsets), *list(group.facts.uncommitted))}

    def wanted_reaches(self, cluster: str = "") -> set[Partition]:
        """The partitions of which a verdict needs more than the bounds, since the last call."""
        with self._lock.yielding():
            return self._ends[cluster].take_wanted() if cluster in self._ends else set()

    def ends_of(self, group_id: str) -> EndOffsets:
        """The ends of the logs of this group's cluster."""
        with self._lock:
            group = self._groups.get(group_id)
            return self._ends_of("" if group is None else group.cluster)

    def group_lag(self, group_id: str, now_ms: int) -> GroupLag | None:
        """Return the lag of a group, partition by partition; None: it is not in memory."""
        with self._lock:
            group = self._groups.held.get(group_id)
            return None if group is None else group.facts.lag(self._ends_of(group.cluster), now_ms)

    def feed(self, after: int = 0, before: int | None = None) -> Iterator[FeedItem]:
        """Records of all groups with numbers between the two, the newest first."""
        with self._lock:
            newest_first = self._feed.between(after, before)
        return iter(newest_first)

    @property
    def kept_bytes(self) -> int:
        """The memory that the records take."""
        return self._groups.kept_bytes

    def __len__(self) -> int:
        return len(self._groups)

    # ----------------------------------------------------------------------------------------------------------- inside

    def _add(self, group: IndexedGroup, record: History, value: bytes, *, is_news: bool = True) -> bool:
        if not group.facts.add(record):
            return False
        if is_news:
            self.records += 1
            self._feed.append(FeedItem(self.records, record, len(value)))
            if self.on_news is not None:
                self.on_news(record)
        self.first_ms = record.timestamp_ms if self.first_ms is None else min(self.first_ms, record.timestamp_ms)
        self.last_ms = max(self.last_ms, record.timestamp_ms)
        self._list.changed((record.group_id,))
        is_commit = isinstance(record, OffsetsCommitted)
        self._groups.keep(group, group.commits if is_commit else group.life, value)
        return True

    def _row_of(self, group_id: str, now_ms: int) -> Group | None:
        group = self._groups.held.get(group_id)
        return None if group is None else self._row(group, now_ms)

    def _row(self, group: IndexedGroup, now_ms: int) -> Group:
        ends = self._ends_of(group.cluster)
        row, key = group.row, (group.facts.version, ends.version)
        is_old = row is None or key != group.row_key
        if is_old or (row is not None and row.holds_until_ms is not None and row.holds_until_ms <= now_ms):
            row = group_row(group.facts, ends, now_ms, self.settings.health, group.cluster)
            group.row, group.row_key = row, key
        assert row is not None
        return row

    def _ends_of(self, cluster: str) -> EndOffsets:
        return self._ends.get(cluster) or self._ends[""]


def decoded(frozen: Frozen) -> Iterator[History]:
    """The records of a ring, the oldest first."""
    return (decode_history(value) for value in values(frozen))
