"""The offsets topic of a live cluster, read as it lies: with the markers of transactions, which clients hide.

The reader joins no group, commits nothing and creates nothing. kafka-python fetches, and hands over whole batches: it
has no public way to do that, so its class that unpacks batches is replaced by one that does not. With a version of the
library that has other names inside, the topic counts as one that may not be read (docs/upgrading.md).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Self

import kafka
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from group_coordinator.ground.kafka_topics.clients import login_problem
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC
from group_coordinator.watching.watch.python_client import PropertyError, python_properties
from schemas.kafka.record_batches import RawRecord, Stretch, read_stretch
from schemas.wire import DecodeError

_FETCHER, BYTES_OF_RECORDS = "_fetcher", "_buffer"
"""What the library keeps to itself."""
_POLL_S = 0.2
_SILENCE_S = 30.0
_BOOTSTRAP_MS = 15_000
_FETCH_BYTES, _PARTITION_FETCH_BYTES = 8 * 1024 * 1024, 1024 * 1024
"""They bound one answer. As Python objects small records take six times as much."""
_DECODERS = {1: "gzip_decode", 2: "snappy_decode", 3: "lz4_decode", 4: "zstd_decode"}


class OffsetsTopicError(RuntimeError):
    """The topic cannot be read. The message is a sentence."""


class OffsetsTopicRefusedError(OffsetsTopicError):
    """This client may not read the topic, or does not see it."""


class OffsetsTopicReader:
    """Reads partitions from given offsets on. A context manager; for one thread. Methods raise OffsetsTopicError."""

    def __init__(self, properties: Mapping[str, str], topic: str = OFFSETS_TOPIC) -> None:
        """`properties` are librdkafka's. `topic`: another one that is to be read with its markers."""
        self._topic = topic
        self._servers = properties.get("bootstrap.servers", "")
        self.unread = 0
        """Batches in formats older than Kafka 0.11, which are passed over."""
        self.next_offsets: dict[int, int] = {}
        """Partition -> what comes next, as far as it was fetched."""
        refused = login_problem(properties)
        if refused is not None:
            raise OffsetsTopicError(refused)
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what is wrong is raised, or comes to an end
        with self._explaining(), _guarded():
            client = import_module("kafka.net.compat").KafkaNetClient
            for name in _DECODERS.values():
                getattr(import_module("kafka.codec"), name)
            self._consumer = KafkaConsumer(
                **python_properties(properties),
                group_id=None,
                enable_auto_commit=False,
                kafka_client=partial(_client_that_creates_nothing, client),
                auto_offset_reset="earliest",
                isolation_level="read_uncommitted",
                fetch_max_bytes=_FETCH_BYTES,
                max_partition_fetch_bytes=_PARTITION_FETCH_BYTES,
                max_poll_records=1_000_000,
                metrics_enabled=False,
                bootstrap_timeout_ms=_BOOTSTRAP_MS,
            )
            fetcher = getattr(self._consumer, _FETCHER)
            assert fetcher.PartitionRecords  # there is something to replace
            fetcher.PartitionRecords = self._unpack

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Return each partition's first offset, and the one after its last record."""
        with self._explaining():
            numbers = self._consumer.partitions_for_topic(self._topic)
            if not numbers:
                raise OffsetsTopicRefusedError(
                    f"Kafka at {self._servers} shows no topic {self._topic}: no group has been there yet, or this "
                    f"client may not see it (it needs the right: --operation Read --topic {self._topic})."
                )
            places = [TopicPartition(self._topic, number) for number in sorted(numbers)]
            begins, ends = self._consumer.beginning_offsets(places), self._consumer.end_offsets(places)
        return {place.partition: (begins[place], ends[place]) for place in places}

    def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on."""
        with self._explaining():
            places = {TopicPartition(self._topic, number): offset for number, offset in positions.items()}
            self._consumer.assign(list(places))
            for place, offset in places.items():
                self._consumer.seek(place, offset)

    def poll(self, timeout_s: float) -> dict[int, list[RawRecord]]:
        """Return what has come in each partition, in order. While Kafka is away nothing comes; that is no error."""
        with self._explaining():
            fetched = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        return {place.partition: records for place, records in fetched.items()}

    def end_of(self, partition: int) -> int | None:
        """Return the offset behind the partition's last record, as the last answer had it; None: none has yet."""
        return self._consumer.highwater(TopicPartition(self._topic, partition))  # type: ignore[no-any-return]

    def read(self, bounds: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, RawRecord]]:
        """Yield each record in these bounds, with its partition, by partition and offset."""
        for number, (begin, end) in sorted(bounds.items()):
            self.assign({number: begin})
            self.next_offsets[number] = begin
            heard_s = time.monotonic()
            while self.next_offsets[number] < end:
                records = self.poll(_POLL_S).get(number, [])
                if records:
                    heard_s = time.monotonic()
                elif time.monotonic() - heard_s > _SILENCE_S:
                    where = f"{self._topic}-{number} at {self.next_offsets[number]:,} of {end:,}"
                    raise OffsetsTopicError(f"Kafka at {self._servers} is silent: {where}.")
                yield from ((number, record) for record in records if record.offset < end)

    def _unpack(self, fetch_offset: int, place: TopicPartition, records: Any, **_: Any) -> WholeBatches:
        with _guarded():
            data = bytes(getattr(records, BYTES_OF_RECORDS))
        try:
            stretch = read_stretch(data, fetch_offset, uncompress)
        except DecodeError as problem:
            where = f"{self._topic}-{place.partition} from offset {fetch_offset}"
            raise OffsetsTopicError(f"{where} cannot be read: {problem}.") from problem
        self.unread += stretch.unread
        self.next_offsets[place.partition] = stretch.next_offset
        return WholeBatches(fetch_offset, place, stretch)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except PropertyError as problem:
            raise OffsetsTopicError(str(problem)) from problem
        except TopicAuthorizationFailedError as problem:
            raise OffsetsTopicRefusedError(
                f"Kafka at {self._servers} does not let this client read {self._topic}: it needs the right "
                f"(--operation Read --topic {self._topic})."
            ) from problem
        except KafkaError as problem:
            text = str(problem) or type(problem).__name__
            raise OffsetsTopicError(f"Kafka at {self._servers}: {text.rstrip('.')}.") from problem


class WholeBatches:
    """In place of `Fetcher.PartitionRecords`: what was fetched of one partition, taken at once."""

    def __init__(self, fetch_offset: int, place: TopicPartition, stretch: Stretch) -> None:
        self.topic_partition = place
        self.leader_epoch = -1
        self.next_fetch_offset = fetch_offset
        """Where these records begin, and once they are taken, where the next ones do."""
        self._next_offset = stretch.next_offset
        self._records: list[RawRecord] | None = stretch.records  # None: taken

    def __bool__(self) -> bool:
        return self._records is not None

    def take(self, _: int | None = None) -> list[RawRecord]:
        records, self._records = self._records or [], None
        self.next_fetch_offset = self._next_offset
        return records

    def drain(self) -> None:
        self._records = None


@contextmanager
def _guarded() -> Iterator[None]:
    """Names that kafka-python does not promise are used in here. Raises OffsetsTopicRefusedError without them."""
    try:
        yield
    except (ImportError, AttributeError) as problem:
        raise OffsetsTopicRefusedError(
            f"kafka-python {kafka.__version__} is other inside than those that can read {OFFSETS_TOPIC} ({problem})."
        ) from problem


def _client_that_creates_nothing(kind: Callable[..., Any], **settings: Any) -> Any:
    """Brokers make topics that are named, where a client allows it. The library does not pass on its setting for that.
    """
    client = kind(**settings)
    client.cluster.config["allow_auto_create_topics"] = False
    return client


def uncompress(codec: int, data: bytes) -> bytes:
    """Uncompress a batch. Raises OffsetsTopicError if the codec's library is not installed."""
    try:
        return bytes(getattr(import_module("kafka.codec"), _DECODERS[codec])(data))
    except (KeyError, NotImplementedError, AssertionError, TypeError) as problem:
        raise OffsetsTopicError(
            f"{OFFSETS_TOPIC} is compressed (codec {codec}), and this machine cannot unpack it: install python-snappy, "
            "lz4 or zstandard."
        ) from problem
