"""The targets of a consumer group's members that somebody has decided, as the records of one request tell them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from schemas.kafka.records import Record, decode_record
from schemas.wire import INT16
from simulation.model_consumer_records import Target

TARGET_EPOCH_TYPE, TARGET_TYPE = 6, 7


def decided_targets(records: Iterable[tuple[bytes, bytes | None]]) -> dict[str, Target]:
    """Return the last target of each member that an assignor has decided in these records. The epoch of the targets
    comes right behind them; the copy that a member gets of the one whose place it takes has none."""
    decided: dict[str, Target] = {}
    targets: dict[str, Target] = {}
    for key, value in records:
        (record_type,) = INT16.unpack(key[: INT16.size])
        if value is not None and record_type == TARGET_TYPE:
            member_id, target = decode_target(key, value)
            targets[member_id] = target
            continue
        if value is not None and record_type == TARGET_EPOCH_TYPE:
            decided |= targets
        targets = {}
    return decided


def decode_target(key: bytes, value: bytes) -> tuple[str, Target]:
    """Return the member and its target that a record tells."""
    record = decode_record(key, value)
    assert isinstance(record, Record)
    assert record.value is not None
    topics = record.value["topic_partitions"]
    return str(record.key["member_id"]), frozenset(
        (str(UUID(bytes=bytes(topic["topic_id"]))), number) for topic in topics for number in topic["partitions"]
    )
