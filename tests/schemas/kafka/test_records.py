"""Records of every type: Kafka's bytes, round trips, unknown types; and what the core writes, by the definitions."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from schemas.kafka.codec import encode
from schemas.kafka.definitions import definition_of
from schemas.kafka.records import Record, decode_record, encode_record, record_types, value_definition
from schemas.records import GroupMetadataValue, OffsetCommitValue
from schemas.wire import DecodeError, EncodeError
from tests.encoded_records import encode_group_metadata_value, encode_offset_commit_value
from tests.schemas.kafka.random_values import random_values
from tests.schemas.kafka.vectors import VECTORS
from tests.schemas.record_values import GROUPS, OFFSETS

_VERSION_BYTES = 2
VALUES = [(name, version) for name in record_types().values() for version in value_definition(name).versions]


def test_record_types() -> None:
    types = record_types()
    assert list(types.items())[:4] == [
        (0, "LegacyOffsetCommit"),
        (1, "OffsetCommit"),
        (2, "GroupMetadata"),
        (3, "ConsumerGroupMetadata"),
    ]
    assert {name.partition("Group")[0] for name in list(types.values())[3:]} == {"Consumer", "Share", "Streams"}


@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS if vector["key_hex"]], ids=lambda vector: vector["name"]
)
def test_vectors(vector: dict[str, Any]) -> None:
    key, value = bytes.fromhex(vector["key_hex"]), vector["value_hex"]
    record = decode_record(key, None if value is None else bytes.fromhex(value))
    assert isinstance(record, Record)
    assert record.name.removeprefix("Legacy") == vector["record"]
    assert record.version == vector["value_version"]
    assert encode_record(record) == (key, None if value is None else bytes.fromhex(value))


@pytest.mark.parametrize(("name", "version"), VALUES)
def test_round_trip(name: str, version: int) -> None:
    random = Random(f"record{name}{version}")
    key = random_values(definition_of(f"{name}Key"), 0, random)
    record = Record(name=name, key=key, version=version, value=random_values(value_definition(name), version, random))
    assert decode_record(*encode_record(record)) == record
    tombstone = Record(name=name, key=key, version=None, value=None)
    assert decode_record(*encode_record(tombstone)) == tombstone


def test_an_unknown_type_is_told_by_its_number() -> None:
    assert decode_record(b"\x03\xe8what follows", b"is not looked at") == 1_000


def test_a_value_version_that_does_not_exist() -> None:
    with pytest.raises(DecodeError, match="value version 1 of ConsumerGroupMetadata"):
        decode_record(b"\x00\x03\x00\x01g", b"\x00\x01\x00\x00\x00\x05\x00")
    with pytest.raises(EncodeError, match="value version 1 of ConsumerGroupMetadata"):
        encode_record(Record(name="ConsumerGroupMetadata", key={"group_id": "g"}, version=1, value={"epoch": 1}))


@given(OFFSETS)
def test_commits_are_written_as_defined(value: OffsetCommitValue) -> None:
    for version in definition_of("OffsetCommitValue").versions:
        values = {
            "offset": value.offset, "leader_epoch": value.leader_epoch, "metadata": value.metadata,
            "commit_timestamp": value.commit_timestamp_ms, "expire_timestamp": value.expire_timestamp_ms,
            "topic_id": UUID(value.topic_id).bytes if value.topic_id else bytes(16),
        }  # fmt: skip
        assert encode_offset_commit_value(value, version)[_VERSION_BYTES:] == encode(
            "OffsetCommitValue", version, values
        )


@given(GROUPS)
def test_groups_are_written_as_defined(value: GroupMetadataValue) -> None:
    for version in definition_of("GroupMetadataValue").versions:
        members = [
            {
                "member_id": member.member_id, "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host, "rebalance_timeout": member.rebalance_timeout_ms,
                "session_timeout": member.session_timeout_ms, "subscription": member.subscription,
                "assignment": member.assignment,
            }
            for member in value.members
        ]  # fmt: skip
        values = {
            "protocol_type": value.protocol_type, "generation": value.generation, "protocol": value.protocol,
            "leader": value.leader, "current_state_timestamp": value.current_state_timestamp_ms, "members": members,
        }  # fmt: skip
        assert encode_group_metadata_value(value, version)[_VERSION_BYTES:] == encode(
            "GroupMetadataValue", version, values
        )
