"""What a shard has on the topics topic, and what it has yet to write there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import count

from confluent_kafka import KafkaError, Message, Producer

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.cluster_topics import ClusterTopics
from group_coordinator.ground.kafka_topics.reader import TopicReader, offset_of
from schemas.events import encode_json
from schemas.known_topics import VERSIONS_KEY, KnownTopic, VersionsBegin
from streaming.topic_knowledge import TopicListing

_log = logging.getLogger(__name__)


class TopicRecords:
    """The table of one shard. Its versions are those of all who read the topic: it has what lies there, in its order,
    also what another watcher of the shard wrote."""

    def __init__(self, topic: str, shard: int) -> None:
        self.table = ClusterTopics()
        self._place = (topic, shard)
        self._unsaved: dict[str, KnownTopic | None] = {}
        """What the topics topic does not say yet, by id."""
        self._end = 0
        """So far the partition has been read."""
        self._cluster_id = ""
        self._versions_begin: int | None = None

    def load(self, reader: TopicReader, cluster_id: str) -> dict[str, str]:
        """Read the topic; return the topics of this cluster, id -> name. Raises KafkaException."""
        self._read(reader)
        self._cluster_id = cluster_id
        known = self.table.known
        elsewhere = [topic_id for topic_id, topic in known.items() if topic.cluster_id != cluster_id]
        if elsewhere:
            _log.warning(
                "%s knows %d topics of another cluster: they are forgotten, and no offsets are dropped for them.",
                self._place[0], len(elsewhere),
            )  # fmt: skip
            self._unsaved |= dict.fromkeys(elsewhere)
        return {topic_id: topic.name for topic_id, topic in known.items() if topic_id not in self._unsaved}

    def learn(self, listing: TopicListing, gone: Mapping[str, str], is_alive: Mapping[str, str]) -> None:
        """Note what a look has shown. `gone`, `is_alive`: id -> name."""
        known = self.table.known
        for name, topic_id in listing.topics.items():
            if topic_id in is_alive and not _says(known.get(topic_id), listing.racks[name]):
                self._put(topic_id, name, listing.racks[name], is_gone=False)
        for topic_id, name in gone.items():
            kept = known.get(topic_id)
            if kept is None or not kept.is_gone:
                self._put(topic_id, name, None if kept is None else kept.partitions, is_gone=True)

    def forget(self, topic_id: str) -> None:
        """Note that all groups know that a topic is gone."""
        self._unsaved[topic_id] = None

    def count_on_from(self, version: int) -> None:
        """Have the next record be of this version: groups know later ones than the topic has, which was made anew."""
        self._versions_begin = version

    @property
    def has_unsaved(self) -> bool:
        return bool(self._unsaved) or self._versions_begin is not None

    def save(self, writer: ShardWriter, reader: TopicReader) -> None:
        """Write what is to be written, if Kafka takes it; the table has it then. Raises KafkaException."""
        topic_name, _ = self._place
        records: list[tuple[bytes, bytes | None]] = []
        if self._versions_begin is not None:
            _log.warning("%s was made anew: its versions go on from %d.", topic_name, self._versions_begin)
            records.append((VERSIONS_KEY, encode_json(VersionsBegin(version=self._versions_begin))))
        records += [
            (topic_id.encode(), None if topic is None else encode_json(topic))
            for topic_id, topic in self._unsaved.items()
        ]
        offsets = writer.append(topic_name, records)
        if offsets is None:
            return
        self._unsaved.clear()
        self._versions_begin = None
        if all(offset == expected for offset, expected in zip(offsets, count(self._end))):
            for (key, value), offset in zip(records, offsets, strict=True):
                self.table.take(key, value, offset)
            self._end += len(offsets)
        else:
            self._read(reader)

    def _put(self, topic_id: str, name: str, racks: tuple[tuple[str, ...], ...] | None, *, is_gone: bool) -> None:
        self._unsaved[topic_id] = KnownTopic(
            name=name, topic_id=topic_id, cluster_id=self._cluster_id, partitions=racks, is_gone=is_gone
        )

    def _read(self, reader: TopicReader) -> None:
        begin, end = reader.bounds(*self._place)
        for message in reader.read({self._place: Bounds(max(begin, self._end), end)}):
            key, value = message.key(), message.value()
            self.table.take(key if isinstance(key, bytes) else b"", value, offset_of(message))
        self._end = end


def _says(known: KnownTopic | None, racks: tuple[tuple[str, ...], ...]) -> bool:
    """Return whether a topic is known with these partitions. An answer with fewer of them is of a broker that is
    behind: no topic loses partitions."""
    if known is None or known.partitions is None or known.is_gone:
        return False
    return known.partitions == racks or len(racks) < len(known.partitions)


class ShardWriter:
    """One thread's writer."""

    def __init__(self, producer: Producer, shard: int, is_wanted: Callable[[], bool]) -> None:
        """`is_wanted`: False ends a wait for a Kafka that takes nothing."""
        self._producer, self._shard, self._is_wanted = producer, shard, is_wanted

    def append(self, topic: str, records: Iterable[tuple[bytes, bytes | None]]) -> list[int] | None:
        """Return the records' offsets; None unless the shard's partition of the topic has appended all of them."""
        offsets: list[int | None] = []

        def written(number: int) -> Callable[[KafkaError | None, Message], None]:
            def on_delivery(error: KafkaError | None, message: Message) -> None:
                if error is None:
                    offsets[number] = message.offset()

            return on_delivery

        for key, value in records:
            offsets.append(None)
            on_delivery = written(len(offsets) - 1)
            while self._is_wanted():
                try:
                    self._producer.produce(topic, key=key, value=value, partition=self._shard, on_delivery=on_delivery)
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if not self._is_wanted():
                return None
        self._producer.flush()
        appended = [offset for offset in offsets if offset is not None]
        return appended if len(appended) == len(offsets) else None
