"""The bounds of many partitions' logs are asked for at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from group_coordinator.ground.kafka_topics import errors
from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition, Reach

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""What Kafka allows (`org.apache.kafka.common.internals.Topic`)."""
_PARTITION_MAX = 2**31 - 1


def log_bounds(admin: AdminClient, partitions: Collection[Partition]) -> dict[Partition, Bounds]:
    """Return the bounds of each partition. Those that do not exist, or of which no answer came, are left out."""
    begins = _listed(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    ends = _listed(admin, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    return {place: Bounds(begins[place].offset, end.offset) for place, end in ends.items() if place in begins}


def log_reaches(admin: AdminClient, partitions: Collection[Partition]) -> dict[Partition, Reach]:
    """Return how far the log of each partition can be read, and how old it is; without those that gave no answer."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    stable = _listed(admin, partitions, latest, IsolationLevel.READ_COMMITTED)
    first = _listed(admin, partitions, OffsetSpec.for_timestamp(0))
    return {
        place: Reach(end.offset, first[place].timestamp if first[place].offset >= 0 else None)
        for place, end in stable.items()
        if place in first
    }


def _listed(
    admin: AdminClient,
    partitions: Iterable[Partition],
    spec: OffsetSpec,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[Partition, ListOffsetsResultInfo]:
    wanted = [TopicPartition(*partition) for partition in sorted(partitions) if can_be(partition)]
    if not wanted:
        return {}
    futures = admin.list_offsets(
        dict.fromkeys(wanted, spec), isolation_level=isolation_level, request_timeout=errors.TIMEOUT_S
    )
    found = {}
    for partition, future in futures.items():
        try:
            found[partition.topic, partition.partition] = future.result(errors.TIMEOUT_S)
        except (KafkaException, TimeoutError):
            continue
    return found


def can_be(partition: Partition) -> bool:
    """Return whether there can be such a partition. A record can name a topic as no broker lets one be called, and
    neither the client nor a broker takes such a name."""
    topic, number = partition
    return _TOPIC.fullmatch(topic) is not None and topic not in (".", "..") and 0 <= number <= _PARTITION_MAX
