"""Keys and values of the offsets log are encoded whole: the product writes them from their parts."""

from __future__ import annotations

from schemas.records import (
    DEFAULT_VALUE_VERSION,
    VALUE_VERSION_MAX,
    GroupMetadataValue,
    Key,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_metadata,
    encode_group_metadata_key,
    encode_member_metadata,
    encode_offset_commit,
    encode_offset_commit_key,
)
from schemas.wire import EncodeError


def encode_key(key: Key) -> bytes:
    """Encode a record's key. Raises `EncodeError` for names longer than 32,767 bytes."""
    if isinstance(key, OffsetCommitKey):
        return encode_offset_commit_key(key.group_id, key.topic, key.partition)
    return encode_group_metadata_key(key.group_id)


def encode_offset_commit_value(value: OffsetCommitValue, version: int = DEFAULT_VALUE_VERSION) -> bytes:
    """Return the bytes of a commit. Raises `EncodeError` if a field does not fit."""
    return encode_offset_commit(
        version,
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp_ms,
        value.expire_timestamp_ms,
        value.topic_id,
    )


def encode_group_metadata_value(value: GroupMetadataValue, version: int = DEFAULT_VALUE_VERSION) -> bytes:
    """Return the bytes of a group. Raises `EncodeError` if a field does not fit."""
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise EncodeError(f"value version {version}")
    members = [
        encode_member_metadata(
            version,
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.subscription,
            member.assignment,
        )
        for member in value.members
    ]
    return encode_group_metadata(
        version,
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp_ms,
        members,
    )
