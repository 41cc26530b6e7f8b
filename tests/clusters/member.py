"""A member of a group: a process that joins, says what it owns, commits, and can be killed or made to stand still."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError

_POLL_S = 0.1
_COMMIT_INTERVAL_S = 2.0
_TIMEOUT_S = 15.0
_PYTHON_COMMIT_TIMEOUT_MS = 3_000
_ABORT_EVERY = 4
Say = Callable[..., None]


class _BesideEager(CooperativeStickyAssignor):  # type: ignore[misc]
    """As Java's: beside an eager assignor its member is eager, too, and owns nothing when it joins."""

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> object:
        self.member_assignment = None
        return super().metadata(topics)


_ASSIGNORS = {
    "range": (RangePartitionAssignor,),
    "roundrobin": (RoundRobinPartitionAssignor,),
    "cooperative-sticky": (CooperativeStickyAssignor,),
    "cooperative-sticky,range": (_BesideEager, RangePartitionAssignor),
}
"""Of kafka-python, by what the property says."""


class Settings(NamedTuple):
    """What a member is told at its start."""

    bootstrap_servers: str
    client_id: str
    group: str
    topics: tuple[str, ...]
    library: str
    props: dict[str, Any]
    """By the names that Kafka gives them."""
    transactional_id: str | None = None


class Client(Protocol):
    """What both libraries do."""

    def subscribe(self, topics: Sequence[str]) -> None: ...
    def poll(self) -> None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


def live(settings: Settings, pipe: Connection) -> None:
    """Be a member until told to stop; without a driver, end at once. What is said goes through the pipe."""

    def say(event: str, **facts: object) -> None:
        said = {"at_ms": time.time_ns() // 1_000_000, "action": "member", "member": settings.client_id, "event": event}
        pipe.send_bytes(json.dumps(said | facts).encode())

    try:
        client: Client = (_Librdkafka if settings.library == "librdkafka" else _KafkaPython)(settings, say)
        client.subscribe(settings.topics)
        say("running")
        _work(client, pipe, say)
        client.close()
        say("closed")
    except (EOFError, OSError):
        pass  # the driver has gone
    except (KafkaException, KafkaError) as problem:
        say("died", error=str(problem))


def _work(client: Client, pipe: Connection, say: Say) -> None:
    commit_due = time.monotonic() + _COMMIT_INTERVAL_S
    while True:
        while pipe.poll():
            command, *arguments = json.loads(pipe.recv_bytes())
            if command == "stop":
                return
            if command == "hang":
                time.sleep(*arguments)
            elif command == "subscribe":
                client.subscribe(*arguments)
        client.poll()
        if time.monotonic() >= commit_due:
            commit_due = time.monotonic() + _COMMIT_INTERVAL_S
            try:
                client.commit()
            except (KafkaException, KafkaError) as problem:
                say("error", error=str(problem))


class _Librdkafka:
    def __init__(self, settings: Settings, say: Say) -> None:
        self._say, self._owned, self._read = say, set[str](), dict[tuple[str, int], int]()
        shared = {"bootstrap.servers": settings.bootstrap_servers, "client.id": settings.client_id, "log_level": 0}
        own = {"group.id": settings.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._consumer = Consumer({**shared, **own, "topic.metadata.refresh.interval.ms": 5_000, **settings.props})
        self._producer: Producer | None = None
        self._transactions = 0
        if settings.transactional_id is not None:
            transactional = {"transactional.id": settings.transactional_id, "transaction.timeout.ms": 10_000}
            self._producer = Producer({**shared, **transactional})
            self._producer.init_transactions(_TIMEOUT_S)
            say("transactions_ready", transactional_id=settings.transactional_id)

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(
            list(topics), on_assign=self._assigned, on_revoke=self._left("revoked"), on_lost=self._left("lost")
        )

    def poll(self) -> None:
        message = self._consumer.poll(_POLL_S)
        if message is None:
            return
        error, topic, partition, offset = message.error(), message.topic(), message.partition(), message.offset()
        if error is None and topic is not None and partition is not None and offset is not None:
            self._read[topic, partition] = offset + 1
        elif error is not None:
            self._say("error", error=error.str(), fatal=error.fatal())
            if error.fatal():
                raise KafkaException(error)

    def commit(self) -> None:
        positions = [TopicPartition(*place, offset) for place, offset in sorted(self._read.items())]
        if not positions:
            return
        offsets = {_name(place): place.offset for place in positions}
        self._read.clear()
        if self._producer is None:
            self._consumer.commit(offsets=positions, asynchronous=False)
            self._say("committed", offsets=offsets)
            return
        self._producer.begin_transaction()
        self._producer.produce("out", b"x")
        self._producer.send_offsets_to_transaction(positions, self._consumer.consumer_group_metadata(), _TIMEOUT_S)
        self._transactions += 1
        if self._transactions % _ABORT_EVERY:
            self._producer.commit_transaction(_TIMEOUT_S)
            self._say("transaction_committed", offsets=offsets)
        else:
            self._producer.abort_transaction(_TIMEOUT_S)
            self._say("transaction_aborted", offsets=offsets)

    def close(self) -> None:
        self._consumer.close()

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._changed("assigned", consumer, self._owned | set(map(_name, places)), places)

    def _left(self, event: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        def left(consumer: Consumer, places: list[TopicPartition]) -> None:
            gone = set(map(_name, places))
            self._read = {place: offset for place, offset in self._read.items() if _joined(*place) not in gone}
            self._changed(event, consumer, self._owned - gone, places)

        return left

    def _changed(self, event: str, consumer: Consumer, owned: set[str], places: list[TopicPartition]) -> None:
        self._owned = owned
        partitions = sorted(map(_name, places))
        self._say(event, member_id=consumer.memberid(), owned=sorted(owned), partitions=partitions)


class _KafkaPython(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, settings: Settings, say: Say) -> None:
        self._say, self._owned, self._dirty = say, set[str](), False
        props = {name.replace(".", "_"): value for name, value in settings.props.items()}
        assignors = _ASSIGNORS[props.pop("partition_assignment_strategy")]
        self._consumer = KafkaConsumer(
            bootstrap_servers=settings.bootstrap_servers,
            client_id=settings.client_id,
            group_id=settings.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=5_000,
            partition_assignment_strategy=assignors,
            **props,
        )

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(topics=list(topics), listener=self)

    def poll(self) -> None:
        self._dirty |= bool(self._consumer.poll(timeout_ms=int(_POLL_S * 1000)))

    def commit(self) -> None:
        if self._dirty:
            self._dirty = False
            self._consumer.commit(timeout_ms=_PYTHON_COMMIT_TIMEOUT_MS)

    def close(self) -> None:
        self._consumer.close(autocommit=False)

    def on_partitions_assigned(self, assigned: Iterable[PythonPartition]) -> None:
        self._changed("assigned", self._owned | set(map(_name, assigned)), assigned)

    def on_partitions_revoked(self, revoked: Iterable[PythonPartition]) -> None:
        self._changed("revoked", self._owned - set(map(_name, revoked)), revoked)

    def on_partitions_lost(self, lost: Iterable[PythonPartition]) -> None:
        self._changed("lost", self._owned - set(map(_name, lost)), lost)

    def _changed(self, event: str, owned: set[str], places: Iterable[PythonPartition]) -> None:
        self._owned = owned
        member_id = self._consumer.group_metadata().member_id
        self._say(event, member_id=member_id, owned=sorted(owned), partitions=sorted(map(_name, places)))


def _name(place: TopicPartition | PythonPartition) -> str:
    return _joined(place.topic, place.partition)


def _joined(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"
