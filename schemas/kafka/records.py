"""Records of `__consumer_offsets` of every type, by Kafka's definitions: classic, consumer, share and streams groups.

A key starts with the record type, a value with its version. The typed view of a classic group's records is
`schemas.records`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from schemas.kafka.codec import decode, encode
from schemas.kafka.definitions import Definition, definition_of, names_of
from schemas.wire import INT16, DecodeError, EncodeError, Reader

_KEY, _VALUE = "Key", "Value"
_LEGACY_OFFSET_COMMIT = "LegacyOffsetCommit"
_KEY_VERSION = 0
"""The only one that keys have: their first two bytes are the record type."""


class Record(Struct, frozen=True, kw_only=True):
    """A record, decoded."""

    name: str
    """Of its type: `ConsumerGroupMetadata` and the like."""
    key: dict[str, Any]
    version: int | None
    """Of the value; None for a tombstone."""
    value: dict[str, Any] | None
    """None for a tombstone: it deletes its key."""


@cache
def record_types() -> Mapping[int, str]:
    """Return the name of each record type that Kafka has."""
    keys = [definition_of(name) for name in names_of("records") if name.endswith(_KEY)]
    return dict(sorted((key.api_key, key.name.removesuffix(_KEY)) for key in keys if key.api_key is not None))


@cache
def value_definition(name: str) -> Definition:
    """Return the definition of the values of a record type."""
    # Kafka's definition of values under old keys has the oldest version only; old brokers wrote newer ones as well.
    return definition_of(("OffsetCommit" if name == _LEGACY_OFFSET_COMMIT else name) + _VALUE)


def decode_record(key: bytes, value: bytes | None) -> Record | int:
    """Read a record; for a type that is not known, its number. Raises `DecodeError` for a damaged record."""
    number = Reader(key).int16()
    name = record_types().get(number)
    if name is None:
        return number
    keys = decode(name + _KEY, _KEY_VERSION, key, INT16.size)
    if value is None:
        return Record(name=name, key=keys, version=None, value=None)
    definition, version = value_definition(name), Reader(value).int16()
    if version not in definition.versions:
        raise DecodeError(f"value version {version} of {name}", INT16.size)
    return Record(name=name, key=keys, version=version, value=decode(definition.name, version, value, INT16.size))


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record. Raises `EncodeError` for values that its version does not have."""
    keys = definition_of(record.name + _KEY)
    key = INT16.pack(keys.api_key or 0) + encode(keys.name, _KEY_VERSION, record.key)
    if record.value is None or record.version is None:
        return key, None
    definition = value_definition(record.name)
    if record.version not in definition.versions:
        raise EncodeError(f"value version {record.version} of {record.name}")
    return key, INT16.pack(record.version) + encode(definition.name, record.version, record.value)
