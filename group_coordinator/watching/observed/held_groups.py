"""The groups of an observer: in memory while they find room there, on disk beyond that.

A group comes back from the disk when something comes of it, or when it is looked at; commits wait until there are some
of them. What is told of it is the same: it is followed anew, through all of its evidence.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec
from msgspec.structs import astuple

from group_coordinator.ground.system.disk_store import DiskStore
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.history.stored_generations import StoredGenerations
from group_coordinator.watching.observed.evidence import Bounds, GroupEvidence, Shares
from group_coordinator.watching.observed.following import Following, KeptGroup
from group_coordinator.watching.observed.group import ObservedGroup
from group_coordinator.watching.observed.group_state import GroupState, decode_group, encode_group
from group_coordinator.watching.observed.modern_records import kind_of
from group_coordinator.watching.observed.offsets_log import CommitRecord, LogRecord
from group_coordinator.watching.observed.stored_groups import stored_generations
from group_coordinator.watching.observed.transactions import Commits, Fact
from schemas.history import History

_GROUP_BYTES = 5_500
"""What a group takes that was followed, beside its evidence."""
_RECORD_BYTES, _RECORD_BYTES_FACTOR = 1_000, 5
"""A record, and each of its bytes, that is decoded."""
_COMMIT_BYTES = 550
_LINE_BYTES = 700
_CAUGHT_UP_AT_ONCE = 4
"""So many groups on disk come back by themselves at a time, because their commits have waited longest."""
_TOPIC_IDS, _LINES = 1, 2
"""These flags say of a group on disk that its records name topics by ids, and that it has lines."""


class Group:
    """A group's evidence, and how far it was followed."""

    def __init__(self, evidence: GroupEvidence) -> None:
        self.evidence = evidence
        self.followed: ObservedGroup | None = None
        self.last_line_ms = 0
        """When the last of its lines was written, by the clock of the records."""
        self.last_fact_ms = 0
        """The latest time of its records."""
        self.has_topic_ids = False
        """Whether its records name topics by their ids."""
        self.following: Following | None = None
        """Where much is known of it."""
        self.bytes = _GROUP_BYTES
        """What it takes in memory, nearly."""
        self.stored: StoredGenerations | None = None
        """What its generations say, as far as it was followed."""
        self._stored_offset = -1

    def followed_all(self, kept: KeptGroup) -> None:
        """Note that it was followed through all of its evidence."""
        facts = kept.facts
        self.last_line_ms = kept.lines[-1].at_ms if kept.lines else 0
        self.last_fact_ms = max((fact.timestamp_ms for fact in facts), default=0)
        self.evidence.followed()
        self.stored = stored_generations(facts, self.stored, self._stored_offset)
        self._stored_offset = max(
            (fact.offset for fact in facts if isinstance(fact, LogRecord)), default=self._stored_offset
        )

    def go_on(self) -> list[History] | None:
        """Return the history of new commits; None where other evidence has come or a line belongs behind them."""
        commits = self.evidence.new_commits()
        if self.followed is None or self.evidence.is_changed or not commits:
            return None
        first_ms = max(self.last_fact_ms, commits[0].timestamp_ms)
        if first_ms < self.last_line_ms:
            return None
        self.last_fact_ms = max(first_ms, *(step.timestamp_ms for step in commits))
        history = self.followed.go_on(commits)
        self.evidence.followed()
        return history

    def encoded(self) -> bytes:
        """Return its evidence for the disk."""
        evidence = self.evidence
        facts, lines = evidence.facts(), evidence.lines()
        return encode_group(
            GroupState(group_id=evidence.group_id, facts=facts, lines=lines, whole_from=evidence.whole_from)
        )


class HeldGroups:
    """All groups by their ids. Those of which something came or that were looked at last are in memory."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._shares = Shares(bounds.commits_max)
        self._disk = None if bounds.memory_bytes is None else DiskStore()
        self._later = LaterCommits(bounds.memory_bytes or 0)
        self._held: OrderedDict[str, Group] = OrderedDict()
        """Those in memory, the one that was of use last at the end."""
        self.bytes = 0
        """What these take, nearly."""

    def __len__(self) -> int:
        return len(self._held) + self.on_disk

    @property
    def on_disk(self) -> int:
        """How many groups lie there."""
        return 0 if self._disk is None else len(self._disk)

    def ids(self) -> list[str]:
        """Return the ids of all groups, in order."""
        return sorted([*self._held, *(() if self._disk is None else self._disk.names())])

    def add_later(self, commit: CommitRecord) -> int:
        """Keep a commit of a group on disk, which stays there; return how many it has by now. 0: nothing is kept, since
        it is in memory or this is a tombstone or in a transaction."""
        group_id = commit.key.group_id
        if self._disk is None or group_id in self._held or commit.value is None or commit.producer_id is not None:
            return 0
        if group_id not in self._later and group_id not in self._disk:
            return 0
        return self._later.add(commit)

    def has_later(self, group_id: str) -> bool:
        """Return whether a group on disk has commits that it was not followed through."""
        return group_id in self._later

    def longest_waiting(self) -> list[str]:
        """Return a few groups on disk, whose commits wait longest."""
        return self._later.longest_waiting(_CAUGHT_UP_AT_ONCE)

    def get(self, group_id: str) -> Group:
        """Return a group, which is a new one where nothing was known of it. Raises OSError."""
        group = self._held.get(group_id)
        if group is not None:
            self._held.move_to_end(group_id)
            return group
        group = self._from_disk(group_id, take=True) or self._new(group_id)
        self._held[group_id] = group
        self.bytes += group.bytes
        return group

    def look(self, group_id: str) -> Group:
        """Return a group to be looked at: one that lies on disk stays there, and this is a copy. Raises OSError."""
        return self._held.get(group_id) or self._from_disk(group_id, take=False) or self.get(group_id)

    @property
    def parts(self) -> int:
        """How many parts `encoded` yields."""
        return len(self) + len(self._later)

    def encoded(self) -> Iterator[bytes]:
        """Yield the evidence of each group for a file, and behind a group the commits that wait for it: so many parts
        as `parts` says."""
        for group in self._held.values():
            yield group.encoded()
        if self._disk is not None:
            for group_id in self._disk.names():
                data = self._disk.get(group_id)
                assert data is not None
                yield data
                if group_id in self._later:
                    later = self._later.get(group_id, take=False)
                    yield encode_group(GroupState(group_id=group_id, facts=later, lines=()))

    def with_topic_ids(self) -> list[str]:
        """Return the groups whose records name topics by ids."""
        held = [group_id for group_id, group in self._held.items() if group.has_topic_ids]
        return held + self._marked(_TOPIC_IDS, _TOPIC_IDS | _LINES)

    def with_lines(self, is_meant: Callable[[BrokerLine], bool]) -> list[str]:
        """Return the groups that have such a line."""

        def has(group: Group) -> bool:
            return any(map(is_meant, group.evidence.lines()))

        held = [group_id for group_id, group in self._held.items() if has(group)]
        return held + [name for name in self._marked(_LINES, _TOPIC_IDS | _LINES) if has(self.look(name))]

    def added(self, group: Group, added: Fact | BrokerLine) -> None:
        """Note that the evidence of a group has grown."""
        grown = _bytes_of(added)
        group.bytes += grown
        self.bytes += grown

    def weigh(self, group: Group) -> None:
        """Note that a group was followed: what it takes is counted anew."""
        evidence = group.evidence
        before, group.bytes = group.bytes, _GROUP_BYTES
        group.bytes += sum(map(_bytes_of, (*evidence.facts(), *evidence.lines())))
        if evidence.group_id in self._held:
            self.bytes += group.bytes - before

    def make_room(self) -> None:
        """Put groups on disk until the others find room in memory. Raises OSError; then they stay in memory."""
        if self._disk is None or self._bounds.memory_bytes is None:
            return
        while self.bytes > self._bounds.memory_bytes and len(self._held) > 1:
            group_id, group = next(iter(self._held.items()))
            mark = _TOPIC_IDS * group.has_topic_ids + _LINES * bool(group.evidence.lines())
            self._disk.put(group_id, group.encoded(), mark)
            del self._held[group_id]
            self.bytes -= group.bytes

    def _new(self, group_id: str) -> Group:
        return Group(GroupEvidence(group_id, self._bounds, self._shares))

    def _from_disk(self, group_id: str, *, take: bool) -> Group | None:
        if self._disk is None:
            return None
        data = self._disk.take(group_id) if take else self._disk.get(group_id)
        if data is None:
            return None
        state = decode_group(data)
        group = self._new(group_id)
        group.evidence.restore(state.facts, state.whole_from, is_counted=True)
        for line in state.lines:
            group.evidence.add_line(line)
        later, counted = self._later.get(group_id, take=take), self._shares.partitions
        for commit in later:
            group.evidence.add(commit)
        if not take:
            self._shares.partitions = counted
        group.has_topic_ids = any(isinstance(fact, LogRecord) and has_topic_ids(fact) for fact in state.facts)
        group.bytes += sum(map(_bytes_of, (*state.facts, *state.lines, *later)))
        return group

    def _marked(self, *marks: int) -> list[str]:
        return [] if self._disk is None else list(self._disk.marked(marks))


def has_topic_ids(record: LogRecord) -> bool:
    """Return whether a record is of a kind of group whose records name topics by ids."""
    return kind_of(record.name) is not None


def _bytes_of(part: Fact | BrokerLine) -> int:
    if isinstance(part, Commits):
        return sum(map(_bytes_of, part.records))
    if isinstance(part, LogRecord):
        key, value = part.raw
        return _RECORD_BYTES + _RECORD_BYTES_FACTOR * (len(key) + len(value or b""))
    if isinstance(part, BrokerLine):
        texts = (text for value in astuple(part.event) for text in (value if isinstance(value, tuple) else (value,)))
        return _LINE_BYTES + sum(len(text) for text in texts if isinstance(text, str))
    return _COMMIT_BYTES + len(part.key.group_id) + len(part.key.topic) + len(part.value.metadata if part.value else "")


LATER_MAX = 500
"""A group with so many comes back."""
_MEMORY_SHARE = 32
"""Of the memory for groups, one part in so many is for those that are not written yet."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[CommitRecord]).decode


class LaterCommits:
    """By group, in the order in which they came. Methods raise OSError where the disk fails."""

    def __init__(self, memory_bytes: int) -> None:
        self._recent: dict[str, list[CommitRecord]] = {}
        self._recent_max = memory_bytes // _MEMORY_SHARE // _COMMIT_BYTES
        self._recent_count = 0
        self._disk = DiskStore()
        """The earlier ones, as encoded lists that follow each other, each with its length."""
        self._counts: dict[str, int] = {}
        """How many each group has, the one that has waited longest first."""

    def add(self, commit: CommitRecord) -> int:
        """Take a commit; return how many the group has."""
        group_id = commit.key.group_id
        self._recent.setdefault(group_id, []).append(commit)
        self._recent_count += 1
        count = self._counts[group_id] = self._counts.get(group_id, 0) + 1
        if self._recent_count > self._recent_max:
            self._write()
        return count

    def __len__(self) -> int:
        """Return how many groups have some."""
        return len(self._counts)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._counts

    def get(self, group_id: str, *, take: bool) -> Sequence[CommitRecord]:
        """Return the commits of a group. `take`: it has none from now on."""
        if group_id not in self._counts:
            return ()
        data = self._disk.take(group_id) if take else self._disk.get(group_id)
        commits = _joined(data or b"")
        recent = self._recent.pop(group_id, []) if take else self._recent.get(group_id, [])
        if take:
            del self._counts[group_id]
            self._recent_count -= len(recent)
        return [*commits, *recent]

    def longest_waiting(self, most: int) -> list[str]:
        """Return so many groups at most."""
        return list(islice(self._counts, most))

    def _write(self) -> None:
        for group_id in list(self._recent):
            data = _encode(self._recent[group_id])
            self._disk.append(group_id, len(data).to_bytes(4) + data)
            self._recent_count -= len(self._recent.pop(group_id))


def _joined(data: bytes) -> list[CommitRecord]:
    commits: list[CommitRecord] = []
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4])
        commits += _decode(data[at + 4 : at + 4 + length])
        at += 4 + length
    return commits
