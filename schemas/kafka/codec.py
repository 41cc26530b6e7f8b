"""Kafka's messages on the wire, by their definitions: read and written in every version.

A message is read as a dictionary of its fields by their names in snake case, an array as a tuple, a uuid as its 16
bytes. A tagged field is there when it was on the wire; tags that the definition does not have are skipped. Structs to
be written may be dictionaries, where a missing field has Kafka's default, or objects with the fields as attributes; a
uuid to be written may be its text.
Lengths and counts are checked against what is left of the input (`schemas.wire`), and messages nest no deeper than
their definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple

from schemas.kafka.definitions import Field, StructDefinition, definition_of
from schemas.wire import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT16,
    UINT32,
    BoundedReader,
    EncodeError,
    Reader,
    encode_count,
    encode_nullable_blob,
    encode_nullable_string,
    encode_string,
    encode_unsigned_varint,
    encode_uuid,
    pack,
)

Read = Callable[[Reader], Any]
Write = Callable[[Any], bytes]

NO_TAGS = b"\x00"
_UUID_SIZE = 16
_PRESENT, _ABSENT, _ABSENT_IN_TAG = b"\x01", b"\xff", b"\x00"
_LAYOUTS = {
    "bool": BOOL,
    "int8": INT8,
    "int16": INT16,
    "uint16": UINT16,
    "int32": INT32,
    "uint32": UINT32,
    "int64": INT64,
    "float64": FLOAT64,
}


def decode(message: str, version: int, data: bytes, start: int = 0, items_max: int | None = None) -> dict[str, Any]:
    """Read a message, `JoinGroupRequest` for example, whose body begins at `start` and ends with the data.

    Raises `DecodeError`, also where arrays have more than `items_max` items altogether.
    """
    reader = Reader(data) if items_max is None else BoundedReader(data, items_max)
    reader.position = start
    values: dict[str, Any] = _message_reader(message, version)(reader)
    reader.end()
    return values


def encode(message: str, version: int, values: Mapping[str, Any]) -> bytes:
    """Write a message's body. Fields that this version lacks are left out.

    Raises `EncodeError` for what this version cannot say.
    """
    return _message_writer(message, version)(values)


def decode_struct(struct: StructDefinition, version: int, flexible: bool, data: bytes) -> dict[str, Any]:
    """Read one struct of a message, which is all of `data`. Raises `DecodeError`."""
    reader = Reader(data)
    values: dict[str, Any] = _struct_codec(struct, version, flexible).read(reader)
    reader.end()
    return values


def encode_struct(struct: StructDefinition, version: int, flexible: bool, values: Mapping[str, Any]) -> bytes:
    """Write one struct of a message. Raises `EncodeError`."""
    return _struct_codec(struct, version, flexible).write(values)


@cache
def is_flexible(message: str, version: int) -> bool:
    """Return whether this version has compact strings and tags (KIP-482)."""
    return definition_of(message).is_flexible(version)


@cache
def _message_reader(message: str, version: int) -> Read:
    """Return the function that reads a message at a reader's position."""
    return struct_reader(definition_of(message).struct, version, is_flexible(message, version))


@cache
def _message_writer(message: str, version: int) -> Write:
    of_mapping, _ = _struct_writers(definition_of(message).struct, version, is_flexible(message, version))
    return of_mapping


class _StructCodec(NamedTuple):
    struct: StructDefinition
    """Kept here, so that no other ever has its identity."""
    read: Read
    write: Write


_STRUCT_CODECS: dict[tuple[int, int, bool], _StructCodec] = {}
"""By the identity of the struct, which is one of a cached definition."""


def _struct_codec(struct: StructDefinition, version: int, flexible: bool) -> _StructCodec:
    key = id(struct), version, flexible
    codec = _STRUCT_CODECS.get(key)
    if codec is None:
        read, write = struct_reader(struct, version, flexible), struct_writer(struct, version, flexible)
        codec = _STRUCT_CODECS[key] = _StructCodec(struct, read, write)
    return codec


# ----------------------------------------------------------------------------------------------------------- reading


def struct_reader(struct: StructDefinition, version: int, flexible: bool) -> Read:
    """Return the function that reads a struct in this version."""
    read_fields = _fields_reader(struct.fields_of(version), version, flexible)
    if not flexible:
        return read_fields
    tagged = struct.tagged_fields_of(version)
    tag_names = {field.tag or 0: field.python_name for field in tagged}
    tag_readers = {field.tag or 0: _field_reader(field, version, flexible) for field in tagged}

    def read_struct(reader: Reader) -> Any:
        values = read_fields(reader)
        if tag_readers:
            for tag, value in reader.known_tagged_fields(tag_readers).items():
                values[tag_names[tag]] = value
        else:
            reader.tagged_fields()
        return values

    return read_struct


def _fields_reader(fields: tuple[Field, ...], version: int, flexible: bool) -> Read:
    numbers = _numbers_layout(fields)
    if numbers is not None and len(fields) > 1:
        layout, names = Struct(numbers), [field.python_name for field in fields]
        return lambda reader: dict(zip(names, reader.numbers(layout), strict=True))
    readers = tuple((field.python_name, _field_reader(field, version, flexible)) for field in fields)
    return lambda reader: {name: read(reader) for name, read in readers}


def _field_reader(field: Field, version: int, flexible: bool) -> Read:
    nullable = field.is_nullable(version)
    if field.is_array:
        return _array_reader(_item_reader(field, version, flexible), nullable, flexible)
    if field.struct is None:
        return _value_reader(field.type, nullable, flexible)
    read = struct_reader(field.struct, version, flexible)
    # In a tag, 0 stands for null (Kafka's `MessageDataGenerator`), elsewhere -1; 1 stands before what is there.
    return (lambda reader: None if reader.int8() <= 0 else read(reader)) if nullable else read


def _item_reader(field: Field, version: int, flexible: bool) -> Read:
    if field.struct is None:
        return _value_reader(field.type, False, flexible)
    return struct_reader(field.struct, version, flexible)


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
            return Reader.compact_string if flexible else Reader.string
        case "string", True:
            return Reader.compact_nullable_string if flexible else Reader.nullable_string
        case (("bytes" | "records"), False):
            return (lambda reader: reader.blob(True)) if flexible else Reader.blob
        case (("bytes" | "records"), True):
            return (lambda reader: reader.nullable_blob(True)) if flexible else Reader.nullable_blob
    return _FIXED_READERS[kind]


_FIXED_READERS: dict[str, Read] = {
    "bool": lambda reader: reader.int8() != 0,
    "int8": Reader.int8,
    "int16": Reader.int16,
    "uint16": Reader.uint16,
    "int32": Reader.int32,
    "uint32": Reader.uint32,
    "int64": Reader.int64,
    "float64": Reader.float64,
    "uuid": lambda reader: reader.fixed(_UUID_SIZE),
}


# ----------------------------------------------------------------------------------------------------------- writing


def struct_writer(struct: StructDefinition, version: int, flexible: bool) -> Write:
    """Return the function that writes a struct in this version, given as a dictionary or as an object with attributes.
    """
    of_mapping, of_attributes = _struct_writers(struct, version, flexible)
    return lambda item: of_mapping(item) if type(item) is dict else of_attributes(item)


def _struct_writers(struct: StructDefinition, version: int, flexible: bool) -> tuple[Write, Write]:
    """Return the writers for dictionaries, and for objects with attributes."""
    fields, tagged = struct.fields_of(version), struct.tagged_fields_of(version)
    of_mapping, of_attributes = (
        _mapping_writer(fields, version, flexible),
        _attributes_writer(fields, version, flexible),
    )
    if not flexible:
        return of_mapping, of_attributes
    if not tagged:
        return lambda item: of_mapping(item) + NO_TAGS, lambda item: of_attributes(item) + NO_TAGS
    write_tags = _tags_writer(tagged, version)
    return (
        lambda item: of_mapping(item) + write_tags([item.get(field.python_name, field.default) for field in tagged]),
        lambda item: (
            of_attributes(item) + write_tags([getattr(item, field.python_name, field.default) for field in tagged])
        ),
    )


def _mapping_writer(fields: Iterable[Field], version: int, flexible: bool) -> Write:
    writers = [(field.python_name, field.default, _field_writer(field, version, flexible)) for field in fields]
    return lambda item: b"".join([write(item.get(name, default)) for name, default, write in writers])


def _attributes_writer(fields: tuple[Field, ...], version: int, flexible: bool) -> Write:
    names = [field.python_name for field in fields]
    writers = [_field_writer(field, version, flexible) for field in fields]
    if len(fields) < 2:  # of one name, `attrgetter` gives the value itself
        return lambda item: b"".join([write(getattr(item, name)) for name, write in zip(names, writers, strict=True)])
    values_of, numbers = attrgetter(*names), _numbers_layout(fields)
    if numbers is not None:
        layout = Struct(numbers)
        return lambda item: pack(layout, *values_of(item))
    return lambda item: b"".join([write(value) for write, value in zip(writers, values_of(item), strict=True)])


def _numbers_layout(fields: Iterable[Field]) -> str | None:
    """The layout of fields that are numbers and nothing else; None for others."""
    if any(field.is_array or field.type not in _LAYOUTS for field in fields):
        return None
    return ">" + "".join(_LAYOUTS[field.type].format.removeprefix(">") for field in fields)


def _tags_writer(fields: tuple[Field, ...], version: int) -> Callable[[Iterable[Any]], bytes]:
    tagged = [
        (encode_unsigned_varint(field.tag or 0), field.default, _tagged_field_writer(field, version))
        for field in fields
    ]

    def write_tags(values: Iterable[Any]) -> bytes:
        encoded_tags = []
        for (tag, default, write), value in zip(tagged, values, strict=True):
            if value != default:
                data = write(value)
                encoded_tags.append(tag + encode_unsigned_varint(len(data)) + data)
        return encode_unsigned_varint(len(encoded_tags)) + b"".join(encoded_tags)

    return write_tags


def _tagged_field_writer(field: Field, version: int) -> Write:
    write = _field_writer(field, version, True)
    if field.struct is None or field.is_array or not field.is_nullable(version):
        return write
    return lambda value: _ABSENT_IN_TAG if value is None else write(value)


def _field_writer(field: Field, version: int, flexible: bool) -> Write:
    nullable = field.is_nullable(version)
    if field.struct is None:
        write = _value_writer(field.type, nullable and not field.is_array, flexible)
        return _array_writer(field.name, write, write, nullable, flexible) if field.is_array else write
    if field.is_array:
        return _array_writer(field.name, *_struct_writers(field.struct, version, flexible), nullable, flexible)
    write = struct_writer(field.struct, version, flexible)
    return (lambda value: _ABSENT if value is None else _PRESENT + write(value)) if nullable else write


def _array_writer(name: str, of_mapping: Write, of_others: Write, nullable: bool, flexible: bool) -> Write:
    """Return the writer of an array whose items are dictionaries throughout, or not at all."""
    null = encode_count(-1, flexible)

    def write_array(items: Any) -> bytes:
        if items is None:
            if not nullable:
                raise EncodeError(f"null is no value of {name} in this version")
            return null
        write = of_mapping if items and type(items[0]) is dict else of_others
        return encode_count(len(items), flexible) + b"".join(map(write, items))

    return write_array


def _encode_uuid(value: bytes | str | None) -> bytes:
    """Our messages have topics' ids as text."""
    if value is None:
        return bytes(_UUID_SIZE)
    return encode_uuid(value) if isinstance(value, str) else bytes(value)


def _value_writer(kind: str, nullable: bool, flexible: bool) -> Write:
    if kind in _LAYOUTS:
        layout = _LAYOUTS[kind]
        return lambda number: pack(layout, number)
    if kind == "uuid":
        return _encode_uuid
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


_SHORT_PREFIXES = {
    flexible: tuple([encode_string("x" * size, flexible)[: -size or None] for size in range(100)])
    for flexible in (False, True)
}
"""What stands before a string of so many bytes."""
