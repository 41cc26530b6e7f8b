"""Batches of a Kafka log, as kafka-python writes them."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.record.default_records import DefaultRecordBatchBuilder

_ATTRIBUTES_AT = 21
Row = tuple[int, int, bytes | None, bytes | None]
"""Offset delta, timestamp, key, value."""


def batch(
    rows: Sequence[Row], *, base: int = 0, transactional: int | None = None, codec: int = 0, control: bool = False
) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=int(transactional is not None),
        producer_id=-1 if transactional is None else transactional,
        producer_epoch=-1 if transactional is None else 3,
        base_sequence=-1,
        batch_size=10**9,
    )
    for offset, timestamp_ms, key, value in rows:
        builder.append(offset, timestamp_ms, key, value, [("h", b"v")])
    data = bytearray(builder.build())
    data[0:8] = base.to_bytes(8)
    data[12:16] = (5).to_bytes(4)  # the leader's epoch
    if control:
        data[_ATTRIBUTES_AT + 1] |= 0x20
    return bytes(data)
