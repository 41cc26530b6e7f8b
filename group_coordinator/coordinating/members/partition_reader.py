"""Reads the records of assigned partitions with a plain consumer: no group, no commits, positions given from
outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from group_coordinator.ground.kafka_topics.clients import new_consumer
from schemas.consumer_protocol import TopicPartition

_NO_SUCH_OFFSET = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class Record(NamedTuple):
    """One record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class PartitionReader:
    """The records of the partitions that it is told to read."""

    def __init__(self, client_properties: Mapping[str, Any]) -> None:
        self.reading: set[TopicPartition] = set()
        self.lost_offsets: list[TopicPartition] = []
        """Partitions whose log has nothing at their position; whoever takes them clears the list."""
        self._consumer = new_consumer(
            client_properties,
            {
                "group.id": "group-coordinator-member",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
            },
        )

    def begin(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from here on, whether they have been read before or not."""
        self.drop(positions)
        self.reading.update(positions)
        self._consumer.incremental_assign(
            [
                KafkaTopicPartition(partition.topic, partition.partition, offset)
                for partition, offset in positions.items()
            ]
        )

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions no longer."""
        dropped = [partition for partition in partitions if partition in self.reading]
        if dropped:
            self.reading.difference_update(dropped)
            self._consumer.incremental_unassign(
                [KafkaTopicPartition(partition.topic, partition.partition) for partition in dropped]
            )

    def read(self, records_max: int, timeout_s: float) -> list[Record]:
        """Return records that have come, after waiting for the first; none when the time is up."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        others = self._consumer.consume(records_max - 1, timeout=0) if records_max > 1 else []
        return [record for message in (first, *others) if (record := self._record(message)) is not None]

    def close(self) -> None:
        self._consumer.close()

    def _record(self, message: Message) -> Record | None:
        partition = TopicPartition(message.topic() or "", _number(message.partition()))
        error = message.error()
        if error is not None:
            if error.code() in _NO_SUCH_OFFSET:
                self.lost_offsets.append(partition)
            return None  # other errors the client retries by itself
        if partition not in self.reading:
            return None
        headers: Any = message.headers() or ()
        return Record(
            topic=partition.topic,
            partition=partition.partition,
            offset=_number(message.offset()),
            timestamp_ms=message.timestamp()[1],
            key=_bytes(message.key()),
            value=_bytes(message.value()),
            headers=tuple((name, _bytes(value)) for name, value in headers),
        )


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
