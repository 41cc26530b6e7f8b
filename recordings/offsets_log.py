"""Records of a real `__consumer_offsets`: one JSON object a line, key and value in base64; and comparing ours with them.

    {"partition":7,"offset":0,"timestamp_ms":1795265220047,"key":"AAIABWNyYXNo","value":null}
"""

from __future__ import annotations

import gzip
import re
from base64 import b64decode
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from schemas.records import (
    GroupMetadataValue,
    OffsetCommitValue,
    UnknownKey,
    Value,
    decode_record,
    encode_group_metadata_value,
    encode_offset_commit_value,
)

_GZIP_MAGIC = b"\x1f\x8b"
_VALUE_VERSION_BYTES = 2


class OffsetsLogError(ValueError):
    """The file is not what it should be."""


class LoggedRecord(Struct, frozen=True, kw_only=True):
    """One record of the broker's log, about a group."""

    partition: int
    offset: int
    timestamp_ms: int
    group_id: str
    key: bytes
    value: bytes | None


class _Line(Struct):
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None


_decode = msgspec.json.Decoder(_Line).decode


def read_text_or_gzip(path: Path) -> bytes:
    """All of a file, unpacked if it is packed. Raises `OSError`."""
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data


def read_offsets_log(path: Path) -> dict[str, list[LoggedRecord]]:
    """The records by group, in their order. Records of other kinds are left out. Raises `OffsetsLogError`."""
    by_group: dict[str, list[LoggedRecord]] = {}
    for number, line in enumerate(read_text_or_gzip(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = read_offsets_line(line)
        except OffsetsLogError as error:
            raise OffsetsLogError(f"{path.name}, line {number}: {error}") from None
        if record is not None:
            by_group.setdefault(record.group_id, []).append(record)
    return by_group


def read_offsets_line(line: bytes) -> LoggedRecord | None:
    """One line; None: a record that is not about a group. Raises `OffsetsLogError`."""
    try:
        read = _decode(line)
        key = b64decode(read.key or "", validate=True)
        value = None if read.value is None else b64decode(read.value, validate=True)
        decoded_key, _ = decode_record(key, value)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:  # text that is no UTF-8, base64 or record
        raise OffsetsLogError(str(error)) from None
    if isinstance(decoded_key, UnknownKey):
        return None
    return LoggedRecord(
        partition=read.partition,
        offset=read.offset,
        timestamp_ms=read.timestamp_ms,
        group_id=decoded_key.group_id,
        key=key,
        value=value,
    )


def value_version(value: bytes) -> int:
    return int.from_bytes(value[:_VALUE_VERSION_BYTES])


def topic_ids_of(records: list[LoggedRecord]) -> dict[str, str]:
    """Topic name -> id, as the values of version 4 tell."""
    found: dict[str, str] = {}
    for record in records:
        key, value = decode_record(record.key, record.value)
        if isinstance(value, OffsetCommitValue) and value.topic_id is not None:
            found[key.topic] = value.topic_id  # type: ignore[union-attr]
    return found


def same_record(ours_key: bytes, ours_value: bytes | None, theirs: LoggedRecord, tolerance_ms: int) -> bool:
    """Whether two records are equal to the byte, but for times up to `tolerance_ms` apart and the order of members."""
    if ours_key != theirs.key or (ours_value is None) != (theirs.value is None):
        return False
    if ours_value is None or theirs.value is None:
        return True
    if value_version(ours_value) != value_version(theirs.value):
        return False
    ours, recorded = decode_record(ours_key, ours_value)[1], decode_record(theirs.key, theirs.value)[1]
    aligned = _aligned(ours, recorded, tolerance_ms)
    if aligned is None or recorded is None:
        return False
    version = value_version(theirs.value)
    # The recorded value must also be exactly what our encoder makes of it.
    return _encode(recorded, version) == theirs.value and _encode(aligned, version) == _encode(_sorted(recorded), version)


def _aligned(ours: Value | None, recorded: Value | None, tolerance_ms: int) -> Value | None:
    """Ours with the recorded times, if they are near enough; None if they are not."""
    if isinstance(ours, OffsetCommitValue) and isinstance(recorded, OffsetCommitValue):
        if not _near(ours.commit_timestamp_ms, recorded.commit_timestamp_ms, tolerance_ms):
            return None
        if not _near(ours.expire_timestamp_ms, recorded.expire_timestamp_ms, tolerance_ms):
            return None
        return replace(
            ours,
            commit_timestamp_ms=recorded.commit_timestamp_ms,
            expire_timestamp_ms=recorded.expire_timestamp_ms,
        )
    if isinstance(ours, GroupMetadataValue) and isinstance(recorded, GroupMetadataValue):
        if not _near(ours.current_state_timestamp_ms, recorded.current_state_timestamp_ms, tolerance_ms):
            return None
        return replace(_sorted(ours), current_state_timestamp_ms=recorded.current_state_timestamp_ms)
    return None


def _near(ours_ms: int, recorded_ms: int, tolerance_ms: int) -> bool:
    return abs(ours_ms - recorded_ms) <= tolerance_ms


def _sorted(value: Value) -> Value:
    if isinstance(value, GroupMetadataValue):
        return replace(value, members=tuple(sorted(value.members, key=lambda member: member.member_id)))
    return value


def _encode(value: Value, version: int) -> bytes:
    if isinstance(value, OffsetCommitValue):
        return encode_offset_commit_value(value, version)
    return encode_group_metadata_value(value, version)


def describe_record(key: bytes, value: bytes | None) -> str:
    """A record for people, with the times in it."""
    decoded_key, decoded_value = decode_record(key, value)
    shown = "tombstone" if value is None else f"v{value_version(value)} {decoded_value}"
    return re.sub(r"\b(OffsetCommit|GroupMetadata)(Key|Value)", r"\1", f"{decoded_key} = {shown}")
