"""The names of topics are found in a message by Kafka's definitions, without decoding the message.

All but the names is skipped, so a message of a hundred thousand partitions is no more than a walk. Topics are named by
text (`entityType` `topicName` in the definitions), by id, or as the resource of a configuration.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, partial

from msgspec import Struct

from schemas.kafka.codec import is_flexible
from schemas.kafka.definitions import Field, StructDefinition, definition_of
from schemas.wire import INT16, INT32, STRING_SIZE_MAX, DecodeError

_UUID_SIZE = 16
_FIXED_SIZES = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8,
    "uuid": _UUID_SIZE,
}  # fmt: skip
_ANY = 2**62
_NO_ID = bytes(_UUID_SIZE)
_RESOURCE_IS_A_TOPIC = 2
"""Kafka's `ConfigResource.Type.TOPIC`."""


class Array(Struct, frozen=True, gc=False):
    """The place of an array's count."""

    begin: int
    end: int
    count: int


class Mention(Struct, frozen=True, gc=False):
    """One item of an array that names a topic."""

    begin: int
    end: int
    array: Array
    name: str | None
    name_at: int
    """Where the text of the name begins."""
    topic_id: bytes | None
    id_at: int
    field: Field | None
    """The array's definition; None: the item is the name alone."""


class _WalkState:
    """The fields found in one item, and all mentions so far."""

    __slots__ = (
        "array",
        "id_at",
        "items_left",
        "mentions",
        "name",
        "name_at",
        "resource_type",
        "topic_id",
        "topics_max",
    )

    def __init__(self, items_max: int, topics_max: int) -> None:
        self.items_left = items_max
        self.topics_max = topics_max
        self.mentions: list[Mention] = []
        self.array: Array | None = None
        self.forget()

    def forget(self) -> None:
        self.name: str | None = None
        self.name_at = 0
        self.topic_id: bytes | None = None
        self.id_at = 0
        self.resource_type = _RESOURCE_IS_A_TOPIC

    def note(self, mention: Mention) -> None:
        if len(self.mentions) >= self.topics_max:
            raise DecodeError(f"more than {self.topics_max} topics", mention.begin)
        self.mentions.append(mention)


Step = Callable[[bytes, int, _WalkState], int]
"""(message, position, state of the walk) -> position behind it."""


def find_topics(
    message: str, version: int, payload: bytes, start: int, items_max: int = _ANY, topics_max: int = _ANY
) -> list[Mention]:
    """Return the topics that a message names whose body begins at `start`, in its order.

    Raises `DecodeError`, also where its arrays have more than `items_max` items together, or it names topics more than
    `topics_max` times. There may be more behind the message, which brokers do not look at: librdkafka sends it.
    """
    state = _WalkState(items_max, topics_max)
    try:
        end = _message_step(message, version)(payload, start, state)
    except (IndexError, struct.error):
        end = len(payload) + 1
    if end > len(payload):
        raise DecodeError(f"{message} ends in its midst", len(payload))
    return state.mentions


def _is_name(field: Field) -> bool:
    return field.entity_type == "topicName" or field.name == "ResourceName"


def _is_id(field: Field) -> bool:
    return field.name == "TopicId"


# -------------------------------------------------------------------------------------------------------- structs


@cache
def _message_step(message: str, version: int) -> Step:
    return _fields_step(definition_of(message).struct, version, is_flexible(message, version))


def _fields_step(struct: StructDefinition, version: int, flexible: bool) -> Step:
    """Walk all fields of a struct, one after the other."""
    steps: list[Step] = []
    fixed = 0
    for field in struct.fields_of(version):
        size = None if field.is_array else _FIXED_SIZES.get(field.type)
        if size is not None and not _is_id(field) and field.name != "ResourceType":
            fixed += size  # neighbours are skipped at once
            continue
        if fixed:
            steps.append(partial(_skip, fixed))
            fixed = 0
        steps.append(_field_step(field, version, flexible))
    if fixed:
        steps.append(partial(_skip, fixed))
    if flexible:
        steps.append(_skip_tags)

    def walk(data: bytes, at: int, state: _WalkState) -> int:
        for step in steps:
            at = step(data, at, state)
        return at

    return steps[0] if len(steps) == 1 else walk


def _item_step(array_field: Field, struct: StructDefinition, version: int, flexible: bool) -> Step:
    """An item of an array; one that names a topic is noted."""
    walk = _fields_step(struct, version, flexible)
    if not any(_is_name(field) or _is_id(field) for field in struct.fields):
        return walk

    def walk_topic(data: bytes, begin: int, state: _WalkState) -> int:
        state.forget()
        array = state.array
        assert array is not None
        end = walk(data, begin, state)
        if state.resource_type == _RESOURCE_IS_A_TOPIC and (state.name is not None or state.topic_id is not None):
            state.note(
                Mention(begin, end, array, state.name, state.name_at, state.topic_id, state.id_at, array_field)
            )
        return end

    return walk_topic


def _field_step(field: Field, version: int, flexible: bool) -> Step:
    if field.is_array:
        return _array_step(field, version, flexible)
    if _is_name(field):
        return partial(_note_name, flexible)
    if _is_id(field):
        return _note_id
    if field.name == "ResourceType":
        return _note_resource_type
    if field.struct is not None:
        walk = _fields_step(field.struct, version, flexible)
        return partial(_skip_nullable, walk) if field.is_nullable(version) else walk
    return partial(_skip_string if field.type == "string" else _skip_bytes, flexible)


def _array_step(field: Field, version: int, flexible: bool) -> Step:
    if field.struct is not None:
        item = _item_step(field, field.struct, version, flexible)
    elif _is_name(field):
        item = partial(_note_string, flexible)
    elif field.type in _FIXED_SIZES:
        return partial(_skip_numbers, _FIXED_SIZES[field.type], flexible)
    else:
        item = partial(_skip_string if field.type == "string" else _skip_bytes, flexible)

    def walk_array(data: bytes, begin: int, state: _WalkState) -> int:
        count, at = _size(data, begin, flexible)
        state.items_left -= max(count, 0)
        if count > len(data) - at or state.items_left < 0:
            raise DecodeError(f"an array of {count} items", begin)
        around, state.array = state.array, Array(begin, at, count)
        for _ in range(count):
            at = item(data, at, state)
        state.array = around
        return at

    return walk_array


# ----------------------------------------------------------------------------------------------------- primitives


def _note_name(flexible: bool, data: bytes, at: int, state: _WalkState) -> int:
    begin, end = _string(data, at, flexible)
    if end >= begin:
        state.name, state.name_at = data[begin:end].decode("utf-8", "replace"), begin
    return max(begin, end)


def _note_string(flexible: bool, data: bytes, at: int, state: _WalkState) -> int:
    """A name that is an item by itself."""
    begin, end = _string(data, at, flexible)
    assert state.array is not None
    if end >= begin:
        name = data[begin:end].decode("utf-8", "replace")
        state.note(Mention(at, end, state.array, name, begin, None, 0, None))
    return max(begin, end)


def _note_id(data: bytes, at: int, state: _WalkState) -> int:
    topic_id = data[at : at + _UUID_SIZE]
    if topic_id != _NO_ID:
        state.topic_id, state.id_at = topic_id, at
    return at + _UUID_SIZE


def _note_resource_type(data: bytes, at: int, state: _WalkState) -> int:
    state.resource_type = data[at]
    return at + 1


def _skip(size: int, data: bytes, at: int, state: _WalkState) -> int:
    return at + size


def _skip_string(flexible: bool, data: bytes, at: int, state: _WalkState) -> int:
    return max(_string(data, at, flexible))


def _skip_bytes(flexible: bool, data: bytes, at: int, state: _WalkState) -> int:
    size, at = _size(data, at, flexible)
    return at + max(size, 0)


def _skip_numbers(size: int, flexible: bool, data: bytes, at: int, state: _WalkState) -> int:
    count, at = _size(data, at, flexible)
    return at + max(count, 0) * size


def _skip_nullable(walk: Step, data: bytes, at: int, state: _WalkState) -> int:
    """A struct that may be absent: a byte says so."""
    return at + 1 if data[at] >= 0x80 else walk(data, at + 1, state)


def _skip_tags(data: bytes, at: int, state: _WalkState) -> int:
    if data[at] == 0:
        return at + 1
    count, at = unsigned_varint(data, at)
    if count > len(data) - at:
        raise DecodeError(f"{count} tagged fields", at)
    for _ in range(count):
        _, at = unsigned_varint(data, at)
        size, at = unsigned_varint(data, at)
        at += size
    return at


def _string(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """Return where a string's text begins and ends; the end lies before the beginning if it is null."""
    if flexible:
        size, at = _size(data, at, flexible)
    else:
        size, at = INT16.unpack_from(data, at)[0], at + INT16.size
    if size > STRING_SIZE_MAX or at + size > len(data):
        raise DecodeError(f"string of {size} bytes", at)
    return at, at + size if size >= 0 else -1


def _size(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """Length of a byte string or count of an array, negative for null; and the position behind it."""
    if not flexible:
        return INT32.unpack_from(data, at)[0], at + INT32.size
    first = data[at]
    if first < 0x80:
        return first - 1, at + 1
    size, at = unsigned_varint(data, at)
    return size - 1, at


def unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number and the position after it. Raises IndexError where the bytes end, and `DecodeError`."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 31:
                break  # Kafka's sizes are no larger
            return value, at
    raise DecodeError("varint beyond a size", at)
