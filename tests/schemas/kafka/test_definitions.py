"""Kafka's definitions, parsed: versions, tags, defaults, structs that are named once and used often."""

from __future__ import annotations

import pytest

from schemas.kafka.definitions import Field, StructDefinition, definition_of, names_of
from schemas.messages import APIS, ApiKey


def field_of(struct: StructDefinition | None, name: str) -> Field:
    assert struct is not None
    return next(field for field in struct.fields if field.name == name)


def test_versions_of_fields() -> None:
    join = definition_of("JoinGroupRequest")
    assert (join.api_key, join.versions, join.is_flexible(5), join.is_flexible(6)) == (11, range(10), False, True)
    assert [field.python_name for field in join.struct.fields_of(0)] == [
        "group_id", "session_timeout_ms", "member_id", "protocol_type", "protocols",
    ]  # fmt: skip
    instance = field_of(join.struct, "GroupInstanceId")
    assert (5 in instance.versions, instance.is_nullable(5), 4 in instance.versions) == (True, True, False)


def test_names() -> None:
    topics = field_of(definition_of("AddPartitionsToTxnRequest").struct, "V3AndBelowTopics")
    assert (topics.python_name, topics.json_name) == ("v3_and_below_topics", "v3AndBelowTopics")


def test_a_struct_that_is_used_twice() -> None:
    request = definition_of("AddPartitionsToTxnRequest").struct
    below = field_of(request, "V3AndBelowTopics").struct
    assert below == field_of(field_of(request, "Transactions").struct, "Topics").struct
    assert field_of(below, "Name").entity_type == "topicName"


def test_tagged_fields() -> None:
    value = definition_of("OffsetCommitValue").struct
    assert [field.python_name for field in value.tagged_fields_of(4)] == ["topic_id"]
    assert "topic_id" not in [field.python_name for field in value.fields_of(4)]
    assert value.tagged_fields_of(3) == ()


@pytest.mark.parametrize(
    ("message", "field", "default"),
    [
        ("JoinGroupRequest", "GroupId", ""),
        ("JoinGroupRequest", "GroupInstanceId", None),
        ("JoinGroupRequest", "RebalanceTimeoutMs", -1),
        ("JoinGroupRequest", "Protocols", ()),
        ("SyncGroupResponse", "Assignment", b""),
        ("FetchRequest", "MaxBytes", 0x7FFFFFFF),
        ("ListOffsetsRequest", "IsolationLevel", 0),
        ("JoinGroupResponse", "SkipAssignment", False),
        ("MetadataRequest", "AllowAutoTopicCreation", True),
        ("DescribeTopicPartitionsRequest", "Cursor", None),
        ("OffsetCommitValue", "topicId", bytes(16)),
        # A null without quotes is no default: what Kafka's generator makes of it is an empty struct.
        (
            "ConsumerGroupMemberMetadataValue",
            "ClassicMemberMetadata",
            {"session_timeout_ms": 0, "supported_protocols": ()},
        ),
    ],
)
def test_defaults(message: str, field: str, default: object) -> None:
    assert field_of(definition_of(message).struct, field).default == default


def test_each_definition_is_called_as_its_file() -> None:
    names = (*names_of("messages"), *names_of("records"))
    assert len(names) > 150
    assert [definition_of(name).name for name in names] == list(names)


def test_each_record_type_has_a_key_and_a_value() -> None:
    keys = {
        name.removesuffix("Key"): definition_of(name).api_key for name in names_of("records") if name.endswith("Key")
    }
    values = {
        name.removesuffix("Value"): definition_of(name).api_key
        for name in names_of("records")
        if name.endswith("Value")
    }
    assert keys == values
    assert len(set(keys.values())) == len(keys)


def test_apis_are_kafkas() -> None:
    """Keys, and versions: what is spoken is a part of what Kafka speaks."""
    for name, api in APIS.items():
        for kind in ("Request", "Response"):
            definition = definition_of(name + kind)
            assert definition.api_key == api.key
            assert {api.min_version, api.max_version} <= set(definition.versions)
    assert definition_of("ListGroupsRequest").api_key == ApiKey.LIST_GROUPS


def test_what_there_is_not() -> None:
    with pytest.raises(KeyError):
        definition_of("NoSuchRequest")
