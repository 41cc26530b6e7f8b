"""An events file: a partition of the events topic, or several, as text. One record a line, each line a JSON object.

    {"partition":0,"offset":7,"timestamp_ms":1795265220045,"key":"billing","value":"{...}"}

`key` and `value` are text where they are UTF-8, else `key_b64` and `value_b64`; null is null. Lines of one partition
are in the order of their offsets. Whoever reads a topic, or an archive of one, can write such a file.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error

import msgspec
from msgspec import Struct

from schemas.messages import INT32, INT64


class FileRecord(Struct, frozen=True):
    """One record of the events topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class EventsFileError(ValueError):
    """A line that is no record."""


class _Line(Struct, omit_defaults=True):
    partition: INT32
    offset: INT64
    timestamp_ms: INT64
    key: str | None = None
    key_b64: str | None = None
    value: str | None = None
    value_b64: str | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


def encode_file_record(record: FileRecord) -> bytes:
    """The record's line, without the line break."""
    key, key_b64 = _to_text(record.key)
    value, value_b64 = _to_text(record.value)
    return _encode(_Line(record.partition, record.offset, record.timestamp_ms, key, key_b64, value, value_b64))


def decode_file_record(line: bytes) -> FileRecord:
    """Read one line. Raises `EventsFileError`."""
    try:
        read = _decode(line)
        return FileRecord(
            partition=read.partition,
            offset=read.offset,
            timestamp_ms=read.timestamp_ms,
            key=_to_bytes(read.key, read.key_b64),
            value=_to_bytes(read.value, read.value_b64),
        )
    except (msgspec.DecodeError, Base64Error, UnicodeError, RecursionError) as error:
        raise EventsFileError(f"not a record of an events file: {error}") from None


def _to_text(data: bytes | None) -> tuple[str | None, str | None]:
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(data).decode("ascii")


def _to_bytes(text: str | None, base64: str | None) -> bytes | None:
    if base64 is not None:
        return b64decode(base64, validate=True)
    return None if text is None else text.encode()
