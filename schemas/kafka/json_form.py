"""Kafka's messages and records as JSON, by their definitions: as brokers print them in their request logs.

Names are in camel case; bytes are base64, uuids URL-safe base64 without padding. In Python the values are those of
`schemas.kafka.codec`. Source: the `JsonConverter` classes that Kafka generates, and `org.apache.kafka.common.Uuid`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from schemas.kafka.definitions import Field, StructDefinition, definition_of

Convert = Callable[[Any], Any]

_UUID_SIZE = 16
_INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}


class JsonFormError(ValueError):
    """The JSON is not what Kafka prints for this message and version."""


def from_json(message: str, version: int, body: object) -> dict[str, Any]:
    """Read the values of a message. All fields of the version must be there, but for tagged ones; others are ignored.
    Raises `JsonFormError`."""
    values: dict[str, Any] = _reader(message, version)(body)
    return values


def to_json(message: str, version: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of a message, in the order of its fields. Absent values get Kafka's default."""
    body: dict[str, Any] = _writer(message, version)(values)
    return body


def uuid_from_json(text: object) -> bytes:
    """Return the 16 bytes of a uuid that Kafka printed. Raises `JsonFormError`."""
    try:
        encoded = urlsafe_b64decode(f"{text}==") if isinstance(text, str) else b""
    except ValueError:
        encoded = b""
    if len(encoded) != _UUID_SIZE:
        raise JsonFormError(f"not a uuid of Kafka's: {text!r}")
    return encoded


def uuid_to_json(encoded: bytes) -> str:
    """Return a uuid as Kafka prints it."""
    return urlsafe_b64encode(encoded).decode("ascii").rstrip("=")


# ----------------------------------------------------------------------------------------------------------- reading


@cache
def _reader(message: str, version: int) -> Convert:
    return _struct_reader(definition_of(message).struct, version)


def _struct_reader(struct: StructDefinition, version: int) -> Convert:
    fields = [
        (field.json_name, field.python_name, _field_reader(field, version)) for field in struct.fields_of(version)
    ]
    tagged = [
        (field.json_name, field.python_name, _field_reader(field, version))
        for field in struct.tagged_fields_of(version)
    ]

    def read_struct(body: Any) -> dict[str, Any]:
        if not isinstance(body, dict):
            raise JsonFormError(f"expected an object, got {type(body).__name__}")
        try:
            values = {name: read(body[json_name]) for json_name, name, read in fields}
        except KeyError as missing:
            raise JsonFormError(f"field {missing.args[0]} is missing") from None
        for json_name, name, read in tagged:
            if json_name in body:
                values[name] = read(body[json_name])
        return values

    return read_struct


def _field_reader(field: Field, version: int) -> Convert:
    read = _value_reader(field.type) if field.struct is None else _struct_reader(field.struct, version)
    nullable, is_array, name = field.is_nullable(version), field.is_array, field.json_name

    def read_field(value: Any) -> Any:
        if value is None:
            if not nullable:
                raise JsonFormError(f"null is no value of {name} in this version")
            return None
        try:
            if not is_array:
                return read(value)
            if isinstance(value, list):
                return tuple([read(element) for element in value])
        except TypeError:
            pass
        raise JsonFormError(f"{name} cannot be {str(value)[:100]!r}")

    return read_field


def _value_reader(kind: str) -> Convert:
    """Raises TypeError for a value of another type, or one that is out of range."""
    if kind in _INTEGER_BITS:
        return _integer_reader(-(1 << _INTEGER_BITS[kind] - 1), (1 << _INTEGER_BITS[kind] - 1) - 1)
    if kind in _UNSIGNED_BITS:
        return _integer_reader(0, (1 << _UNSIGNED_BITS[kind]) - 1)
    return _VALUE_READERS[kind]


def _integer_reader(smallest: int, largest: int) -> Convert:
    def read_integer(value: Any) -> int:
        if type(value) is not int or not smallest <= value <= largest:
            raise TypeError
        return value

    return read_integer


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _read_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _read_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _read_bytes(value: Any) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (Base64Error, ValueError):
        raise TypeError from None


_VALUE_READERS: dict[str, Convert] = {
    "string": _read_text,
    "bool": _read_bool,
    "float64": _read_float,
    "bytes": _read_bytes,
    "records": _read_bytes,
    "uuid": uuid_from_json,
}


# ----------------------------------------------------------------------------------------------------------- writing


@cache
def _writer(message: str, version: int) -> Convert:
    return _struct_writer(definition_of(message).struct, version)


def _struct_writer(struct: StructDefinition, version: int) -> Convert:
    fields = [(field, _field_writer(field, version)) for field in struct.fields_of(version)]
    tagged = [(field, _field_writer(field, version)) for field in struct.tagged_fields_of(version)]

    def write_struct(values: Mapping[str, Any]) -> dict[str, Any]:
        body = {field.json_name: write(values.get(field.python_name, field.default)) for field, write in fields}
        for field, write in tagged:
            value = values.get(field.python_name, field.default)
            if value != field.default:
                body[field.json_name] = write(value)
        return body

    return write_struct


def _field_writer(field: Field, version: int) -> Convert:
    write = _VALUE_WRITERS.get(field.type) if field.struct is None else _struct_writer(field.struct, version)
    if field.is_array:
        return lambda items: None if items is None else [item if write is None else write(item) for item in items]
    return lambda value: value if value is None or write is None else write(value)


_VALUE_WRITERS: dict[str, Convert] = {
    "bytes": lambda value: b64encode(value).decode("ascii"),
    "records": lambda value: b64encode(value).decode("ascii"),
    "uuid": uuid_to_json,
}
"""Types that are not in JSON as they are in Python."""
