"""The cluster's topics, as one partition of the topics topic tells of them: a table, and what groups are told of it.

It follows from the records up to its version alone, compacted or not. So whoever has read as far has the same one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Set
from sys import intern

import msgspec
from confluent_kafka.admin import TopicDescription
from msgspec import UNSET, Struct, UnsetType

from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from schemas.java_hash import group_partition
from schemas.known_topics import VERSIONS_KEY, KnownTopic, decode_known_topic, decode_versions_begin

Racks = tuple[tuple[str, ...], ...]
ATTACHED_BYTES_MAX = 262_144
"""About this much is attached to a request; of further topics the watcher tells the group. Both must fit into an
event."""
_RACKS_BYTES_MAX = 262_144
"""Of one topic, in a record; the racks of a larger one are left out. Kafka's own assignors do not look at racks."""
_SHARED_MAX = 20_000
_log = logging.getLogger(__name__)


def racks_of(description: TopicDescription) -> Racks:
    """Return the racks of each partition's replicas, in the order of partitions; a broker without a rack has an empty
    one."""
    in_order = sorted(description.partitions, key=lambda partition: partition.id)
    racks = tuple([tuple(sorted([node.rack or "" for node in partition.replicas])) for partition in in_order])
    size = sum([len(rack) + 3 for replicas in racks for rack in replicas])
    return racks if size <= _RACKS_BYTES_MAX else ((),) * len(racks)


class SharedRacks:
    """Equal racks of partitions are one object: tables of many shards know the same topics."""

    def __init__(self) -> None:
        self._racks: dict[Racks, Racks] = {}

    def __call__(self, racks: Racks) -> Racks:
        if len(self._racks) > _SHARED_MAX:
            self._racks.clear()
        return self._racks.setdefault(racks, racks)


class _Row(Struct, frozen=True, gc=False):
    version: int
    size: int
    """Of the record's value, in bytes."""
    topic: KnownTopic


class ClusterTopics:
    """A table of topics by id. Records are given in the order of their offsets."""

    def __init__(self, shared_racks: SharedRacks | None = None) -> None:
        self.version = -1
        """That of the last record."""
        self._ahead = 0
        """By so much versions are larger than offsets."""
        self._share = shared_racks or SharedRacks()
        self._rows: dict[str, _Row] = {}
        """By id."""
        self._ids: dict[str, str] = {}
        """Name -> id of the topic that has it now."""
        self._all_ids: dict[str, dict[str, None]] = {}
        """Name -> ids of all topics that have it and are not known to be gone."""

    @property
    def known(self) -> Mapping[str, KnownTopic]:
        """What is kept of topics, by id; those that are gone among them."""
        return {topic_id: row.topic for topic_id, row in self._rows.items()}

    @property
    def names(self) -> Set[str]:
        """The names of the topics that exist."""
        return self._ids.keys()

    def version_of(self, name: str) -> int | None:
        """Return the version in which a topic came or last changed; None if it does not exist."""
        topic_id = self._ids.get(name)
        return None if topic_id is None else self._rows[topic_id].version

    def take(self, key: bytes, value: bytes | None, offset: int) -> None:
        """Take in a record; one that is not understood counts as null, as if compaction had left nothing before it."""
        if key == VERSIONS_KEY:
            self._count_from(value, offset)
        self.version = version = offset + self._ahead
        if key == VERSIONS_KEY:
            return
        topic_id = key.decode(errors="replace")
        try:
            topic = None if value is None else decode_known_topic(value)
        except msgspec.DecodeError as problem:
            _log.warning("Offset %d of the topics topic is not understood and passed over: %s.", offset, problem)
            topic = None
        before = self._rows.pop(topic_id, None)
        if topic is not None:
            racks = None if topic.partitions is None else self._share(topic.partitions)
            topic = msgspec.structs.replace(topic, name=intern(topic.name), partitions=racks)
            self._rows[topic_id] = _Row(version, len(value or b""), topic)
            if not topic.is_gone:
                self._ids[topic.name] = topic_id
                self._all_ids.setdefault(topic.name, {})[topic_id] = None
        if before is not None and not before.topic.is_gone and (
            topic is None or topic.is_gone or topic.name != before.topic.name
        ):
            self._find_again(before.topic.name, topic_id)
        if topic is not None and topic.is_gone and (present := self._ids.get(topic.name)) is not None:
            # Who was told of the one that is gone must be told of this one, which may have been there before it.
            self._rows[present] = msgspec.structs.replace(self._rows[present], version=version)

    def changed_since(self, version: int) -> set[str]:
        """Return the names of topics that came, changed or went after a version."""
        return {row.topic.name for row in self._rows.values() if row.version > version}

    def described(self, name: str) -> DescribedTopic | None:
        """Return a topic that exists; None also where its partitions are not known."""
        topic_id = self._ids.get(name)
        racks = None if topic_id is None else self._rows[topic_id].topic.partitions
        if topic_id is None or racks is None:
            return None
        return DescribedTopic(name=name, topic_id=topic_id, partitions=racks)

    def metadata(self, names: Iterable[str], bytes_max: int) -> Iterator[TopicMetadata]:
        """Yield what is known of these topics, in pieces of about so many bytes at the most, if one topic fits into
        that."""
        topics: list[DescribedTopic] = []
        absent: list[str] = []
        size = 0
        for name in names:
            topic_id = self._ids.get(name)
            topic = self.described(name)
            if topic_id is not None and topic is None:
                continue
            piece_bytes = len(name.encode()) + 4 if topic_id is None else self._rows[topic_id].size
            if size and size + piece_bytes > bytes_max:
                yield self._piece(topics, absent)
                topics, absent, size = [], [], 0
            size += piece_bytes
            if topic is None:
                absent.append(name)
            else:
                topics.append(topic)
        if topics or absent:
            yield self._piece(topics, absent)

    def _piece(self, topics: list[DescribedTopic], absent: list[str]) -> TopicMetadata:
        return TopicMetadata(version=self.version, topics=tuple(topics), absent=tuple(absent))

    def _count_from(self, value: bytes | None, offset: int) -> None:
        self._ahead = 0
        try:
            if value is not None:
                self._ahead = decode_versions_begin(value).version - offset
        except msgspec.DecodeError as problem:
            _log.warning("Offset %d of the topics topic is not understood and passed over: %s.", offset, problem)

    def _find_again(self, name: str, gone_id: str) -> None:
        """A topic of this name is gone; another may have the name, too: a new one, or one that is not yet known to be
        gone."""
        others = self._all_ids[name]
        del others[gone_id]
        if others:
            self._ids[name] = max(others, key=lambda topic_id: (self._rows[topic_id].version, topic_id))
        else:
            del self._ids[name], self._all_ids[name]


class ShardedTopics:
    """A table for each shard of the coordinator, since versions of different shards cannot be compared."""

    def __init__(self, shards: int) -> None:
        shared_racks = SharedRacks()
        self._tables = [ClusterTopics(shared_racks) for _ in range(shards)]

    def take(self, shard: int, key: bytes, value: bytes | None, offset: int) -> None:
        """Take in a record of the topics topic, those of each partition in their order."""
        if shard < len(self._tables):
            self._tables[shard].take(key, value, offset)

    def shard_of(self, group_id: str) -> int:
        """Return the shard of a group."""
        return group_partition(group_id, len(self._tables))

    def of(self, group_id: str) -> ClusterTopics:
        """Return the topics as the group's shard knows them."""
        return self._tables[self.shard_of(group_id)]

    def attached(self, group_id: str, names: Iterable[str]) -> TopicMetadata | UnsetType:
        """Return what a request of the group brings along of these topics; UNSET if nothing."""
        table = self.of(group_id)
        if table.version < 0:
            return UNSET  # nobody has watched the topics yet, so it cannot be said that there are none
        return next(table.metadata(names, ATTACHED_BYTES_MAX), UNSET)
