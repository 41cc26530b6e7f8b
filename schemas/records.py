"""Records of `__consumer_offsets` of classic groups: typed keys and values, and their bytes.

Values are read by Kafka's definitions, and tests compare what is written with them. `schemas.kafka.records` has every
type.
A key starts with the record type, a value with its version. A null value is a tombstone: it deletes its key.
Source: Kafka's OffsetCommitKey/Value.json and GroupMetadataKey/Value.json; KIP-211, KIP-320, KIP-345, KIP-915.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import Any

from msgspec import Struct

from schemas.kafka.codec import decode
from schemas.wire import (
    INT16,
    INT32,
    INT64,
    NO_TOPIC_ID,
    DecodeError,
    EncodeError,
    Reader,
    encode_blob,
    encode_count,
    encode_nullable_string,
    encode_string,
    encode_uuid,
    pack,
    topic_id_text,
)

OFFSET_COMMIT_TYPE = 1
"""Record type of a commit. Old brokers wrote 0, which is read alike; two types for one key would not compact
together."""
GROUP_METADATA_TYPE = 2
VALUE_VERSION_MAX = 4
DEFAULT_VALUE_VERSION = 3
"""What Kafka writes up to 4.0, and for groups in every release; from 4.1 on it writes offsets as version 4."""
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1
NO_TIMEOUT = -1

_EXPIRING_VERSION = 1
_FLEXIBLE_VERSION = 4
_TOPIC_ID_TAG_HEAD = b"\x01\x00\x10"
"""One tagged field: tag 0, 16 bytes."""
_NO_TAGS = b"\x00"

_OFFSET = Layout(">hq")
_OFFSET_AND_EPOCH = Layout(">hqi")
_PLAIN_COMMIT = Layout(">hqiBqB")
"""Version 4 without metadata and topic id: version, offset, epoch, length of the metadata, timestamp, tags."""
_TIMESTAMP_AND_EXPIRY = Layout(">qq")


class OffsetCommitKey(Struct, frozen=True):
    """Key of a committed offset."""

    group_id: str
    topic: str
    partition: int


class OffsetCommitValue(Struct, frozen=True, kw_only=True):
    """A committed offset."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    """Versions 3 and 4; -1 for unknown."""
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    """Version 1 only: when the commit brought its own retention; -1 for none."""
    topic_id: str | None = None
    """Version 4 only (Kafka 4.1): the topic's uuid as text with hyphens; None for unknown."""


class GroupMetadataKey(Struct, frozen=True):
    """Key of a classic group."""

    group_id: str


class MemberMetadata(Struct, frozen=True, kw_only=True):
    """A member of a stored group."""

    member_id: str
    group_instance_id: str | None = None
    """Versions 3 and 4."""
    client_id: str
    client_host: str
    """As Java prints an address: `/10.0.0.1`."""
    rebalance_timeout_ms: int = NO_TIMEOUT
    """Version 1 and later; -1 where the version has none."""
    session_timeout_ms: int
    subscription: bytes
    """What the member sent in JoinGroup for the chosen protocol, untouched."""
    assignment: bytes
    """What the leader sent for the member, untouched; empty if it sent nothing."""

    @property
    def loaded_rebalance_timeout_ms(self) -> int:
        """Its rebalance timeout when the group is loaded: where the record has none, the session timeout serves.
        Source: `GroupMetadataManager.replay`."""
        return self.session_timeout_ms if self.rebalance_timeout_ms == NO_TIMEOUT else self.rebalance_timeout_ms


class GroupMetadataValue(Struct, frozen=True, kw_only=True):
    """A classic group between two rebalances: Stable if it has members, else Empty."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int = NO_TIMESTAMP
    """Version 2 and later."""
    members: tuple[MemberMetadata, ...] = ()

    @property
    def state_since_ms(self) -> int | None:
        """When its state began; None if the version does not say."""
        return None if self.current_state_timestamp_ms == NO_TIMESTAMP else self.current_state_timestamp_ms


class UnknownKey(Struct, frozen=True):
    """Key of a record type that is not ours, such as those of consumer groups: to be skipped."""

    type: int


Key = OffsetCommitKey | GroupMetadataKey
Value = OffsetCommitValue | GroupMetadataValue


def encode_group_metadata_key(group_id: str) -> bytes:
    """Return the key of a classic group, from its encoded id. Raises `EncodeError` for ids longer than 32,767 bytes.
    """
    return INT16.pack(GROUP_METADATA_TYPE) + encode_string(group_id)


def encode_offset_commit_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset, from its encoded parts. Raises `EncodeError` where one does not fit."""
    try:
        return offset_commit_keys(group_id, topic) + INT32.pack(partition)
    except struct.error as error:
        raise EncodeError(str(error)) from None


@lru_cache(maxsize=256)
def offset_commit_keys(group_id: str, topic: str) -> bytes:
    """Return the beginning of the keys of all partitions of a topic; the number follows. Raises `EncodeError` for
    names longer than 32,767 bytes."""
    return INT16.pack(OFFSET_COMMIT_TYPE) + encode_string(group_id) + encode_string(topic)


def encode_offset_commit(
    version: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int,
    topic_id: str | None,
) -> bytes:
    """Write version 0-4; fields that the version lacks are dropped. `EncodeError` if a field does not fit.

    A commit with its own expiry is always written as version 1, the only one that has it
    (Kafka's `GroupCoordinatorRecordHelpers.newOffsetCommitRecord`).
    """
    if version == _FLEXIBLE_VERSION and not metadata and topic_id is None and expire_timestamp_ms == NO_TIMESTAMP:
        try:
            return _PLAIN_COMMIT.pack(version, offset, leader_epoch, 1, commit_timestamp_ms, 0)
        except struct.error as error:
            raise EncodeError(str(error)) from None
    _insist_on_version(version)
    if expire_timestamp_ms != NO_TIMESTAMP:
        version = _EXPIRING_VERSION
    if version < 3:
        head = pack(_OFFSET, version, offset)
    else:
        head = pack(_OFFSET_AND_EPOCH, version, offset, leader_epoch)
    text = encode_string(metadata, version >= _FLEXIBLE_VERSION)
    if version == _EXPIRING_VERSION:
        tail = pack(_TIMESTAMP_AND_EXPIRY, commit_timestamp_ms, expire_timestamp_ms)
    else:
        tail = pack(INT64, commit_timestamp_ms)
    tags = _encode_topic_id(topic_id) if version >= _FLEXIBLE_VERSION else b""
    return b"".join((head, text, tail, tags))


def encode_group_metadata(
    version: int,
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    current_state_timestamp_ms: int,
    members: Sequence[bytes],
) -> bytes:
    """Write version 0-4; fields that the version lacks are dropped. `EncodeError` if a field does not fit.

    The members come from `encode_member_metadata`.
    """
    flexible = version >= _FLEXIBLE_VERSION
    try:
        parts = (
            INT16.pack(version),
            encode_string(protocol_type, flexible),
            INT32.pack(generation),
            encode_nullable_string(protocol, flexible),
            encode_nullable_string(leader, flexible),
            INT64.pack(current_state_timestamp_ms) if version >= 2 else b"",
            encode_count(len(members), flexible),
            *members,
            _NO_TAGS if flexible else b"",
        )
    except struct.error as error:
        raise EncodeError(str(error)) from None
    return b"".join(parts)


def encode_member_metadata(
    version: int,
    member_id: str,
    group_instance_id: str | None,
    client_id: str,
    client_host: str,
    rebalance_timeout_ms: int,
    session_timeout_ms: int,
    subscription: bytes,
    assignment: bytes,
) -> bytes:
    """Encode one member for `encode_group_metadata`."""
    flexible = version >= _FLEXIBLE_VERSION
    try:
        parts = (
            encode_string(member_id, flexible),
            encode_nullable_string(group_instance_id, flexible) if version >= 3 else b"",
            encode_string(client_id, flexible),
            encode_string(client_host, flexible),
            INT32.pack(rebalance_timeout_ms) if version >= 1 else b"",
            INT32.pack(session_timeout_ms),
            encode_blob(subscription, flexible),
            encode_blob(assignment, flexible),
            _NO_TAGS if flexible else b"",
        )
    except struct.error as error:
        raise EncodeError(str(error)) from None
    return b"".join(parts)


def decode_key(data: bytes) -> Key | UnknownKey:
    """Decode a record's key; raise `DecodeError` if a key of a known type is damaged."""
    reader = Reader(data)
    record_type = reader.int16()
    key: Key
    if 0 <= record_type <= OFFSET_COMMIT_TYPE:
        key = OffsetCommitKey(reader.string(), reader.string(), reader.int32())
    elif record_type == GROUP_METADATA_TYPE:
        key = GroupMetadataKey(reader.string())
    else:
        return UnknownKey(record_type)
    reader.end()
    return key


def decode_offset_commit_value(data: bytes) -> OffsetCommitValue:
    """Read version 0-4; `DecodeError` for others and for damaged bytes."""
    values = _decode_value("OffsetCommitValue", data)
    return OffsetCommitValue(
        offset=values["offset"],
        leader_epoch=values.get("leader_epoch", NO_LEADER_EPOCH),
        metadata=values["metadata"],
        commit_timestamp_ms=values["commit_timestamp"],
        expire_timestamp_ms=values.get("expire_timestamp", NO_TIMESTAMP),
        topic_id=topic_id_text(values.get("topic_id", NO_TOPIC_ID)),
    )


def decode_group_metadata_value(data: bytes) -> GroupMetadataValue:
    """Read version 0-4; `DecodeError` for others and for damaged bytes."""
    return group_metadata(_decode_value("GroupMetadataValue", data))


def group_metadata(values: Mapping[str, Any]) -> GroupMetadataValue:
    """Return the value of a group's record from its fields, as `schemas.kafka.records` reads them."""
    return GroupMetadataValue(
        protocol_type=values["protocol_type"],
        generation=values["generation"],
        protocol=values["protocol"],
        leader=values["leader"],
        current_state_timestamp_ms=values.get("current_state_timestamp", NO_TIMESTAMP),
        members=tuple(map(_member_metadata, values["members"])),
    )


def decode_record(key: bytes, value: bytes | None) -> tuple[Key | UnknownKey, Value | None]:
    """Read a record. The value is None for a tombstone, and for an unknown key, whose value is not looked at."""
    decoded_key = decode_key(key)
    if value is None or isinstance(decoded_key, UnknownKey):
        return decoded_key, None
    if isinstance(decoded_key, OffsetCommitKey):
        return decoded_key, decode_offset_commit_value(value)
    return decoded_key, decode_group_metadata_value(value)


def _insist_on_version(version: int) -> None:
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise EncodeError(f"value version {version}")


def _decode_value(name: str, data: bytes) -> dict[str, Any]:
    version = Reader(data).int16()
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise DecodeError(f"value version {version}", INT16.size)
    return decode(name, version, data, INT16.size)


def _member_metadata(values: dict[str, Any]) -> MemberMetadata:
    return MemberMetadata(
        member_id=values["member_id"],
        group_instance_id=values.get("group_instance_id"),
        client_id=values["client_id"],
        client_host=values["client_host"],
        rebalance_timeout_ms=values.get("rebalance_timeout", NO_TIMEOUT),
        session_timeout_ms=values["session_timeout"],
        subscription=values["subscription"],
        assignment=values["assignment"],
    )


def _encode_topic_id(topic_id: str | None) -> bytes:
    encoded = NO_TOPIC_ID if topic_id is None else encode_uuid(topic_id)
    return _NO_TAGS if encoded == NO_TOPIC_ID else _TOPIC_ID_TAG_HEAD + encoded
