"""Records of `__consumer_offsets`: Kafka's bytes in every version, a real broker's log, round trips, damage."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import records
from schemas.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    Value,
)
from schemas.wire import DecodeError, EncodeError
from tests.encoded_records import encode_group_metadata_value, encode_key, encode_offset_commit_value
from tests.schemas.record_values import GROUPS, INT32, OFFSETS, TEXT

FIXTURES = Path(__file__).parents[1] / "fixtures"
VECTORS: list[dict[str, Any]] = json.loads(gzip.decompress((FIXTURES / "vectors/record_vectors.json.gz").read_bytes()))[
    "vectors"
]
OURS = [vector for vector in VECTORS if vector["record"] in ("OffsetCommit", "GroupMetadata")]
NOT_OURS = [vector for vector in VECTORS if vector not in OURS]

KEYS = st.builds(OffsetCommitKey, TEXT, TEXT, INT32) | st.builds(GroupMetadataKey, TEXT)
VERSIONS = st.integers(min_value=0, max_value=4)


def encode_value(value: Value, version: int) -> bytes:
    if isinstance(value, OffsetCommitValue):
        return encode_offset_commit_value(value, version)
    return encode_group_metadata_value(value, version)


def decoder_of(value: Value) -> Callable[[bytes], Value]:
    if isinstance(value, OffsetCommitValue):
        return records.decode_offset_commit_value
    return records.decode_group_metadata_value


def named(vector: dict[str, Any]) -> str:
    return str(vector["name"])


def expected_key(vector: dict[str, Any]) -> OffsetCommitKey | GroupMetadataKey:
    key = vector["key"]
    if vector["record"] == "GroupMetadata":
        return GroupMetadataKey(key["group"])
    return OffsetCommitKey(key["group"], key["topic"], key["partition"])


def expected_value(vector: dict[str, Any]) -> Value:
    value = vector["value"]
    if vector["record"] == "GroupMetadata":
        return GroupMetadataValue(
            protocol_type=value["protocolType"],
            generation=value["generation"],
            protocol=value["protocol"],
            leader=value["leader"],
            current_state_timestamp_ms=value.get("currentStateTimestamp", -1),
            members=tuple(map(expected_member, value["members"])),
        )
    topic_id = value.get("topicId")
    return OffsetCommitValue(
        offset=value["offset"],
        leader_epoch=value.get("leaderEpoch", -1),
        metadata=value["metadata"],
        commit_timestamp_ms=value["commitTimestamp"],
        expire_timestamp_ms=value.get("expireTimestamp", -1),
        topic_id=topic_id and str(UUID(bytes=b64decode(topic_id + "==", altchars=b"-_"))),
    )


def expected_member(member: dict[str, Any]) -> MemberMetadata:
    return MemberMetadata(
        member_id=member["memberId"],
        group_instance_id=member.get("groupInstanceId"),
        client_id=member["clientId"],
        client_host=member["clientHost"],
        rebalance_timeout_ms=member.get("rebalanceTimeout", -1),
        session_timeout_ms=member["sessionTimeout"],
        subscription=b64decode(member["subscription"]),
        assignment=b64decode(member["assignment"]),
    )


@pytest.mark.parametrize("vector", [vector for vector in OURS if vector["key_hex"]], ids=named)
def test_key_vectors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["key_hex"])
    key = records.decode_key(data)
    assert key == expected_key(vector)
    # Type 0 is read and never written: old and new commits of a partition must have one key.
    assert encode_key(expected_key(vector)) == (b"\x00\x01" if data[:2] == b"\x00\x00" else data[:2]) + data[2:]


@pytest.mark.parametrize("vector", [vector for vector in OURS if vector["value_hex"]], ids=named)
def test_value_vectors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["value_hex"])
    value = expected_value(vector)
    assert encode_value(value, vector["value_version"]) == data
    assert decoder_of(value)(data) == value


@pytest.mark.parametrize("vector", [vector for vector in OURS if vector["key_hex"]], ids=named)
def test_record_vectors(vector: dict[str, Any]) -> None:
    value_hex = vector["value_hex"]
    key, value = records.decode_record(
        bytes.fromhex(vector["key_hex"]), None if value_hex is None else bytes.fromhex(value_hex)
    )
    assert key == expected_key(vector)
    assert value == (None if value_hex is None else expected_value(vector))


@pytest.mark.parametrize("vector", NOT_OURS, ids=named)
def test_records_of_the_new_protocol_are_unknown_not_errors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["key_hex"])
    assert records.decode_record(data, b"never looked at") == (UnknownKey(int.from_bytes(data[:2], "big")), None)


def test_the_log_of_a_real_broker_byte_for_byte() -> None:
    lines = gzip.decompress((FIXTURES / "crash.offsets.jsonl.gz").read_bytes()).splitlines()
    for line in map(json.loads, lines):
        key_data, value_data = b64decode(line["key"]), b64decode(line["value"])
        key, value = records.decode_record(key_data, value_data)
        assert not isinstance(key, UnknownKey)
        assert value is not None
        assert encode_key(key) == key_data
        assert encode_value(value, int.from_bytes(value_data[:2], "big")) == value_data
    assert len(lines) > 10


def test_a_commit_with_its_own_expiry_is_version_1() -> None:
    value = OffsetCommitValue(
        offset=100,
        leader_epoch=10,
        metadata="metadata",
        commit_timestamp_ms=1234,
        expire_timestamp_ms=5678,
        topic_id="4f5f80e2-cdd5-4f08-88e4-24db129e8f3b",
    )
    expected = "0001 0000000000000064 00086d65746164617461 00000000000004d2 000000000000162e"
    for version in range(5):
        assert encode_offset_commit_value(value, version) == bytes.fromhex(expected)


def test_an_all_zero_topic_id_is_none() -> None:
    zero = "00000000-0000-0000-0000-000000000000"
    value = OffsetCommitValue(offset=1, commit_timestamp_ms=2, topic_id=zero)
    without = encode_offset_commit_value(OffsetCommitValue(offset=1, commit_timestamp_ms=2), 4)
    assert encode_offset_commit_value(value, 4) == without
    assert records.decode_offset_commit_value(without[:-1] + bytes.fromhex("010010" + "00" * 16)).topic_id is None


def test_tags_of_later_versions_are_skipped() -> None:
    offset = encode_offset_commit_value(OffsetCommitValue(offset=1, commit_timestamp_ms=2), 4)
    assert records.decode_offset_commit_value(offset[:-1] + bytes.fromhex("010702abcd")).offset == 1
    group = GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None)
    encoded = encode_group_metadata_value(group, 4)
    assert records.decode_group_metadata_value(encoded[:-1] + bytes.fromhex("010702abcd")) == group


@pytest.mark.parametrize("version", [-1, 5])
def test_value_versions_that_do_not_exist(version: int) -> None:
    head = version.to_bytes(2, "big", signed=True)
    with pytest.raises(DecodeError, match=f"value version {version}"):
        records.decode_offset_commit_value(head + bytes(40))
    with pytest.raises(DecodeError, match=f"value version {version}"):
        records.decode_group_metadata_value(head + bytes(40))
    with pytest.raises(EncodeError, match=f"value version {version}"):
        encode_offset_commit_value(OffsetCommitValue(offset=0, commit_timestamp_ms=0), version)


def test_names_that_are_too_long_and_numbers_that_do_not_fit() -> None:
    with pytest.raises(EncodeError):
        encode_key(GroupMetadataKey("g" * 32_768))
    with pytest.raises(EncodeError):
        encode_key(OffsetCommitKey("g", "t", 2**31))
    with pytest.raises(EncodeError):
        encode_offset_commit_value(OffsetCommitValue(offset=2**63, commit_timestamp_ms=0))


@pytest.mark.parametrize("key", ["", "00", "0001", "0002", "0002 0003 6161", "0002 ffff", "0002 0001 61 00"])
def test_damaged_keys(key: str) -> None:
    with pytest.raises(DecodeError):
        records.decode_key(bytes.fromhex(key))


@given(KEYS)
def test_keys_round_trip(key: OffsetCommitKey | GroupMetadataKey) -> None:
    assert records.decode_key(encode_key(key)) == key


@given(OFFSETS, VERSIONS)
def test_offsets_round_trip(value: OffsetCommitValue, version: int) -> None:
    decoded = records.decode_offset_commit_value(encode_offset_commit_value(value, version))
    assert (decoded.offset, decoded.metadata) == (value.offset, value.metadata)
    assert decoded.commit_timestamp_ms == value.commit_timestamp_ms
    assert decoded.leader_epoch == (value.leader_epoch if version >= 3 else -1)
    assert decoded.topic_id == (value.topic_id if version >= 4 else None)


@given(GROUPS)
def test_groups_round_trip(value: GroupMetadataValue) -> None:
    for version in (3, 4):
        encoded = encode_group_metadata_value(value, version)
        assert records.decode_group_metadata_value(encoded) == value


@given(GROUPS, VERSIONS)
def test_older_group_versions_lose_only_what_they_lack(value: GroupMetadataValue, version: int) -> None:
    encoded = encode_group_metadata_value(value, version)
    decoded = records.decode_group_metadata_value(encoded)
    assert encode_group_metadata_value(decoded, version) == encoded
    assert decoded.generation == value.generation
    assert [member.session_timeout_ms for member in decoded.members] == [
        member.session_timeout_ms for member in value.members
    ]


def decode_everything(data: bytes) -> None:
    decoders = (records.decode_key, records.decode_offset_commit_value, records.decode_group_metadata_value)
    for decode in decoders:
        with suppress(DecodeError):
            decode(data)


@given(st.binary(max_size=80))
def test_random_bytes(data: bytes) -> None:
    decode_everything(data)
    for version in range(5):
        decode_everything(version.to_bytes(2, "big") + data)


@given(st.builds(encode_value, OFFSETS | GROUPS, VERSIONS) | KEYS.map(encode_key), st.data())
def test_damaged_bytes(encoded: bytes, draw: st.DataObject) -> None:
    flipped = bytearray(encoded)
    bit = draw.draw(st.integers(min_value=0, max_value=8 * len(encoded) - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    decode_everything(bytes(flipped))


@given(OFFSETS | GROUPS, VERSIONS)
def test_every_truncation_is_noticed(value: Value, version: int) -> None:
    encoded = encode_value(value, version)
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            decoder_of(value)(encoded[:size])
