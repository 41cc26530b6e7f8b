"""Records in a file: one JSON object on each line (JSONL), readable by people and exact to the byte.

    {"partition":0,"offset":17,"timestamp_ms":1767225600000,"key":"orders","value":"{\\"type\\":\\"request\\",...}"}

`partition`, `offset` and `timestamp_ms` say where the record lay in its topic and when it was appended. `key` and
`value` are the record's bytes as text; bytes that are no UTF-8 are base64 under `key_b64` and `value_b64` instead; a
key or value that is absent is null. `headers`, where there are any, map names to text. A record that was not read from
a topic (what a replay writes) has no offset and no timestamp.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from schemas.bounded_lines import too_long
from schemas.message_types import INT32, INT64


class RecordsFileError(ValueError):
    """A line that is no record. The message says why; whoever reads adds the file and the line."""


class Record(Struct, frozen=True, kw_only=True):
    """One record of a topic. `partition` is None where the sink chooses one by the key."""

    partition: int | None
    offset: int | None = None
    timestamp_ms: int | None = None
    key: bytes | None
    value: bytes | None
    headers: dict[str, str] = field(default_factory=dict)


class _Line(Struct, kw_only=True):
    partition: INT32 | None = None
    offset: INT64 | UnsetType = UNSET
    timestamp_ms: INT64 | UnsetType = UNSET
    key: str | UnsetType | None = UNSET
    key_b64: str | UnsetType = UNSET
    value: str | UnsetType | None = UNSET
    value_b64: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


def encode_record(record: Record) -> bytes:
    """Return a record as one line, without the line's end."""
    line = _Line(
        partition=record.partition,
        offset=UNSET if record.offset is None else record.offset,
        timestamp_ms=UNSET if record.timestamp_ms is None else record.timestamp_ms,
        headers=record.headers or UNSET,
    )
    line.key, line.key_b64 = _text(record.key)
    line.value, line.value_b64 = _text(record.value)
    return _encode(line)


def decode_record(line: bytes, length: int = 0) -> Record:
    """Read one line; `length` of one that is too long (`bounded_lines`), else 0. Raises `RecordsFileError`."""
    if length:
        raise RecordsFileError(too_long(length))
    try:
        decoded = _decode(line)
        return Record(
            partition=decoded.partition,
            offset=None if decoded.offset is UNSET else decoded.offset,
            timestamp_ms=None if decoded.timestamp_ms is UNSET else decoded.timestamp_ms,
            key=_bytes(decoded.key, decoded.key_b64),
            value=_bytes(decoded.value, decoded.value_b64),
            headers={} if decoded.headers is UNSET else decoded.headers,
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, binascii.Error) as error:
        raise RecordsFileError(str(error)) from None


def decode_event_record(line: bytes, length: int = 0) -> Record:
    """Read one line of a log of events: partition, offset and timestamp must be there. Raises `RecordsFileError`."""
    record = decode_record(line, length)
    absent = [name for name in ("partition", "offset", "timestamp_ms") if getattr(record, name) is None]
    if absent:
        raise RecordsFileError(f"{' and '.join(absent)} missing: an event has its place in the log")
    return record


def _text(value: bytes | None) -> tuple[str | UnsetType | None, str | UnsetType]:
    if value is None:
        return None, UNSET
    try:
        return value.decode(), UNSET
    except UnicodeDecodeError:
        return UNSET, b64encode(value).decode()


def _bytes(text: str | UnsetType | None, encoded: str | UnsetType) -> bytes | None:
    if encoded is not UNSET:
        return b64decode(encoded, validate=True)
    return None if text is None or text is UNSET else text.encode()
