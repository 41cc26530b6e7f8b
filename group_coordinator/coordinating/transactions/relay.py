"""The relay: it reads a partition of the log of transactions and writes events of groups, at least once and in order.

A group takes each place of the log once (`coordinator_state.offsets`), so what is written twice is ignored. Two relays
of a partition do no harm for the same reason; the one that began first ends when it sees the other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from msgspec import UNSET, Struct

from group_coordinator.coordinating.transactions.fold import GroupEventBytes, TransactionFold
from group_coordinator.coordinating.transactions.log_topic import TransactionLogError
from group_coordinator.ground.kafka_topics.clients import new_admin_client, new_consumer, new_producer
from group_coordinator.ground.kafka_topics.described import topic_ids_of
from group_coordinator.ground.monitoring.line_limit import LineLimit
from group_coordinator.watching.watch.offsets_topic import OffsetsTopicError, OffsetsTopicReader
from schemas.kafka.record_batches import RawRecord

_POLL_S = 0.2
_TIMEOUT_S = 10.0
_SAVE_INTERVAL_S = 1.0
_COMMIT_INTERVAL_S = 3_600.0
"""A position that does not move is committed again, lest it expire."""
_PAUSE_S = 1.0
"""Before a failed relay begins again where its position is."""
_EVENT_BYTES_MAX = 1_100_000
_WRITTEN_AT_ONCE = 5_000
"""So many events must be with Kafka in time. What one poll leads to may be very many more, if much ends at once."""
_NOT_TAKEN = f"Kafka has not taken all events within {_TIMEOUT_S:.0f} s"
_OLD_S = 60.0
"""A transaction that is open for longer is told."""
_log = logging.getLogger(__name__)
_refusals = LineLimit(_log, logging.WARNING, "records of the log of transactions")


class RelaySettings(Struct, frozen=True, kw_only=True):
    """Where a relay reads and writes."""

    log_properties: Mapping[str, str]
    """librdkafka's, of the producers' cluster."""
    log_topic: str
    events_properties: Mapping[str, str]
    """librdkafka's, of the cluster with the coordinator's topics."""
    events_topic: str
    shards: int
    open_bytes_max: int

    @property
    def group_id(self) -> str:
        """The group under whose name positions are kept, on the producers' cluster."""
        return f"{self.log_topic}-relay"


class Position(Struct, frozen=True):
    """Where a relay is."""

    resume_offset: int
    """The first commit of the earliest transaction that is still open: reading begins here."""
    next_offset: int
    """What lies before it was written to the events."""
    owner: str = ""
    """The relay that says so."""
    topic_id: str = ""
    """Of the log, as far as it is known."""

    @property
    def metadata(self) -> str:
        """What is kept beside the offset."""
        return f"{self.next_offset} {self.owner} {self.topic_id}"

    @classmethod
    def of(cls, committed: TopicPartition) -> Position | None:
        """Return the position of a committed offset; None if there is none."""
        if committed.offset < 0:
            return None
        next_offset, owner, topic_id, *_ = (committed.metadata or "").split(" ") + [""] * 3
        next_number = int(next_offset) if next_offset.isdecimal() else committed.offset
        return cls(committed.offset, next_number, owner, topic_id)


class RelayTakenOverError(TransactionLogError):
    """Another relay has begun for the same shard."""


class ShardRelay:
    """The relay of one shard, in a thread of its own. When Kafka fails it begins again at its position."""

    def __init__(self, settings: RelaySettings, shard: int) -> None:
        self._settings, self.shard = settings, shard
        self._owner = str(uuid4())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"relay-{shard}", daemon=True)
        self._fold: TransactionFold | None = None
        self._saved: Position | None = None
        self._topic_id = ""
        self.next_offset: int | None = None
        """Where it reads on; None: it has not begun."""
        self.end_offset: int | None = None
        self.refusals = 0
        """Records that did not become events, since the start."""
        self.problem: str | None = "it has not begun yet"
        """Why it does not relay at present."""
        self._saved_s = self._committed_s = 0.0
        self.has_ended = False
        """Whether another relay has taken its place."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, with the position saved."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_TIMEOUT_S)

    @property
    def lag(self) -> int | None:
        """The number of records, ends of transactions included, that it has not read yet; None: not known."""
        if self.next_offset is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.next_offset)

    @property
    def open_transactions(self) -> int:
        """The number of transactions that wait for their end."""
        return 0 if self._fold is None else len(self._fold.open)

    def oldest_open_s(self, now_s: float) -> float:
        """Return for how long the oldest open transaction has been open; 0 if there is none."""
        oldest = None if self._fold is None else self._fold.oldest()
        return 0.0 if oldest is None else max(0.0, now_s - oldest[1].since_ms / 1_000)

    def sentences(self, now_s: float) -> list[str]:
        """Return what is not as it should be."""
        told = [] if self.problem is None else [f"the relay of shard {self.shard} does not relay: {self.problem}"]
        oldest = None if self._fold is None else self._fold.oldest()
        if oldest is not None and self.oldest_open_s(now_s) >= _OLD_S:
            producer_id, transaction = oldest
            groups = list(transaction.groups)
            more = f" and {len(groups) - 3} more groups" if len(groups) > 3 else ""
            since = datetime.fromtimestamp(transaction.since_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            told.append(
                f"offsets of {', '.join(groups[:3])}{more} wait for transaction {transaction.transactional_id} of "
                f"producer {producer_id} since {since}"
            )
        return told

    # --------------------------------------------------------------------------------------------------- its thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._relay()
            except RelayTakenOverError as problem:
                self.problem, self.has_ended = str(problem), True
                _log.error("%s", problem)
                return
            except (TransactionLogError, OffsetsTopicError) as problem:
                self._pause(str(problem))
            except KafkaException as problem:
                self._pause(problem.args[0].str())
            except SystemError as problem:
                # What is fatal to the producer is raised inside a callback of librdkafka: as the cause of this.
                if not isinstance(problem.__cause__, KafkaException):
                    raise
                self._pause(problem.__cause__.args[0].str())

    def _pause(self, problem: str) -> None:
        if problem != self.problem:
            _log.warning("the relay of shard %d begins again: %s", self.shard, problem)
        self.problem = problem
        self._stop.wait(_PAUSE_S)

    def _relay(self) -> None:
        settings = self._settings
        positions = new_consumer(settings.log_properties, {"group.id": settings.group_id, "enable.auto.commit": False})
        try:
            with OffsetsTopicReader(settings.log_properties, settings.log_topic) as reader:
                producer = _producer(settings.events_properties)
                try:
                    fold = self._begin(positions, reader)
                    while not self._stop.is_set():
                        self._step(positions, reader, producer, fold)
                    self._save(positions, fold)
                finally:
                    producer.purge()  # what waits goes again from the position, in order
        finally:
            positions.close()

    def _begin(self, positions: Consumer, reader: OffsetsTopicReader) -> TransactionFold:
        """Read on where the last relay was; the first one begins with the log."""
        begin, end = reader.bounds().get(self.shard, (0, 0))
        self._topic_id = self._present_topic_id()
        found = Position.of(self._committed(positions)) or Position(begin, begin)
        if found.topic_id not in ("", self._topic_id):
            _log.error(
                "the log of transactions was made anew: what was pending in shard %d waits for ends that do not come",
                self.shard,
            )
            found = Position(begin, begin)
        if found.next_offset < begin or found.resume_offset > end:
            _log.error(
                "the log of transactions of shard %d has lost what lies from offset %d to %d: offsets that are pending "
                "from there wait for ends that do not come", self.shard, found.next_offset, begin,
            )  # fmt: skip
            found = Position(begin, begin)
        resume_offset = max(begin, found.resume_offset)
        reader.assign({self.shard: resume_offset})
        fold = TransactionFold(
            self.shard, self._settings.shards, written_to=found.next_offset,
            open_bytes_max=self._settings.open_bytes_max, topic_id=self._topic_id or UNSET,
        )  # fmt: skip
        self._fold, self.next_offset, self.end_offset = fold, resume_offset, end
        written_to = max(resume_offset, found.next_offset)
        self._commit(positions, Position(resume_offset, written_to, self._owner, self._topic_id))
        self._saved_s = time.monotonic()
        self.problem = None
        return fold

    def _present_topic_id(self) -> str:
        """Return the log's id, empty where brokers have none. Raises KafkaException and TransactionLogError."""
        topic = self._settings.log_topic
        try:
            return topic_ids_of(new_admin_client(self._settings.log_properties), [topic]).get(topic) or ""
        except TimeoutError as problem:
            raise TransactionLogError(f"the brokers do not say which topic {topic} is") from problem

    def _step(
        self, positions: Consumer, reader: OffsetsTopicReader, producer: Producer, fold: TransactionFold
    ) -> None:
        records = reader.poll(_POLL_S).get(self.shard, [])
        if records and self.next_offset is not None and records[0].offset < self.next_offset:
            raise TransactionLogError(f"{self._settings.log_topic} was made anew, or has lost records")
        events = [event for record in records for event in self._take(fold, record)]
        if events:
            write_events(producer, self._settings.events_topic, self.shard, events)
        if records:
            self.next_offset = records[-1].offset + 1
        self.end_offset = reader.end_of(self.shard) or self.end_offset
        if time.monotonic() - self._saved_s >= _SAVE_INTERVAL_S:
            self._save(positions, fold)

    def _take(self, fold: TransactionFold, record: RawRecord) -> list[GroupEventBytes]:
        refusals = fold.refusals
        events = fold.take(record)
        if fold.refusals > refusals:
            self.refusals += 1
            _refusals.write("a record does not become an event, and stays where it is: %s", fold.refused)
        return events

    def _save(self, positions: Consumer, fold: TransactionFold) -> None:
        """Save the position if it has moved. Raises RelayTakenOverError."""
        self._saved_s = time.monotonic()
        assert self.next_offset is not None
        assert self._saved is not None
        next_offset = max(self.next_offset, self._saved.next_offset)
        position = Position(fold.resume_offset(self.next_offset), next_offset, self._owner, self._topic_id)
        if position == self._saved and self._saved_s - self._committed_s < _COMMIT_INTERVAL_S:
            return
        found = Position.of(self._committed(positions))
        if found is not None and found.owner != self._owner:
            raise RelayTakenOverError(f"Another relay has begun for shard {self.shard}: this one ends.")
        self._commit(positions, position)

    def _committed(self, positions: Consumer) -> TopicPartition:
        place = TopicPartition(self._settings.log_topic, self.shard)
        (committed,) = positions.committed([place], timeout=_TIMEOUT_S)
        if committed.error is not None:
            raise KafkaException(committed.error)
        return committed

    def _commit(self, positions: Consumer, position: Position) -> None:
        place = TopicPartition(
            self._settings.log_topic, self.shard, position.resume_offset, metadata=position.metadata
        )
        positions.commit(offsets=[place], asynchronous=False)
        self._saved, self._committed_s = position, time.monotonic()


def _producer(properties: Mapping[str, str]) -> Producer:
    return new_producer(
        properties,
        {
            # Together they keep the order: what fails, or is given up, takes with it all that was to come behind it.
            "enable.idempotence": "true",
            "enable.gapless.guarantee": "true",
            "message.timeout.ms": "0",
            "linger.ms": "0",
            "message.max.bytes": str(_EVENT_BYTES_MAX),
        },
    )


def write_events(producer: Producer, topic: str, shard: int, events: list[GroupEventBytes]) -> None:
    """Return when Kafka has them all. Raises KafkaException and TransactionLogError; then it has the first ones, or
    gets them yet, and none behind a gap: a group takes no event that comes behind a later one."""
    for begin in range(0, len(events), _WRITTEN_AT_ONCE):
        _write_at_once(producer, topic, shard, events[begin : begin + _WRITTEN_AT_ONCE])


def _write_at_once(producer: Producer, topic: str, shard: int, events: list[GroupEventBytes]) -> None:
    failed: list[KafkaError] = []
    give_up_s = time.monotonic() + _TIMEOUT_S
    for event in events:
        while not failed:
            try:
                producer.produce(
                    topic, event.value, event.group_id.encode(), shard, on_delivery=partial(_delivered, failed)
                )
                break
            except BufferError:
                if time.monotonic() > give_up_s:
                    raise TransactionLogError(_NOT_TAKEN) from None
                producer.poll(_POLL_S)
            except KafkaException:
                producer.poll(_POLL_S)  # of what was fatal to it this raises the reason
                raise
    left = producer.flush(max(give_up_s - time.monotonic(), 0.0))
    if failed:
        raise KafkaException(failed[0])
    if left:
        raise TransactionLogError(_NOT_TAKEN)


def _delivered(failed: list[KafkaError], error: KafkaError | None, _: Message) -> None:
    if error is not None:
        failed.append(error)
