"""Groups that a cluster's own brokers coordinate, from the offsets topic: one from its partition alone, or all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from itertools import groupby
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.progress import count_progress
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.described import broker_values, topic_names
from group_coordinator.ground.kafka_topics.errors import TIMEOUT_S, explaining
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.broker_logs.broker_patterns import NO_GROUP
from group_coordinator.watching.commands.observed_source import read_logs
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.doubts import doubts, unnamed_topics
from group_coordinator.watching.observed.evidence import BOUNDED
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC, FetchedRecords
from schemas.history import History
from schemas.java_hash import group_partition
from schemas.kafka.record_batches import RawRecord

_PROGRESS_EVERY = 1_000
_MEMORY_BYTES = 800 * 1024 * 1024
"""So much the groups may take there."""


class BrokersGroups(Struct, frozen=True, kw_only=True):
    """What a cluster's offsets topic and its brokers tell of groups."""

    observer: Observer
    doubts: Sequence[str]
    """Why it may not be what happened, or not all of it."""
    source: str
    """What was read, in words."""
    settings: Mapping[str, str]
    """What one broker says of groups, by Kafka's names; none where it does not tell, or one partition was read."""
    logged_settings: Mapping[str, str]
    """The same of the brokers' logs."""

    def history(self, wanted: str | None = None) -> Iterator[History]:
        """Yield the history of a group, or of each in turn."""
        for group_id in self.observer.group_ids():
            if wanted in (None, group_id):
                yield from self.observer.kept_of(group_id).follow()[1]


def read_brokers_groups(
    properties: Mapping[str, str], broker_logs: Sequence[str], time_zone: tzinfo, group_id: str | None = None
) -> BrokersGroups:
    """Read the partition of the offsets topic that holds a group, or the whole topic, and brokers' logs.

    Every command that looks once reads so. `properties` are librdkafka's. `broker_logs` are names or patterns of files;
    `time_zone` is that of their times that name none. What finds no room in memory lies on disk. Raises CommandError
    where a file or the topic cannot be read.
    """
    topic = _OffsetsTopic()
    topic.read(properties, group_id)
    log = topic.add_logs(properties, broker_logs, time_zone)
    partition = "" if group_id is None else f"-{topic.numbers[0]}"
    return BrokersGroups(
        observer=topic.observer,
        doubts=topic.doubts(log, time_zone),
        source=f"{OFFSETS_TOPIC}{partition} ({words.count(topic.records, 'record')})",
        settings=topic.settings,
        logged_settings=log.settings,
    )


class _OffsetsTopic:
    """What was read of the topic, or of the partition that holds a group."""

    def __init__(self) -> None:
        self.observer = Observer(bounds=replace(BOUNDED, memory_bytes=_MEMORY_BYTES))
        self.fetched = FetchedRecords()
        self.numbers: Sequence[int] = ()
        """The partitions."""
        self.records = 0
        self.settings: Mapping[str, str] = {}
        self._count = 1
        """How many partitions the topic has."""

    def add_logs(self, properties: Mapping[str, str], broker_logs: Sequence[str], time_zone: tzinfo) -> BrokerLog:
        """Take what brokers' logs tell of its groups, and names of topics; ask a broker for its settings."""
        admin = new_admin_client(properties)
        with explaining(properties):
            metadata = admin.list_topics(timeout=TIMEOUT_S)
        log = read_logs(broker_logs, time_zone, metadata.cluster_id)
        self.observer.add_lines(line for line in log.lines if self._has(line.event.group_id))
        self.observer.name_topics(log.topic_names)
        if self.observer.unnamed_topics:
            self.observer.name_topics(topic_names(admin, metadata))
        if len(self.numbers) == self._count:
            self.settings = broker_values(admin, metadata)
        return log

    def doubts(self, log: BrokerLog, time_zone: tzinfo) -> tuple[str, ...]:
        """Return why this may not be what happened, or not all of it."""
        observer = self.observer
        return (
            *self.fetched.doubts(),
            *log.doubts(),
            *doubts(observer.skews, observer.open_transactions(), log.left_out, time_zone),
            *unnamed_topics(observer.unnamed_topics),
        )

    def _has(self, group_id: str) -> bool:
        """Return whether these partitions hold a group (`GroupCoordinatorService.partitionFor`)."""
        return group_id == NO_GROUP or group_partition(group_id, self._count) in self.numbers

    def read(self, properties: Mapping[str, str], group_id: str | None) -> None:
        """Read the partition that holds a group, or all, from begin to present end. Raises CommandError."""
        from group_coordinator.watching.watch.offsets_topic import (  # it takes its time
            OffsetsTopicError,
            OffsetsTopicReader,
        )

        try:
            with OffsetsTopicReader(properties) as reader, count_progress("reading the offsets topic") as advance:
                bounds = reader.bounds()
                self._count = len(bounds)
                self.numbers = sorted(bounds) if group_id is None else [group_partition(group_id, self._count)]
                of_these = {number: bounds[number] for number in self.numbers}
                to_read = sum(end - begin for begin, end in of_these.values())
                for number, records in groupby(reader.read(of_these), itemgetter(0)):
                    raw = self._counted(records, lambda done: advance(done, to_read))
                    self.observer.add_records(self.fetched.entries(number, raw))
        except (OffsetsTopicError, OSError) as problem:
            raise CommandError(str(problem)) from problem

    def _counted(
        self, records: Iterable[tuple[int, RawRecord]], advance: Callable[[int], None]
    ) -> Iterator[RawRecord]:
        for _, record in records:
            yield record
            self.records += 1
            if self.records % _PROGRESS_EVERY == 0:
                advance(self.records)
