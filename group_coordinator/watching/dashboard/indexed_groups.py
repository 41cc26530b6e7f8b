"""The groups of an index with their records, bounded: the records of each, those of all, and the groups in memory.

A group that finds no room in memory lies on disk, whole. Groups go there that have no members and are well, and of
these the ones that changed longest ago; only where that is not enough do others follow. What is asked for comes back.
They go one by one, while others come, so that no page waits for many of them.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from heapq import nsmallest

from group_coordinator.ground.system.disk_store import DiskStore
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.group_list import GroupList
from group_coordinator.watching.dashboard.ring import Chunk, RecordRing
from group_coordinator.watching.dashboard.settings import DashboardSettings
from group_coordinator.watching.history.stored_generations import StoredGenerations
from group_coordinator.watching.tables.fold import GroupTables
from schemas.history import decode_history

_EARLY_MAX = 10_000
"""Stored generations that wait for their groups; of more the latest wait."""
_FORGOTTEN_MAX = 1_000
"""So many chunks of forgotten groups may stay in the list."""
_GROUP_BYTES, _MEMBER_BYTES, _OFFSET_BYTES, _RECENT_BYTES = 6_000, 700, 500, 250
"""What a group takes beside its records, nearly."""
_LEAVING_SHARE = 0.02
"""So many of the groups are chosen at a time to be the next that go to disk."""
_RECORDS_SHARE = 0.9
"""So full it is when records were dropped. What they led to is written anew, which takes long in a large group."""

KindAndState = tuple[str, str]


class IndexedGroup:
    """One group: what it is, and its records."""

    __slots__ = (
        "base", "bytes", "cluster", "commits", "dropped", "dropped_commits", "facts", "life", "row", "row_key",
        "stored",
    )  # fmt: skip

    def __init__(self, group_id: str, cluster: str) -> None:
        self.facts = GroupFacts(group_id)
        self.cluster = cluster
        self.life = RecordRing()
        self.commits = RecordRing()
        self.base: tuple[bytes, bytes] | None = None
        self.dropped = self.dropped_commits = 0
        self.stored: StoredGenerations | None = None
        self.row: Group | None = None
        self.row_key: tuple[int, int] = (-1, -1)
        self.bytes = 0
        """What it takes in memory, nearly, as it was counted last."""

    @property
    def needs_a_look(self) -> bool:
        """Whether it has members, or somebody should look at it."""
        return bool(self.facts.members) or (self.row is not None and self.row.severity > 0)

    @property
    def kind_and_state(self) -> KindAndState:
        return self.facts.kind, self.facts.state


class IndexedGroups:
    """All groups by their ids."""

    def __init__(self, settings: DashboardSettings, group_list: GroupList, disk: DiskStore | None = None) -> None:
        """`group_list` is told which groups come and go. `disk`: None: all groups stay in memory."""
        self._settings = settings
        self._list = group_list
        self._leaving: list[tuple[IndexedGroup, int]] = []
        """Those that go to disk next, with their versions, the next one last."""
        self._disk = disk
        self.held: dict[str, IndexedGroup] = {}
        """Those in memory."""
        self._bytes = 0
        """What these take."""
        self.on_disk: Counter[KindAndState] = Counter()
        """How many lie there."""
        self._clusters: dict[str, int] = {}
        """The clusters of groups, numbered from 1: by this mark those on disk are found."""
        self._early: dict[str, StoredGenerations] = {}
        """The stored generations of groups that are not there yet: they are in another topic than history, which may
        have nothing of a group any more."""
        self._chunks: deque[tuple[IndexedGroup, RecordRing, int]] = deque()
        """Every chunk in memory, in the order in which they were made."""
        self.kept_bytes = 0
        """What the records in memory take."""
        self._forgotten = 0
        """How many of the chunks are of groups that were replaced."""

    def __len__(self) -> int:
        return len(self.held) + (0 if self._disk is None else len(self._disk))

    def __contains__(self, group_id: str) -> bool:
        return group_id in self.held or (self._disk is not None and group_id in self._disk)

    def ids(self, cluster: str | None = None) -> list[str]:
        """Return the groups of one cluster, or of all, in order."""
        held = [group_id for group_id, group in self.held.items() if cluster is None or group.cluster == cluster]
        return sorted([*held, *self._ids_on_disk(cluster)])

    def get(self, group_id: str) -> IndexedGroup | None:
        """Return a group, from disk where it lies there; it is in memory from now on. Raises OSError."""
        group = self.held.get(group_id)
        if group is not None or self._disk is None or not len(self._disk):
            return group
        data = self._disk.take(group_id)
        if data is None:
            return None
        group = pickle.loads(zlib.decompress(data))
        assert isinstance(group, IndexedGroup)
        self.on_disk[group.kind_and_state] -= 1
        self.held[group_id] = group
        self._list.changed((group_id,))
        self._bytes += group.bytes
        for ring in (group.life, group.commits):
            self.kept_bytes += ring.kept_bytes
            self._chunks.extendleft((group, ring, chunk.number) for chunk in reversed(ring.chunks))
        return group

    def begin(self, group_id: str, cluster: str) -> IndexedGroup:
        """Return a new group, in place of the one that was in memory."""
        before = self.held.get(group_id)
        if before is not None:
            self._bytes -= before.bytes
            self._forget(before)
        self._clusters.setdefault(cluster, len(self._clusters) + 1)
        group = self.held[group_id] = IndexedGroup(group_id, cluster)
        group.stored = self._early.pop(group_id, None)
        return group

    def stored(self, group_id: str) -> StoredGenerations | None:
        """Return what is known of a group's stored generations. Raises OSError."""
        group = self.get(group_id)
        return self._early.get(group_id) if group is None else group.stored

    def store(self, group_id: str, stored: StoredGenerations | None) -> None:
        """Take what a group's stored generations say, in place of what was known. Raises OSError."""
        group = self.get(group_id)
        if group is not None:
            group.stored = stored
            return
        self._early.pop(group_id, None)
        if stored is not None:
            self._early[group_id] = stored
        if len(self._early) > _EARLY_MAX:
            del self._early[next(iter(self._early))]

    def keep(self, group: IndexedGroup, ring: RecordRing, value: bytes) -> None:
        """Keep a record of a group."""
        before = ring.kept_bytes
        chunk = ring.add(value)
        self.kept_bytes += ring.kept_bytes - before
        self._weigh(group)
        if chunk is None:
            return
        self._chunks.append((group, ring, chunk.number))
        settings = self._settings
        count_max = settings.commits_per_group_max if ring is group.commits else settings.records_per_group_max
        if ring.count > count_max or ring.raw_bytes > settings.bytes_per_group_max:
            count_left, bytes_left = _RECORDS_SHARE * count_max, _RECORDS_SHARE * settings.bytes_per_group_max
            dropped = []
            while ring.chunks and (ring.count > count_left or ring.raw_bytes > bytes_left):
                dropped.append(self._take_oldest(ring))
            self._drop(group, ring, dropped)
        if self.kept_bytes > settings.memory_max_bytes:
            self._drop_oldest(_RECORDS_SHARE * settings.memory_max_bytes)

    def _drop_oldest(self, bytes_left: float) -> None:
        """Drop the oldest chunks of all groups until no more than this is kept."""
        dropped: dict[int, tuple[IndexedGroup, RecordRing, list[Chunk]]] = {}
        while self.kept_bytes > bytes_left and self._chunks:
            oldest, ring, number = self._chunks.popleft()
            if ring.chunks and ring.chunks[0].number == number:  # else its own group has dropped it before
                dropped.setdefault(id(ring), (oldest, ring, []))[2].append(self._take_oldest(ring))
        for group, ring, chunks in dropped.values():
            self._drop(group, ring, chunks)

    def make_room(self) -> None:
        """Put groups on disk until the others find room in memory. Raises OSError; then they stay in memory."""
        bytes_max = self._settings.groups_max_bytes
        if self._disk is None or bytes_max is None or self._bytes <= bytes_max:
            return
        while self._bytes > bytes_max and len(self.held) > 1:
            if not self._leaving:
                self._choose_leaving()
            group, version = self._leaving.pop()
            if group.facts.version == version and self.held.get(group.facts.group_id) is group:
                self._put_on_disk(self._disk, group)

    def _choose_leaving(self) -> None:
        count = min(max(int(len(self.held) * _LEAVING_SHARE), 1), len(self.held) - 1)
        first = nsmallest(count, self.held.values(), key=lambda group: (group.needs_a_look, group.facts.last_ms))
        self._leaving = [(group, group.facts.version) for group in reversed(first)]
        self._clean_chunks()

    def _put_on_disk(self, disk: DiskStore, group: IndexedGroup) -> None:
        group.row, group.row_key = None, (-1, -1)  # it is made again, where it is wanted
        packed = zlib.compress(pickle.dumps(group, pickle.HIGHEST_PROTOCOL), 1)
        disk.put(group.facts.group_id, packed, self._clusters[group.cluster])
        self.on_disk[group.kind_and_state] += 1
        del self.held[group.facts.group_id]
        self._list.left(group.facts.group_id)
        self._bytes -= group.bytes
        self._forget(group)

    def _ids_on_disk(self, cluster: str | None) -> Iterator[str]:
        if self._disk is None:
            return iter(())
        return self._disk.names() if cluster is None else self._disk.marked([self._clusters.get(cluster, 0)])

    def _weigh(self, group: IndexedGroup) -> None:
        facts = group.facts
        before, group.bytes = group.bytes, (
            _GROUP_BYTES
            + _MEMBER_BYTES * (len(facts.members) + len(facts.asks) + len(facts.transactions))
            + _OFFSET_BYTES * len(facts.offsets)
            + _RECENT_BYTES * (len(facts.recent) + len(facts.comings))
            + group.life.kept_bytes
            + group.commits.kept_bytes
        )
        self._bytes += group.bytes - before

    def _forget(self, group: IndexedGroup) -> None:
        """Drop the records of a group that is not in memory any more."""
        for ring in (group.life, group.commits):
            self.kept_bytes -= ring.kept_bytes
            self._forgotten += len(ring.chunks)
            ring.chunks.clear()
        if self._forgotten > max(_FORGOTTEN_MAX, len(self._chunks) // 2):
            self._clean_chunks()

    def _clean_chunks(self) -> None:
        self._chunks = deque(chunk for chunk in self._chunks if chunk[1].chunks)
        self._forgotten = 0

    def _take_oldest(self, ring: RecordRing) -> Chunk:
        before = ring.kept_bytes
        chunk = ring.drop_oldest()
        self.kept_bytes += ring.kept_bytes - before
        return chunk

    def _drop(self, group: IndexedGroup, ring: RecordRing, chunks: Sequence[Chunk]) -> None:
        """The oldest chunks go; what they led to stays, so that what comes after them can be understood.

        Several go at once: what they led to is read and written as a whole, which takes long where members are many.
        """
        size = sum(chunk.size for chunk in chunks)
        if ring is group.commits:
            group.dropped_commits += size
            return
        group.dropped += size
        tables = GroupTables(group.base)
        for chunk in chunks:
            for value in chunk.records():
                tables.add(decode_history(value))
        tables.take()
        group.base = tables.pack()
