"""The progress topic, written by the application and read by responders: how far the query of each shard is."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message

from group_coordinator.ground.kafka_topics.clients import new_producer
from group_coordinator.ground.kafka_topics.reader import TopicReader, offset_of
from group_coordinator.ground.settings.topic_names import Topics
from schemas.events import encode_tick
from schemas.query_progress import (
    CORE_HASH_HEADER,
    AnswerDifference,
    ProgressRecord,
    QueryProgress,
    ResponderClaim,
    decode_progress,
    encode_progress,
    key_of,
)
from schemas.ticks import NO_CLOCK
from streaming.stored_group import CommittedBatch
from streaming.topics import TopicError
from streaming.watcher import ShardProgress

_FLUSH_TIMEOUT_S = 5.0
_NOW = 0
"""What librdkafka takes for the present."""


class PublishedRecord(NamedTuple):
    """A record of the progress topic."""

    record: ProgressRecord
    timestamp_ms: int
    """When it was published, by its writer's clock."""


def read_progress(reader: TopicReader, topic: str, shard: int) -> dict[type[ProgressRecord], PublishedRecord]:
    """Return the last record of each type in a shard's partition. Raises KafkaException.

    A record that cannot be read counts as none: the next release may know more types.
    """
    last: dict[bytes, Message] = {}
    place = topic, shard
    for message in reader.read({place: reader.bounds_when_led(*place)}):
        last[bytes(message.key() or b"")] = message
    published: dict[type[ProgressRecord], PublishedRecord] = {}
    for message in last.values():
        record = decode_progress(message.value() or b"")
        if record is not None:
            published[type(record)] = PublishedRecord(record, message.timestamp()[1])
    return published


class _Record(NamedTuple):
    """A record that is to be written, until Kafka has taken it."""

    topic: str
    partition: int
    key: bytes
    value: bytes


class ProgressPublisher:
    """Writes the records of the shards of this process. What Kafka does not take is written with the next batch."""

    def __init__(self, topics: Topics, core_hashes: Mapping[int, str], client_properties: Mapping[str, str]) -> None:
        self._topics = topics
        self.core_hashes = core_hashes
        self.begins: dict[int, CommittedBatch] = {}
        """The last batch of each shard before the query of this process; none where a responder of another release may
        have answered what comes after it."""
        self._untold: deque[_Record] = deque()
        """Differences, as far as Kafka has not taken them yet."""
        # Idempotence keeps the order of a shard's records.
        self._producer = new_producer(client_properties, {"enable.idempotence": True, "linger.ms": 0})

    def begin(self, shard: int, committed: CommittedBatch | None, published: PublishedRecord | None = None) -> None:
        """Publish where the query of a shard begins. A difference beside an earlier query is forgotten.

        `published`: what was published of the query last. Where it was the same batch, it keeps its time: a coordinator
        that starts again and again, and commits nothing, gives no responder more time.
        """
        self.begins[shard] = batch = committed or CommittedBatch(-1, 0, 0, NO_CLOCK)
        last, same = None if published is None else published.record, (self.core_hashes[shard], batch.batch_id)
        is_same = isinstance(last, QueryProgress) and (last.core_hash, last.batch_id) == same
        self._publish(shard, batch, published.timestamp_ms if published is not None and is_same else _NOW)
        self._write(shard, key_of(AnswerDifference), None)
        self._producer.flush(_FLUSH_TIMEOUT_S)  # responders of another release end before this query decides anything

    def fence(self, shard: int, clock_ms: int) -> int:
        """Write to the log that a query of another hash begins here, and return that place. Raises TopicError.

        No responder of the former hash answers what comes after it, however late it reads it. `clock_ms`: where the
        clock stands, for it is said by a tick that moves nothing.
        """
        places: list[int] = []

        def delivered(error: KafkaError | None, tick: Message) -> None:
            if error is None:
                places.append(offset_of(tick))

        with suppress(BufferError, KafkaException):
            self._producer.produce(
                self._topics.events, value=encode_tick(clock_ms), partition=shard,
                headers={CORE_HASH_HEADER: self.core_hashes[shard]}, on_delivery=delivered,
            )  # fmt: skip
        self._producer.flush(_FLUSH_TIMEOUT_S)
        if not places:
            raise TopicError([f"{self._topics.events}, partition {shard}, takes no record."])
        return places[0]

    def withdraw_claim(self, shard: int) -> None:
        """Forget that a responder has answered for a shard: all that it may have answered is decided."""
        self._write(shard, key_of(ResponderClaim), None)
        self._producer.flush(_FLUSH_TIMEOUT_S)

    def batch_ended(self, progress: ShardProgress) -> None:
        """Publish that a batch is committed."""
        self._tell()
        if progress.end_offset is not None:
            batch = CommittedBatch(progress.batch_id, progress.start_offset, progress.end_offset, progress.clock_ms)
            self._publish(progress.shard, batch)

    def differs(self, difference: AnswerDifference) -> None:
        """Publish that an answer of a responder differs; may be called in any thread. What Kafka does not take now is
        tried again after each batch: the responders must hear of it."""
        value = encode_progress(difference)
        self._untold.append(_Record(self._topics.progress, difference.shard, key_of(AnswerDifference), value))
        self._untold.append(_Record(self._topics.differences, 0, difference.request_id.encode(), value))
        self._tell()
        self._producer.flush(_FLUSH_TIMEOUT_S)

    def close(self) -> None:
        """Write what is not written yet; wait for it for a moment."""
        self._tell()
        self._producer.flush(_FLUSH_TIMEOUT_S)

    def _tell(self) -> None:
        """Hand the differences to the producer that Kafka has not taken yet."""
        for _ in range(len(self._untold)):
            try:
                record = self._untold.popleft()
            except IndexError:  # another thread has just taken it
                return
            topic, partition, key, value = record
            try:
                self._producer.produce(
                    topic, key=key, value=value, partition=partition, on_delivery=partial(self._told, record)
                )
            except (BufferError, KafkaException):
                self._untold.append(record)
        self._producer.poll(0)

    def _told(self, record: _Record, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._untold.append(record)

    def _publish(self, shard: int, batch: CommittedBatch, timestamp_ms: int = _NOW) -> None:
        record = QueryProgress(
            core_hash=self.core_hashes[shard],
            batch_id=batch.batch_id,
            start_offset=batch.start_offset or 0,
            end_offset=batch.end_offset,
            clock_ms=batch.clock_ms,
        )
        self._write(shard, key_of(QueryProgress), encode_progress(record), timestamp_ms)

    def _write(self, shard: int, key: bytes, value: bytes | None, timestamp_ms: int = _NOW) -> None:
        with suppress(BufferError, KafkaException):  # the next batch says where the query is then
            self._producer.produce(
                self._topics.progress, key=key, value=value, partition=shard, timestamp=timestamp_ms
            )
        self._producer.poll(0)
