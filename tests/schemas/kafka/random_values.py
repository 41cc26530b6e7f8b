"""Random values for any message, as its definition allows them."""

from __future__ import annotations

from random import Random
from typing import Any

from schemas.kafka.definitions import Definition, Field, StructDefinition

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "a", "orders", "Bestellungen-é", "注文" * 40, "x" * 300, "\U0001f680")
_ERROR_CODES = (-1, 0, 14, 15, 16, 22, 25, 27, 79, 82, 110)
"""kio takes Kafka's own codes only."""
_PRESENT, _NULL = 0.7, 0.3


def random_values(definition: Definition, version: int, random: Random) -> dict[str, Any]:
    """A message of this version. A tagged field is there sometimes, never with its default."""
    return _struct(definition.struct, version, random)


def _struct(struct: StructDefinition, version: int, random: Random) -> dict[str, Any]:
    values = {field.python_name: _value(field, version, random) for field in struct.fields_of(version)}
    for field in struct.tagged_fields_of(version):
        value = _value(field, version, random)
        if random.random() < _PRESENT and value != field.default:
            values[field.python_name] = value
    return values


def _value(field: Field, version: int, random: Random) -> Any:
    if field.is_nullable(version) and random.random() < _NULL:
        return None
    if not field.is_array:
        return _item(field, version, random)
    return tuple([_item(field, version, random) for _ in range(random.choice((0, 1, 2, 3 if field.struct else 130)))])


def _item(field: Field, version: int, random: Random) -> Any:
    if field.struct is not None:
        return _struct(field.struct, version, random)
    if field.name == "ErrorCode":
        return random.choice(_ERROR_CODES)
    if field.name.endswith("Ms"):
        return random.choice((0, 1, 45_000))
    match field.type:
        case "string":
            return random.choice(_TEXTS)
        case "bool":
            return random.random() < 0.5
        case "uuid":
            return random.choice((bytes(16), random.randbytes(16)))
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 40, 200)))
        case "uint16":
            return random.choice((0, 9_092, 65_535))
    bits = _BITS[field.type]
    return random.choice((0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))
