"""The bounds of many partitions' logs are asked for at once."""

from __future__ import annotations

import re
from collections.abc import Collection

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from group_coordinator.ground.kafka_topics import errors
from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""What Kafka allows (`org.apache.kafka.common.internals.Topic`)."""
_PARTITION_MAX = 2**31 - 1


def log_bounds(admin: AdminClient, partitions: Collection[Partition]) -> dict[Partition, Bounds]:
    """Return the bounds of each partition. Those that do not exist, or of which no answer came, are left out."""
    wanted = [TopicPartition(*partition) for partition in sorted(partitions) if can_be(partition)]
    if not wanted:
        return {}
    found: list[dict[Partition, int]] = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
        futures = admin.list_offsets(
            dict.fromkeys(wanted, spec),
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=errors.TIMEOUT_S,
        )
        offsets: dict[Partition, int] = {}
        for partition, future in futures.items():
            try:
                offsets[partition.topic, partition.partition] = future.result(errors.TIMEOUT_S).offset
            except (KafkaException, TimeoutError):
                continue
        found.append(offsets)
    begins, ends = found
    return {partition: Bounds(begins[partition], end) for partition, end in ends.items() if partition in begins}


def can_be(partition: Partition) -> bool:
    """Return whether there can be such a partition. A record can name a topic as no broker lets one be called, and
    neither the client nor a broker takes such a name."""
    topic, number = partition
    return _TOPIC.fullmatch(topic) is not None and topic not in (".", "..") and 0 <= number <= _PARTITION_MAX
