"""Every message and record in every version: round trips, a second codec's opinion, damage."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from random import Random
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from schemas.kafka.codec import decode, encode
from schemas.kafka.definitions import definition_of
from schemas.wire import DecodeError, EncodeError
from tests.each_version import in_each_version
from tests.schemas.kafka.random_values import random_values
from tests.schemas.kafka.vectors import VERSIONED

_EACH = 5


def as_objects(value: Any) -> Any:
    """The same with the fields of structs as attributes."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_objects(item) for name, item in value.items()})
    return tuple(map(as_objects, value)) if isinstance(value, tuple) else value


@in_each_version(VERSIONED)
def test_round_trip(name: str, version: int) -> None:
    random = Random(f"{name}{version}")
    for _ in range(_EACH):
        values = random_values(definition_of(name), version, random)
        encoded = encode(name, version, values)
        assert decode(name, version, encoded) == values
        assert encode(name, version, {field: as_objects(value) for field, value in values.items()}) == encoded


UNKNOWN_TO_KIO = {
    *((f"{api}{kind}", version)
      for api, version in (("ApiVersions", 5), ("DeleteGroups", 3), ("StreamsGroupDescribe", 1),
                           ("StreamsGroupHeartbeat", 1), ("TxnOffsetCommit", 6))
      for kind in ("Request", "Response")),
}  # fmt: skip


@in_each_version(
    each
    for each in VERSIONED
    if definition_of(each[0]).type in ("request", "response") and each not in UNKNOWN_TO_KIO
)
def test_kio_reads_what_is_written_here(name: str, version: int) -> None:
    """A codec by another author reads our bytes and writes the same."""
    definition = definition_of(name)
    kind: Literal[EntityType.request, EntityType.response]
    kind = EntityType.request if definition.type == "request" else EntityType.response
    cls = getattr(load_payload_module(definition.api_key or 0, version, kind), name)
    random = Random(f"kio{name}{version}")
    tried = 0
    for _ in range(4 * _EACH):
        written = encode(name, version, random_values(definition, version, random))
        try:
            entity, size = entity_reader(cls)(written, 0)
        except ValueError:
            continue  # a number of milliseconds that kio does not take
        assert size == len(written)
        buffer = BytesIO()
        entity_writer(cls)(buffer, entity)
        assert buffer.getvalue() == written
        tried += 1
    assert tried


@in_each_version(VERSIONED)
def test_damage_is_a_decode_error_and_nothing_else(name: str, version: int) -> None:
    random = Random(f"damage{name}{version}")
    encoded = encode(name, version, random_values(definition_of(name), version, random))
    ends, damages = (300, 100) if definition_of(name).type == "request" else (50, 50)  # anybody may send a request
    for end in range(max(0, len(encoded) - ends), len(encoded)):
        with pytest.raises(DecodeError):
            decode(name, version, encoded[:end])
    with pytest.raises(DecodeError):
        decode(name, version, encoded + b"\x00")
    for _ in range(damages):
        damaged = bytearray(encoded)
        for _ in range(random.choice((1, 3))):
            if damaged:
                damaged[random.randrange(len(damaged))] = random.randrange(256)
        with suppress(DecodeError):
            decode(name, version, bytes(damaged))


def test_a_missing_field_has_kafkas_default() -> None:
    assert decode("JoinGroupRequest", 9, encode("JoinGroupRequest", 9, {"group_id": "g"})) == {
        "group_id": "g", "session_timeout_ms": 0, "rebalance_timeout_ms": -1, "member_id": "",
        "group_instance_id": None, "protocol_type": "", "protocols": (), "reason": None,
    }  # fmt: skip


def test_a_tagged_field_is_written_when_it_is_not_its_default() -> None:
    commit = {"offset": 1, "leader_epoch": 2, "metadata": "", "commit_timestamp": 3}
    without = encode("OffsetCommitValue", 4, commit)
    assert encode("OffsetCommitValue", 4, commit | {"topic_id": bytes(16)}) == without
    topic_id = bytes(range(16))
    written = encode("OffsetCommitValue", 4, commit | {"topic_id": topic_id})
    assert written == without[:-1] + b"\x01\x00\x10" + topic_id
    assert decode("OffsetCommitValue", 4, written) == commit | {"topic_id": topic_id}


def test_a_tagged_field_that_is_longer_than_its_value() -> None:
    without = encode("OffsetCommitValue", 4, {})
    with pytest.raises(DecodeError, match="does not end where it should"):
        decode("OffsetCommitValue", 4, without[:-1] + b"\x01\x00\x11" + bytes(17))


def test_a_nullable_struct() -> None:
    """Null is written even where it is tagged: an absent tag means an empty struct."""
    name = "ConsumerGroupMemberMetadataValue"
    absent = encode(name, 0, {})
    null = encode(name, 0, {"classic_member_metadata": None})
    assert null == absent[:-1] + b"\x01\x00\x01\x00", "as Kafka 4.3 writes record 5"
    assert decode(name, 0, null)["classic_member_metadata"] is None
    assert "classic_member_metadata" not in decode(name, 0, absent)


def test_items_are_bounded_in_tags_as_well() -> None:
    protocols = tuple({"name": "n", "metadata": b""} for _ in range(10))
    member = {
        "subscribed_topic_names": ("t",) * 5,
        "classic_member_metadata": {"session_timeout_ms": 1, "supported_protocols": protocols},
    }
    encoded = encode("ConsumerGroupMemberMetadataValue", 0, member)
    decode("ConsumerGroupMemberMetadataValue", 0, encoded, items_max=15)
    with pytest.raises(DecodeError, match="more than 14 items"):
        decode("ConsumerGroupMemberMetadataValue", 0, encoded, items_max=14)


def test_values_that_a_version_cannot_say() -> None:
    for values in ({"generation_id": 2**31}, {"member_id": None}, {"group_id": "x" * 32_768}):
        with pytest.raises(EncodeError):
            encode("HeartbeatRequest", 0, values)
