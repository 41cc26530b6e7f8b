"""Committed offsets as of a moment, and as CSV of the form that kafka-consumer-groups takes. Pure.

    topic,partition,offset             of one group
    group,topic,partition,offset       of several

`kafka-consumer-groups --reset-offsets --from-file` reads both (KIP-222), without a header line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from schemas.history import History, OffsetsCommitted, OffsetsDeleted, OffsetsExpired
from schemas.records import OffsetCommitKey, OffsetCommitValue, decode_record

Partition = tuple[str, int]
"""(topic, partition)."""
CommittedOffsets = dict[str, dict[Partition, int]]
"""Group id -> (topic, partition) -> committed offset."""
OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1
_DIGITS_MAX = 30


class CsvError(ValueError):
    """A file that is not of the form above. The message names the line."""


def at_end(records: Iterable[tuple[bytes, bytes | None]]) -> CommittedOffsets:
    """Return the offsets committed at the end of an offsets log: the last of each key counts, and a tombstone ends it.
    Raises `DecodeError` for a damaged record."""
    offsets: CommittedOffsets = {}
    for key_bytes, value_bytes in records:
        key, value = decode_record(key_bytes, value_bytes)
        if isinstance(key, OffsetCommitKey):
            of_group = offsets.setdefault(key.group_id, {})
            if isinstance(value, OffsetCommitValue):
                of_group[key.topic, key.partition] = value.offset
            else:
                of_group.pop((key.topic, key.partition), None)
    return offsets


class OffsetsAsOf:
    """Follows history and tells what was committed at a moment, by the append times of the commits.

    A history that begins in the midst of things will do, if it begins before the moment: the first change after the
    moment tells what there was before it, and what has not changed since is what is committed now.
    """

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms
        self._seen: dict[str, tuple[int, int]] = {}
        self._offsets: dict[tuple[str, Partition], int | None] = {}
        self._told_later: set[tuple[str, Partition]] = set()

    def take(self, record: History) -> None:
        """Take in the next record of a group; those that a coordinator wrote again after a crash are passed over."""
        name = (record.epoch, record.seq)
        if name <= self._seen.get(record.group_id, (-1, -1)):
            return
        self._seen[record.group_id] = name
        if not isinstance(record, OffsetsCommitted | OffsetsExpired | OffsetsDeleted):
            return
        for change in record.offsets:
            place = record.group_id, (change.topic, change.partition)
            if record.timestamp_ms <= self._at_ms and place not in self._told_later:
                self._offsets[place] = change.offset
            elif place not in self._offsets:
                self._offsets[place] = change.previous_offset
                self._told_later.add(place)

    def offsets(self, now: CommittedOffsets) -> CommittedOffsets:
        """Return the offsets committed at the moment; `now` returns those at the end of the history."""
        offsets: CommittedOffsets = {}
        unchanged = {
            (group_id, partition): offset
            for group_id, partitions in now.items()
            for partition, offset in partitions.items()
            if (group_id, partition) not in self._offsets
        }
        for (group_id, partition), offset in sorted({**self._offsets, **unchanged}.items(), key=lambda entry: entry[0]):
            if offset is not None:
                offsets.setdefault(group_id, {})[partition] = offset
        return offsets


def to_csv(offsets: CommittedOffsets, *, with_group: bool) -> str:
    """Return all offsets, a line each, in order. Without the column for the group there may be one group only."""
    assert with_group or len(offsets) == 1
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group_id in sorted(offsets):
        for (topic, partition), offset in sorted(offsets[group_id].items()):
            writer.writerow(([group_id] if with_group else []) + [topic, partition, offset])
    return text.getvalue()


def from_csv(text: str, groups: Iterable[str] = ()) -> CommittedOffsets:
    """Read either form. `groups`: the one that lines of three columns are of; of lines of four, those to take.

    Raises CsvError.
    """
    group_ids = tuple(groups)
    offsets: CommittedOffsets = {}
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if row:
                _add(offsets, row, group_ids, reader.line_num)
    except csv.Error as problem:
        raise CsvError(f"line {reader.line_num}: {problem}") from None
    if not offsets:
        raise CsvError("there are no offsets in it" + (f" of {', '.join(group_ids)}" if group_ids else ""))
    return offsets


def _add(offsets: CommittedOffsets, row: list[str], group_ids: tuple[str, ...], line: int) -> None:
    cells = [cell.strip() for cell in row]
    if len(cells) == 3:
        if len(group_ids) != 1:
            raise CsvError(f"line {line} has three columns: name the one group that it is of by --group")
        group_id, (topic, *numbers) = group_ids[0], cells
    elif len(cells) == 4:
        group_id, topic, *numbers = cells
        if group_ids and group_id not in group_ids:
            return
    else:
        raise CsvError(
            f"line {line} has {len(cells)} columns, but must be topic,partition,offset or group,topic,partition,offset"
        )
    partition = _number(numbers[0], "partition", PARTITION_MAX, line)
    offset = _number(numbers[1], "offset", OFFSET_MAX, line)
    partitions = offsets.setdefault(group_id, {})
    if (topic, partition) in partitions:
        raise CsvError(f"line {line} names {topic}-{partition} of group {group_id} a second time")
    partitions[topic, partition] = offset


def _number(text: str, column: str, largest: int, line: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX or int(text) > largest:
        raise CsvError(f"line {line}: the {column} {text[:_DIGITS_MAX]!r} is no number from 0 to {largest}")
    return int(text)


def of_groups(offsets: Mapping[str, Mapping[Partition, int]], groups: Iterable[str]) -> CommittedOffsets:
    """Return the offsets of these groups; of all groups when none is named."""
    group_ids = set(groups)
    return {
        group_id: dict(offset)
        for group_id, offset in offsets.items()
        if offset and (not group_ids or group_id in group_ids)
    }
