"""The offsets topic says which groups have committed offsets for which topics; it is read on demand only.

What was read is kept, so that the next question reads only what came since; where that would be too much to keep,
nothing is, and each question reads the topic from its beginning. A group that is named has or had such offsets:
overwritten and deleted ones are not told apart, for whoever asks loses nothing by asking a group too many.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator

from confluent_kafka import Message

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.reader import TopicReader, offset_of
from schemas.kafka.records import decode_record
from schemas.records import (
    GroupMetadataKey,
    Key,
    OffsetCommitKey,
    UnknownKey,
    decode_key,
    decode_offset_commit_value,
)
from schemas.wire import DecodeError

KEPT_BYTES_MAX = 33_554_432
_ENTRY_BYTES = 400
_OF_A_CONSUMER_GROUP = ("ConsumerGroupMetadata", "ConsumerGroupMemberMetadata")
"""A group that goes over to the consumer protocol gets these records."""
"""What an entry takes beside its names, about."""

_IDS_MAX = 8
"""Ids of one topic of a group, after which they are forgotten but for the last."""

Ids = frozenset[str | None]
Found = dict[str, dict[str, Ids]]
"""Group -> topic -> the ids with which its offsets are stored; None: without one."""


class CommittedTopics:
    """The offsets topic, as far as it concerns the groups of one shard."""

    def __init__(
        self, topic: str, partitions: int, is_ours: Callable[[str], bool], kept_bytes_max: int = KEPT_BYTES_MAX
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._is_ours = is_ours
        self._max_bytes = kept_bytes_max
        self._found: Found = {}
        self._ended: set[str] = set()
        """Groups whose classic record got a tombstone: they are dead, or of the consumer kind from then on. The records
        that follow say it, which may not be there yet."""
        self._bytes = 0
        self._next: dict[int, int] = {}
        self._is_too_large = False
        self._ids: dict[str | None, Ids] = {}

    def of(
        self, reader: TopicReader, names: Collection[str], is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[Found]:
        """Yield the groups that have offsets of these topics, in pieces of bounded size. Raises KafkaException."""
        if not self._is_too_large:
            ended_before = frozenset(self._ended)
            for message in self._read(reader, self._next, is_wanted):
                self._take(message, None)
                self._next[message.partition() or 0] = offset_of(message) + 1
                if self._bytes > self._max_bytes:
                    self._is_too_large = True
                    self._forget_all()
                    break
            else:
                for group_id in ended_before & self._ended:
                    self._forget_group(group_id)
                self._ended -= ended_before
                yield {
                    group_id: {name: topics[name] for name in topics.keys() & names}
                    for group_id, topics in self._found.items()
                    if topics.keys() & names
                }
                return
        for message in self._read(reader, {}, is_wanted):
            self._take(message, names)
            if self._bytes > self._max_bytes:
                yield self._forget_all()
        yield self._forget_all()

    def notified(self, group_id: str, name: str, topic_id: str | None) -> None:
        """Drop what a group has stored for a topic with this id, or without one. What it has for another topic of that
        name stays."""
        topics = self._found.get(group_id, {})
        ids = topics.get(name)
        if ids is None:
            return
        ids_left = ids - {topic_id, None}
        if ids_left:
            topics[name] = self._ids_of(ids_left)
        else:
            self._forget(group_id, name)

    def _forget(self, group_id: str, name: str) -> None:
        topics = self._found[group_id]
        del topics[name]
        self._bytes -= _size(group_id, name)
        if not topics:
            del self._found[group_id]

    def _forget_all(self) -> Found:
        self._ended.clear()
        topics, self._found, self._bytes = self._found, {}, 0
        return topics

    def _take(self, message: Message, names: Collection[str] | None) -> None:
        key, value = message.key(), message.value()
        if not isinstance(key, bytes):
            return
        try:
            decoded = decode_key(key)
            if names is None:
                self._note_end(key, decoded, value)
            if not isinstance(decoded, OffsetCommitKey) or value is None or not self._is_ours(decoded.group_id):
                return
            if names is None or decoded.topic in names:
                self._add(decoded.group_id, decoded.topic, decode_offset_commit_value(bytes(value)).topic_id)
        except DecodeError:
            return  # none of ours

    def _note_end(self, key: bytes, decoded: Key | UnknownKey, value: bytes | None) -> None:
        """Note that a group may be dead, or that it lives."""
        if isinstance(decoded, GroupMetadataKey) and value is None:
            if decoded.group_id in self._found:
                self._ended.add(decoded.group_id)
        elif value is not None and self._ended:
            self._ended.discard(_group_of(key, decoded))

    def _add(self, group_id: str, name: str, topic_id: str | None) -> None:
        topics = self._found.setdefault(group_id, {})
        ids = topics.get(name)
        if ids is None:
            topics[sys.intern(name)] = self._ids_of(frozenset((topic_id,)))
            self._bytes += _size(group_id, name)
        elif topic_id not in ids:
            # Who makes a topic again and again must not make this grow.
            topics[name] = self._ids_of(ids | {topic_id} if len(ids) < _IDS_MAX else frozenset((topic_id, None)))

    def _ids_of(self, ids: Ids) -> Ids:
        """One object for the many that are equal."""
        if len(ids) > 1:
            return ids
        (only,) = ids
        if len(self._ids) > 100_000:
            self._ids.clear()
        return self._ids.setdefault(only, ids)

    def _forget_group(self, group_id: str) -> None:
        for name in list(self._found.get(group_id, ())):
            self._forget(group_id, name)

    def _read(self, reader: TopicReader, since: dict[int, int], is_wanted: Callable[[], bool]) -> Iterator[Message]:
        """The records of all partitions from `since` (where nothing is said, the beginning) to the ends that they
        have now."""
        stretches = {}
        for partition in range(self._partitions):
            begin, end = reader.bounds(self._topic, partition)
            stretches[self._topic, partition] = Bounds(max(begin, since.get(partition, 0)), end)
        return reader.read(stretches, is_wanted)


def _group_of(key: bytes, decoded: Key | UnknownKey) -> str:
    """Return whose record this is, one of a consumer group included; empty if that is not known."""
    if not isinstance(decoded, UnknownKey):
        return decoded.group_id
    record = decode_record(key, None)
    if isinstance(record, int) or record.name not in _OF_A_CONSUMER_GROUP:
        return ""
    group_id: str = record.key["group_id"]
    return group_id


def _size(group_id: str, name: str) -> int:
    return _ENTRY_BYTES + len(group_id) + len(name)
