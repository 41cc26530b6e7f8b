"""The targets of a consumer group's members that somebody has decided, as the records of one request tell them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from schemas.kafka.records import Record, decode_record
from schemas.wire import INT16
from simulation.model_consumer_records import Target

TARGET_TYPE = 7


def decided_targets(records: Iterable[tuple[bytes, bytes | None]]) -> dict[str, Target]:
    """Return the last target of each member in these records."""
    targets: dict[str, Target] = {}
    for key, value in records:
        if value is not None and key[: INT16.size] == INT16.pack(TARGET_TYPE):
            record = decode_record(key, value)
            assert isinstance(record, Record)
            assert record.value is not None
            targets[record.key["member_id"]] = frozenset(
                (str(UUID(bytes=bytes(topic["topic_id"]))), number)
                for topic in record.value["topic_partitions"]
                for number in topic["partitions"]
            )
    return targets
