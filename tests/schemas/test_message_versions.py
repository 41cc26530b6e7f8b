"""Our messages against Kafka's definitions: fields, types, nulls and defaults, but for differences listed here."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec import Struct, UnsetType

from schemas import messages
from schemas.error_codes import ErrorCode
from schemas.kafka.definitions import Field, StructDefinition, definition_of
from schemas.message_types import Message
from schemas.message_versions import response_of, response_values, struct_inside
from schemas.messages import APIS, ListGroupsRequest, ListGroupsResponse

_PAIRS: list[tuple[type[Message], str]] = [
    (ListGroupsRequest, "ListGroupsRequest"), (ListGroupsResponse, "ListGroupsResponse"),
    *((api.request, f"{name}Request") for name, api in APIS.items()),
    *((api.response, f"{name}Response") for name, api in APIS.items()),
]  # fmt: skip

_NOT_OURS = {"throttle_time_ms"}
_PLAIN_TYPES = {"string": str, "bytes": bytes, "bool": bool, "int8": int, "int16": int, "int32": int, "int64": int}

# Struct and field -> our default, where Kafka's is a placeholder that stands for nothing.
_OTHER_DEFAULTS: dict[tuple[str, str], object] = {
    ("Coordinator", "error_message"): None,
    ("Coordinator", "port"): -1,
    ("JoinGroupResponse", "protocol_name"): None,
    ("LeaveGroupMemberResponse", "group_instance_id"): None,
    ("ListedGroup", "group_type"): "classic",
    ("OffsetCommitRequestPartition", "committed_metadata"): None,
    ("TxnOffsetCommitRequestPartition", "committed_metadata"): None,
    ("OffsetFetchRequestGroup", "topics"): None,
    ("OffsetFetchResponsePartition", "committed_offset"): -1,
    ("DeletableGroupResult", "error_message"): msgspec.UNSET,
}
# Where ours may be null and Kafka's may not: an id that is not known.
_OTHER_NULLS = {("OffsetCommitRequestTopic", "topic_id"), ("OffsetCommitResponseTopic", "topic_id")} | {
    ("OffsetFetchRequestTopic", "topic_id"), ("OffsetFetchResponseTopic", "topic_id"),
    ("TxnOffsetCommitRequestTopic", "topic_id"), ("TxnOffsetCommitResponseTopic", "topic_id"),
}  # fmt: skip


# What Kafka 4.4 calls otherwise than Kafka before, and our events.
_KAFKAS_NAMES = {("TxnOffsetCommitRequest", "generation_id_or_member_epoch"): "generation_id"}

# What only our events have.
_NOT_KAFKAS = {
    ("TxnOffsetCommitRequest", "log"),
    ("OffsetFetchRequest", "tells_committed_ids"), ("OffsetFetchResponsePartition", "committed_topic_id"),
}  # fmt: skip


def fields_of(message: type[Struct]) -> list[msgspec.structs.FieldInfo]:
    return [field for field in msgspec.structs.fields(message) if (message.__name__, field.name) not in _NOT_KAFKAS]


def name_of(ours: type[Struct], field: Field) -> str:
    return _KAFKAS_NAMES.get((ours.__name__, field.python_name), field.python_name)


def pairs_inside(message: type[Struct], struct: StructDefinition) -> Iterator[tuple[type[Struct], StructDefinition]]:
    """A message and the structs in it, each with its definition."""
    yield message, struct
    fields = {field.python_name: field for field in struct.fields}
    for field in fields_of(message):
        inside = struct_inside(field.type)
        if inside is not None:
            definition = fields[field.name].struct
            assert definition is not None
            yield from pairs_inside(inside, definition)


STRUCTS = [
    pytest.param(ours, kafkas, definition_of(name).versions[-1], id=f"{name}-{ours.__name__}")
    for message, name in _PAIRS
    for ours, kafkas in pairs_inside(message, definition_of(name).struct)
]


@pytest.mark.parametrize(("ours", "kafkas", "newest"), STRUCTS)
def test_the_fields_are_kafkas(ours: type[Struct], kafkas: StructDefinition, newest: int) -> None:
    names = {field.name for field in fields_of(ours)}
    assert names <= {name_of(ours, field) for field in kafkas.fields}
    assert {name_of(ours, field) for field in kafkas.fields_of(newest)} - _NOT_OURS <= names


@pytest.mark.parametrize(("ours", "kafkas", "newest"), STRUCTS)
def test_types_and_nulls_are_kafkas(ours: type[Struct], kafkas: StructDefinition, newest: int) -> None:
    fields = {name_of(ours, field): field for field in kafkas.fields}
    hints = get_type_hints(ours)
    for name in (field.name for field in fields_of(ours)):
        annotation = hints[name]
        kinds = [kind for kind in (get_args(annotation) or (annotation,)) if kind not in (NoneType, UnsetType)]
        assert is_typed_as(fields[name], annotation, kinds), (ours, name, annotation)
        nullable = fields[name].is_nullable(fields[name].versions[-1]) or fields[name].is_nullable(newest)
        if (ours.__name__, name) not in _OTHER_NULLS:
            assert (NoneType in get_args(annotation)) == nullable, (ours, name)


def is_typed_as(field: Field, annotation: Any, kinds: list[Any]) -> bool:
    if field.is_array:
        return "tuple" in str(annotation)
    if field.type == "uuid":
        return str in kinds
    if field.python_name == "error_code":
        return annotation is ErrorCode
    if field.struct is not None:
        return struct_inside(annotation) is not None
    return _PLAIN_TYPES[field.type] in kinds


@pytest.mark.parametrize(("ours", "kafkas", "newest"), STRUCTS)
def test_defaults_are_kafkas(ours: type[Struct], kafkas: StructDefinition, newest: int) -> None:
    fields = {name_of(ours, field): field for field in kafkas.fields}
    for field in fields_of(ours):
        if field.default is msgspec.NODEFAULT or field.name == "topic_id":
            continue
        expected = _OTHER_DEFAULTS.get((ours.__name__, field.name), fields[field.name].default)
        assert field.default == expected, (ours, field.name)


def test_an_error_code_that_is_none_of_kafkas() -> None:
    with pytest.raises(ValueError, match="999"):
        response_of("Heartbeat", 4, {"error_code": 999})


def test_an_old_version_has_one_group() -> None:
    group = messages.OffsetFetchResponseGroup(group_id="g", error_code=ErrorCode.INVALID_GROUP_ID)
    values = response_values("OffsetFetch", 7, messages.OffsetFetchResponse(groups=(group,)))
    assert (values["topics"], values["error_code"]) == ((), ErrorCode.INVALID_GROUP_ID)
    with pytest.raises(ValueError, match="2 answers"):
        response_values("OffsetFetch", 7, messages.OffsetFetchResponse(groups=(group, group)))
