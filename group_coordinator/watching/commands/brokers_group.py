"""One group that a cluster's own brokers coordinate, from the one partition of the offsets topic that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo

from msgspec import Struct

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.progress import count_progress
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.described import topic_names
from group_coordinator.ground.kafka_topics.errors import TIMEOUT_S, explaining
from group_coordinator.watching.broker_logs.broker_patterns import NO_GROUP
from group_coordinator.watching.commands.observed_source import read_logs
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.doubts import doubts, unnamed_topics
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC, FetchedRecords
from schemas.history import History
from schemas.java_hash import group_partition

_PROGRESS_EVERY = 1_000


class GroupTold(Struct, frozen=True, kw_only=True):
    """What a source has of one group."""

    history: Sequence[History]
    doubts: Sequence[str]
    """Why it may not be what happened, or not all of it."""
    other_groups: Sequence[str]
    """Further groups that it has."""
    source: str
    """What was read, in words."""


def read_brokers_group(
    properties: Mapping[str, str], group_id: str, broker_logs: Sequence[str], time_zone: tzinfo
) -> GroupTold:
    """Read the partition of the offsets topic that holds a group, and what brokers' logs tell of its groups.

    `properties` are librdkafka's. `broker_logs` are names or patterns of files; `time_zone` is that of their times that
    name none. Raises CommandError where a file or the topic cannot be read.
    """
    partition = _Partition()
    partition.read(properties, group_id)
    admin = new_admin_client(properties)
    with explaining(properties):
        metadata = admin.list_topics(timeout=TIMEOUT_S)
    log = read_logs(broker_logs, time_zone, metadata.cluster_id)
    observer = partition.observer
    observer.add_lines(line for line in log.lines if partition.has(line.event.group_id))
    observer.name_topics(log.topic_names)
    if observer.unnamed_topics:
        observer.name_topics(topic_names(admin, metadata))
    group_ids = observer.group_ids()
    return GroupTold(
        history=observer.kept_of(group_id).follow()[1] if group_id in group_ids else (),
        doubts=(
            *partition.fetched.doubts(),
            *log.doubts(),
            *doubts(observer.skews, observer.open_transactions(), log.left_out, time_zone),
            *unnamed_topics(observer.unnamed_topics),
        ),
        other_groups=[each for each in group_ids if each != group_id],
        source=f"{OFFSETS_TOPIC}-{partition.number} ({words.count(partition.records, 'record')})",
    )


class _Partition:
    """What was read of the partition that holds a group."""

    def __init__(self) -> None:
        self.observer, self.fetched = Observer(), FetchedRecords()
        self.number = self.records = 0
        self._count = 1
        """How many partitions the topic has."""

    def has(self, group_id: str) -> bool:
        """Return whether this partition holds a group (`GroupCoordinatorService.partitionFor`)."""
        return group_id == NO_GROUP or group_partition(group_id, self._count) == self.number

    def read(self, properties: Mapping[str, str], group_id: str) -> None:
        """Read it, from its begin to its present end. Raises CommandError."""
        from group_coordinator.watching.watch.offsets_topic import (  # it takes its time
            OffsetsTopicError,
            OffsetsTopicReader,
        )

        try:
            with OffsetsTopicReader(properties) as reader, count_progress("reading the offsets topic") as advance:
                bounds = reader.bounds()
                self._count = len(bounds)
                self.number = group_partition(group_id, self._count)
                begin, end = bounds[self.number]
                for _, record in reader.read({self.number: (begin, end)}):
                    self.observer.add_records(self.fetched.entries(self.number, (record,)))
                    self.records += 1
                    if self.records % _PROGRESS_EVERY == 0:
                        advance(record.offset - begin, end - begin)
        except (OffsetsTopicError, OSError) as problem:
            raise CommandError(str(problem)) from problem
