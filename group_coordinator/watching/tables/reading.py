"""Raw records of the history topic -> rows, with what cannot be read as rows of their own. Pure; what Spark runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from group_coordinator.watching.history.order import sort_key
from group_coordinator.watching.tables.fold import GroupTables
from group_coordinator.watching.tables.rows import AnyRow, Unreadable
from schemas.history import History, decode_history

REASON_MAX_CHARACTERS = 500


class RawRecord(NamedTuple):
    """A record of the history topic. Where it lies is None for one that comes from a file without places."""

    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    value: bytes | None


def read_group(tables: GroupTables, key: bytes | None, records: Iterable[RawRecord]) -> list[AnyRow]:
    """Fold the records of one key, in any order, and take the rows that are new or have changed."""
    readable: list[tuple[History, str]] = []
    rows: list[AnyRow] = []
    for raw in records:
        try:
            readable.append(_read(key, raw.value))
        except ValueError as problem:  # msgspec's and Unicode's errors are ValueErrors
            rows.append(_unreadable(raw, problem))
    for record, text in sorted(readable, key=lambda item: sort_key(item[0])):
        tables.add(record, text)
    return rows + tables.take()


def _read(key: bytes | None, value: bytes | None) -> tuple[History, str]:
    if value is None:
        raise ValueError("it has no value")
    record, text = decode_history(value), value.decode()
    if record.group_id.encode() != key:
        raise ValueError("its key is not its group id")
    return record, text


def _unreadable(raw: RawRecord, problem: Exception) -> Unreadable:
    return Unreadable(
        history_partition=raw.partition,
        history_offset=raw.offset,
        timestamp_ms=raw.timestamp_ms or 0,
        reason=str(problem)[:REASON_MAX_CHARACTERS],
        value=None if raw.value is None else raw.value.decode(errors="replace"),
    )


def row_json(row: AnyRow) -> str:
    """Return a row as JSON that Spark reads."""
    return msgspec.json.encode(row).decode()
