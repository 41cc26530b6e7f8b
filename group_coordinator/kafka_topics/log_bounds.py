"""The bounds of many partitions' logs are asked for at once."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from group_coordinator.kafka_topics import errors
from group_coordinator.kafka_topics.bounds import Bounds, Partition


def log_bounds(admin: AdminClient, partitions: Collection[Partition]) -> dict[Partition, Bounds]:
    """Return the bounds of each partition; partitions that do not exist, or for which no answer came, are left out."""
    wanted = [TopicPartition(*partition) for partition in sorted(partitions)]
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
