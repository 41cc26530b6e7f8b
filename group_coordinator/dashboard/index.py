"""The dashboard's memory: of every group what it is now and its latest records, bounded by the settings. No I/O.

One thread adds records, others read: every method takes the lock for a short time only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from group_coordinator.dashboard.facts import GroupFacts
from group_coordinator.dashboard.feed import Feed, FeedItem
from group_coordinator.dashboard.lag import EndOffsets
from group_coordinator.dashboard.ring import Chunk, RecordRing, values
from group_coordinator.dashboard.rows import GroupRow, group_row
from group_coordinator.dashboard.settings import DashboardSettings
from group_coordinator.dashboard.watched import Watched
from group_coordinator.kafka_topics.bounds import Bounds, Partition
from group_coordinator.tables.fold import GroupTables
from schemas.group_states import GroupState
from schemas.history import History, OffsetsCommitted, decode_history

_FORGOTTEN_MAX = 1_000
"""So many chunks of forgotten groups may stay in the list."""

Frozen = tuple[tuple[Chunk, ...], tuple[bytes, ...]]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """An event that could not be read."""

    number: int
    """In the order in which they were seen here."""
    timestamp_ms: int
    group_id: str | None
    reason: str
    detail: str
    partition: int | None
    offset: int | None
    value: str


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


class _Group:
    """One group: what it is, and its records."""

    __slots__ = ("base", "cluster", "commits", "dropped", "dropped_commits", "facts", "life", "row", "row_key")

    def __init__(self, group_id: str, cluster: str) -> None:
        self.facts = GroupFacts(group_id)
        self.cluster = cluster
        self.life = RecordRing()
        self.commits = RecordRing()
        self.base: tuple[bytes, bytes] | None = None
        self.dropped = self.dropped_commits = 0
        self.row: GroupRow | None = None
        self.row_key: tuple[int, int] = (-1, -1)


class Index:
    """The index has all that the dashboard knows."""

    def __init__(self, settings: DashboardSettings | None = None) -> None:
        self.settings = settings or DashboardSettings()
        self._ends: dict[str, EndOffsets] = {"": EndOffsets()}
        """By cluster."""
        self.records = 0
        self.unreadable = 0
        self._doubts: dict[str, tuple[str, ...]] = {}
        """By the origin that says them."""
        self._watched: dict[str, Watched] = {}
        """By cluster."""
        self.first_ms: int | None = None
        self.last_ms = 0
        self.on_news: Callable[[History], None] | None = None
        """Called with each new record, at once, in the thread that adds it."""
        self.dead_letters: deque[DeadLetter] = deque(maxlen=self.settings.dead_letters_max)
        self._groups: dict[str, _Group] = {}
        self._feed = Feed(self.settings.feed_max, self.settings.feed_max_bytes)
        self._chunks: deque[tuple[_Group, RecordRing, int]] = deque()
        """Every chunk, in the order in which they were made."""
        self._kept_bytes = 0
        self._forgotten = 0
        """How many of the chunks are of groups that were replaced (`_forget`)."""
        self._dead_letters_seen = 0
        self._changed_groups: dict[str, None] = {}
        self._lock = Lock()

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
        with self._lock:
            group = self._groups.get(record.group_id)
            if group is None:
                group = self._groups[record.group_id] = _Group(record.group_id, cluster)
            return self._add(group, record, value)

    def replace_group(self, group_id: str, records: Iterable[tuple[History, bytes]], cluster: str = "") -> None:
        """Take all that is known of a group, with the values, in place of what was known before.

        The feed gets what is later than all that it has had of the group.
        """
        with self._lock:
            before = self._groups.get(group_id)
            group = self._groups[group_id] = _Group(group_id, cluster)
            last_ms = None
            if before is not None:
                last_ms, group.facts.version = before.facts.last_ms, before.facts.version + 1
                self._forget(before)
            for record, value in records:
                self._add(group, record, value, is_news=last_ms is None or record.timestamp_ms > last_ms)
            self._changed_groups[group_id] = None

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

    def poll_ends(self, now_ms: int, bounds: dict[Partition, Bounds], cluster: str = "") -> None:
        """Take the bounds of a cluster's logs as they are now."""
        with self._lock:
            self._ends.setdefault(cluster, EndOffsets()).poll(now_ms, bounds)
            for group in self._groups.values():
                if group.cluster == cluster and group.facts.offsets:
                    self._changed_groups[group.facts.group_id] = None

    # ---------------------------------------------------------------------------------------------------------- reading

    def rows(self, now_ms: int) -> list[GroupRow]:
        """Return all groups as they are now, by id."""
        with self._lock:
            return [self._row(self._groups[group_id], now_ms) for group_id in sorted(self._groups)]

    def rows_at(self, time_ms: int) -> list[dict[str, Any]]:
        """Return the groups as they were at a time: state, generation and number of members."""
        with self._lock:
            moments = ((group_id, self._groups[group_id].facts.at(time_ms)) for group_id in sorted(self._groups))
            return [
                {
                    "id": group_id,
                    "state": moment.state,
                    "since": moment.since_ms,
                    "generation": moment.generation_id,
                    "members": moment.members,
                }
                for group_id, moment in moments
                if moment is not None and moment.state != GroupState.DEAD
            ]

    def take_changed(self, now_ms: int) -> list[GroupRow]:
        """The rows of groups that have changed since the last call, by record or by time. For one caller only."""
        with self._lock:
            due = [
                group_id
                for group_id, group in self._groups.items()
                if group.row is not None and group.row.holds_until_ms is not None and group.row.holds_until_ms <= now_ms
            ]
            group_ids = self._changed_groups | dict.fromkeys(due)
            self._changed_groups = {}
            return [self._row(self._groups[group_id], now_ms) for group_id in group_ids]

    def facts(self, group_id: str) -> GroupFacts | None:
        """Return a group's present facts. They go on changing: read them under `lock`."""
        group = self._groups.get(group_id)
        return None if group is None else group.facts

    def row(self, group_id: str, now_ms: int) -> GroupRow | None:
        with self._lock:
            group = self._groups.get(group_id)
            return None if group is None else self._row(group, now_ms)

    @property
    def lock(self) -> Lock:
        return self._lock

    def group_records(self, group_id: str) -> GroupRecords | None:
        """The records of one group; None: there is no such group."""
        with self._lock:
            group = self._groups.get(group_id)
            if group is None:
                return None
            return GroupRecords(
                group.facts.version,
                group.life.freeze(),
                group.commits.freeze(),
                group.base,
                group.dropped,
                group.dropped_commits,
            )

    def group_ids(self, cluster: str | None = None) -> list[str]:
        """Of one cluster, or of all."""
        with self._lock:
            return sorted(key for key, group in self._groups.items() if cluster is None or group.cluster == cluster)

    def places(self, cluster: str = "") -> set[Partition]:
        """The partitions that any group of a cluster has committed for."""
        with self._lock:
            groups = [group for group in self._groups.values() if group.cluster == cluster]
            return {place for group in groups for place in group.facts.offsets}

    def ends_of(self, group_id: str) -> EndOffsets:
        """The ends of the logs of this group's cluster."""
        group = self._groups.get(group_id)
        return self._ends_of("" if group is None else group.cluster)

    def feed(self, after: int = 0, before: int | None = None) -> Iterator[FeedItem]:
        """Records of all groups with numbers between the two, the newest first."""
        with self._lock:
            newest_first = self._feed.between(after, before)
        return iter(newest_first)

    @property
    def kept_bytes(self) -> int:
        """The memory that the records take."""
        return self._kept_bytes

    def __len__(self) -> int:
        return len(self._groups)

    # ----------------------------------------------------------------------------------------------------------- inside

    def _add(self, group: _Group, record: History, value: bytes, *, is_news: bool = True) -> bool:
        if not group.facts.add(record):
            return False
        if is_news:
            self.records += 1
            self._feed.append(FeedItem(self.records, record, len(value)))
            if self.on_news is not None:
                self.on_news(record)
        self.first_ms = record.timestamp_ms if self.first_ms is None else min(self.first_ms, record.timestamp_ms)
        self.last_ms = max(self.last_ms, record.timestamp_ms)
        self._changed_groups[record.group_id] = None
        is_commit = isinstance(record, OffsetsCommitted)
        self._keep(group, group.commits if is_commit else group.life, value)
        return True

    def _forget(self, group: _Group) -> None:
        """Drop the records of a group that another one replaces."""
        for ring in (group.life, group.commits):
            self._kept_bytes -= ring.kept_bytes
            self._forgotten += len(ring.chunks)
            ring.chunks.clear()
        if self._forgotten > max(_FORGOTTEN_MAX, len(self._chunks) // 2):
            self._chunks = deque(chunk for chunk in self._chunks if chunk[1].chunks)
            self._forgotten = 0

    def _row(self, group: _Group, now_ms: int) -> GroupRow:
        ends = self._ends_of(group.cluster)
        row, key = group.row, (group.facts.version, ends.version)
        is_old = row is None or key != group.row_key
        if is_old or (row is not None and row.holds_until_ms is not None and row.holds_until_ms <= now_ms):
            row = group_row(group.facts, ends.group_lag(group.facts.offsets, now_ms), now_ms, self.settings.health)
            group.row, group.row_key = row, key
        assert row is not None
        return row

    def _ends_of(self, cluster: str) -> EndOffsets:
        return self._ends.get(cluster) or self._ends[""]

    def _keep(self, group: _Group, ring: RecordRing, value: bytes) -> None:
        before = ring.kept_bytes
        chunk = ring.add(value)
        self._kept_bytes += ring.kept_bytes - before
        if chunk is None:
            return
        self._chunks.append((group, ring, chunk.number))
        settings = self.settings
        count_max = settings.commits_per_group_max if ring is group.commits else settings.records_per_group_max
        while ring.chunks and (ring.count > count_max or ring.raw_bytes > settings.bytes_per_group_max):
            self._drop(group, ring)
        while self._kept_bytes > settings.memory_max_bytes and self._chunks:
            oldest, of_ring, number = self._chunks.popleft()
            if of_ring.chunks and of_ring.chunks[0].number == number:  # else its own group has dropped it before
                self._drop(oldest, of_ring)

    def _drop(self, group: _Group, ring: RecordRing) -> None:
        """The oldest chunk goes; what it led to stays, so that what comes after it can be understood."""
        before = ring.kept_bytes
        chunk = ring.drop_oldest()
        self._kept_bytes += ring.kept_bytes - before
        if chunk is None:
            return
        if ring is group.commits:
            group.dropped_commits += chunk.size
            return
        group.dropped += chunk.size
        tables = GroupTables(group.base)
        for value in chunk.records():
            tables.add(decode_history(value))
        tables.take()
        group.base = tables.pack()


def decoded(frozen: Frozen) -> Iterator[History]:
    """The records of a ring, the oldest first."""
    return (decode_history(value) for value in values(frozen))
