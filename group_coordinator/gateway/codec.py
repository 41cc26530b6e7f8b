"""The one door to kafka-python's protocol package: Apache Kafka's message definitions, read and written by `schemas.wire`.

kafka-python carries the definitions of every API and version; its own decoder trusts what it reads (a varint without an
end keeps it busy for hours, a string may end beyond its message), which a server cannot. The package is no public API of
kafka-python: hence the pinned version, and no other module that imports it. Source: Kafka's message definitions, KIP-482.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

from kafka.protocol import sasl
from kafka.protocol.admin import cluster, configs, groups, topics, transactions
from kafka.protocol.consumer import fetch, group, offsets
from kafka.protocol.metadata import find_coordinator, metadata
from kafka.protocol.producer import produce, transaction

from group_coordinator.gateway.frames import RequestHead
from schemas.wire import (
    INT8,
    INT16,
    INT32,
    INT64,
    DecodeError,
    EncodeError,
    Item,
    Reader,
    encode_count,
    encode_nullable_blob,
    encode_nullable_string,
    encode_string,
    pack,
)

Read = Callable[[Reader], Any]
Write = Callable[[Any], bytes]

_MODULES = (group, groups, find_coordinator, sasl, metadata, produce, fetch, offsets, transaction, transactions, topics, configs, cluster)
_NO_TAGS = b"\x00"
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_EVER = 2**15
_UUID_SIZE = 16


class _BoundedReader(Reader):
    """A reader that takes only so many items of arrays: each costs far more than its bytes."""

    __slots__ = ("_items_left", "_items_max")

    def __init__(self, data: bytes, items_max: int) -> None:
        super().__init__(data)
        self._items_max = self._items_left = items_max

    def array(self, item: Callable[[], Item], item_size_min: int, compact: bool = False) -> list[Item]:
        return [self._counted(item) for _ in range(self._count(item_size_min, compact))]

    def nullable_array(self, item: Callable[[], Item], item_size_min: int, compact: bool = False) -> list[Item] | None:
        return super().nullable_array(lambda: self._counted(item), item_size_min, compact)

    def _counted(self, item: Callable[[], Item]) -> Item:
        self._items_left -= 1
        if self._items_left < 0:
            raise DecodeError(f"more than {self._items_max} items", self.position)
        return item()


def decode(message: str, version: int, payload: bytes, start: int = 0, items_max: int | None = None) -> dict[str, Any]:
    """Read a message, `JoinGroupRequest` for example, whose body begins at `start` and ends with the payload.

    Names are Kafka's in snake case, structs are dictionaries, arrays tuples; tagged fields are skipped. Raises
    `DecodeError`, also where arrays have more than `items_max` items altogether.
    """
    reader = Reader(payload) if items_max is None else _BoundedReader(payload, items_max)
    reader.position = start
    values: dict[str, Any] = _struct_reader(message, version)(reader)
    reader.end()
    return values


def encode(message: str, version: int, values: Mapping[str, Any]) -> bytes:
    """Write a message's body. What is absent has Kafka's default; the items of arrays have their fields as attributes.

    Raises `EncodeError` for what this version cannot say.
    """
    return _message_writer(message, version)(values)


@cache
def is_flexible(message: str, version: int) -> bool:
    """Whether this version has compact strings and tagged fields (KIP-482)."""
    return version in _range(definition_of(message)["flexibleVersions"])


def body_start(message: str, head: RequestHead, payload: bytes) -> int:
    """Where the body of a request begins: behind its header's tags, where it has any. Raises `DecodeError`."""
    if not is_flexible(message, head.api_version):
        return head.size
    reader = Reader(payload)
    reader.position = head.size
    reader.tagged_fields()
    return reader.position


def request_payload(message: str, head: RequestHead, values: Mapping[str, Any]) -> bytes:
    """A whole request of a client without a name, header and body, without its length. Raises `EncodeError`."""
    tags = _NO_TAGS if is_flexible(message, head.api_version) else b""
    header = INT16.pack(head.api_key) + INT16.pack(head.api_version) + INT32.pack(head.correlation_id) + encode_nullable_string(None)
    return header + tags + encode(message, head.api_version, values)


def response_payload(message: str, version: int, correlation_id: int, values: Mapping[str, Any]) -> bytes:
    """A whole response, header and body, without its length. Raises `EncodeError`."""
    tags = _NO_TAGS if is_flexible(message, version) else b""
    return pack(INT32, correlation_id) + tags + encode(message, version, values)


def response_body_start(message: str, version: int) -> int:
    """Where the body of a response begins whose header has no tags, as brokers write it."""
    return INT32.size + (1 if is_flexible(message, version) else 0)


def decode_struct(definition: Mapping[str, Any], version: int, flexible: bool, data: bytes) -> dict[str, Any]:
    """Read a struct of a message, which is all of `data`. Raises `DecodeError`."""
    reader = Reader(data)
    values: dict[str, Any] = _struct_of(definition, version, flexible).read(reader)
    reader.end()
    return values


def encode_struct(definition: Mapping[str, Any], version: int, flexible: bool, values: Mapping[str, Any]) -> bytes:
    """Write a struct of a message, given as it is read."""
    return _struct_of(definition, version, flexible).write(as_attributes(values))


class _StructCodec(NamedTuple):
    definition: Mapping[str, Any]
    """Kept here, so that no other ever has its identity."""
    read: Read
    write: Write


_STRUCTS: dict[tuple[int, int, bool], _StructCodec] = {}
"""By the identity of the definition, which is one of Kafka's."""


def _struct_of(definition: Mapping[str, Any], version: int, flexible: bool) -> _StructCodec:
    key = id(definition), version, flexible
    found = _STRUCTS.get(key)
    if found is None:
        read, write = _reader_of(definition, version, flexible), _struct_writer(definition, version, flexible)
        found = _STRUCTS[key] = _StructCodec(definition, read, write)
    return found


def as_attributes(values: Any) -> Any:
    """What was read, as it is to be written: the fields of structs as attributes."""
    if isinstance(values, Mapping):
        return SimpleNamespace(**{name: as_attributes(value) for name, value in values.items()})
    return tuple(map(as_attributes, values)) if isinstance(values, tuple) else values


# ------------------------------------------------------------------------------------------------------- definitions


@cache
def definition_of(message: str) -> dict[str, Any]:
    """Kafka's definition of a message."""
    for module in _MODULES:
        found = getattr(module, message, None)
        if found is not None:
            definition: dict[str, Any] = found.json
            return definition
    raise KeyError(message)


def messages_of(api_key: int) -> list[str]:
    """The names of an API's messages."""
    found = {name for module in _MODULES for name, each in vars(module).items() if getattr(each, "json", {}).get("apiKey") == api_key}
    return sorted(found)


@cache
def _range(versions: str) -> range:
    """Kafka's way to write versions: `none`, `3`, `2-5` or `4+`."""
    if versions == "none":
        return range(0)
    if versions.endswith("+"):
        return range(int(versions[:-1]), _EVER)
    first, _, last = versions.partition("-")
    return range(int(first), int(last or first) + 1)


def fields_of(definition: Mapping[str, Any], version: int) -> list[dict[str, Any]]:
    """The fields of this version that lie in the message itself, not in its tags."""
    return [
        field
        for field in definition["fields"]
        if version in _range(field["versions"])
        and not ("tag" in field and version in _range(field.get("taggedVersions", "none")))
    ]


def _name(field: Mapping[str, Any]) -> str:
    return _WORD_START.sub("_", field["name"]).lower()


def is_nullable(field: Mapping[str, Any], version: int) -> bool:
    """Whether a field may be null in this version."""
    return version in _range(field.get("nullableVersions", "none"))


# ----------------------------------------------------------------------------------------------------------- reading


@cache
def _struct_reader(message: str, version: int) -> Read:
    return _reader_of(definition_of(message), version, is_flexible(message, version))


def _reader_of(definition: Mapping[str, Any], version: int, flexible: bool) -> Read:
    fields = tuple((_name(field), _field_reader(field, version, flexible)) for field in fields_of(definition, version))

    def read_struct(reader: Reader) -> dict[str, Any]:
        values = {name: read(reader) for name, read in fields}
        if flexible:
            reader.tagged_fields()
        return values

    return read_struct


def _field_reader(field: Mapping[str, Any], version: int, flexible: bool) -> Read:
    kind: str = field["type"]
    nullable = is_nullable(field, version)
    if kind.startswith("[]"):
        item = _item_reader(field, kind[2:], version, flexible)
        return _array_reader(item, nullable, flexible)
    return _value_reader(kind, nullable, flexible)


def _item_reader(field: Mapping[str, Any], kind: str, version: int, flexible: bool) -> Read:
    return _reader_of(field, version, flexible) if "fields" in field else _value_reader(kind, False, flexible)


def _array_reader(item: Read, nullable: bool, flexible: bool) -> Read:
    def read_array(reader: Reader) -> tuple[Any, ...]:
        return tuple(reader.array(lambda: item(reader), 1, flexible))

    def read_nullable_array(reader: Reader) -> tuple[Any, ...] | None:
        items = reader.nullable_array(lambda: item(reader), 1, flexible)
        return None if items is None else tuple(items)

    return read_nullable_array if nullable else read_array


def _value_reader(kind: str, nullable: bool, flexible: bool) -> Read:
    match kind, nullable:
        case "string", False:
            return lambda reader: reader.string(flexible)
        case "string", True:
            return lambda reader: reader.nullable_string(flexible)
        case ("bytes" | "records"), False:
            return lambda reader: reader.blob(flexible)
        case ("bytes" | "records"), True:
            return lambda reader: reader.nullable_blob(flexible)
    return _FIXED_READERS[kind]


_FIXED_READERS: dict[str, Read] = {
    "bool": lambda reader: reader.int8() != 0,
    "int8": Reader.int8,
    "int16": Reader.int16,
    "int32": Reader.int32,
    "int64": Reader.int64,
    "bitfield": Reader.int32,
    "uuid": lambda reader: reader.fixed(_UUID_SIZE),
}


# ----------------------------------------------------------------------------------------------------------- writing


@cache
def _message_writer(message: str, version: int) -> Callable[[Mapping[str, Any]], bytes]:
    definition, flexible = definition_of(message), is_flexible(message, version)
    fields = tuple(
        (_name(field), _default(field), _field_writer(field, version, flexible)) for field in fields_of(definition, version)
    )
    end = _NO_TAGS if flexible else b""

    def write_message(values: Mapping[str, Any]) -> bytes:
        return b"".join([write(values.get(name, default)) for name, default, write in fields]) + end

    return write_message


def _default(field: Mapping[str, Any]) -> Any:
    """Kafka's default; None where it has none, which no writer but a nullable one takes."""
    kind, default = field["type"], field.get("default")
    if kind == "bool":
        return default == "true"
    return int(default or 0) if kind in _INTEGER_LAYOUTS else None


def _field_writer(field: Mapping[str, Any], version: int, flexible: bool) -> Write:
    kind: str = field["type"]
    nullable = is_nullable(field, version)
    if not kind.startswith("[]"):
        return _value_writer(kind, nullable, flexible)
    item = _struct_writer(field, version, flexible) if "fields" in field else _value_writer(kind[2:], False, flexible)
    null = encode_count(-1, flexible)

    def write_array(items: Any) -> bytes:
        if items is None:
            if not nullable:
                raise EncodeError(f"null is no value of {field['name']} in this version")
            return null
        return encode_count(len(items), flexible) + b"".join(map(item, items))

    return write_array


def _struct_writer(definition: Mapping[str, Any], version: int, flexible: bool) -> Write:
    fields = fields_of(definition, version)
    writers = [_field_writer(field, version, flexible) for field in fields]
    end = _NO_TAGS if flexible else b""
    if len(fields) < 2:  # of one name, `attrgetter` gives the value itself
        return lambda item: b"".join([write(getattr(item, _name(field))) for field, write in zip(fields, writers, strict=True)]) + end
    values_of = attrgetter(*map(_name, fields))
    return lambda item: b"".join([write(value) for write, value in zip(writers, values_of(item), strict=True)]) + end


def _value_writer(kind: str, nullable: bool, flexible: bool) -> Write:
    if kind in _INTEGER_LAYOUTS:
        layout = _INTEGER_LAYOUTS[kind]
        return lambda number: pack(layout, number)
    if kind == "uuid":
        return lambda value: bytes(_UUID_SIZE) if value is None else bytes(value)
    encode_value: Callable[[Any, bool], bytes] = encode_nullable_string if kind == "string" else encode_nullable_blob
    if nullable:
        return lambda value: encode_value(value, flexible)
    short = _SHORT_PREFIXES[flexible] if kind == "string" else ()

    def write_value(value: Any) -> bytes:
        if value is None:
            raise EncodeError(f"null is no {kind} in this version")
        if short and len(value) < len(short) and value.isascii():  # nearly always
            text: str = value
            return short[len(text)] + text.encode()
        return encode_value(value, flexible)

    return write_value


_SHORT_PREFIXES = {flexible: tuple([encode_string("x" * size, flexible)[:-size or None] for size in range(100)]) for flexible in (False, True)}
"""What stands before a string of so many bytes."""
_INTEGER_LAYOUTS = {"bool": INT8, "int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64, "bitfield": INT32}
