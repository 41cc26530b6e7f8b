"""An offsets log read as a whole: what a coordinator that knows nothing else makes of it when it loads a partition.

Source: `GroupMetadataManager.replay`, `OffsetMetadataManager.replay`, `ClassicGroup` (Kafka 4.3). The log holds hard
state only: a group that was rebalancing is found as it last was Stable or Empty; parked requests, handed-out member ids
and timers are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from coordinator_state.classic import states
from coordinator_state.classic.states import GroupState
from schemas.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
)

TopicOffsets = dict[tuple[str, int], OffsetCommitValue]
"""(topic, partition) -> committed offset."""


class StoredGroup(Struct, kw_only=True):
    """One group as its records tell it."""

    group_id: str
    protocol_type: str | None = None
    protocol_name: str | None = None
    generation_id: int = 0
    leader_id: str | None = None
    state_since_ms: int | None = None
    members: dict[str, MemberMetadata] = field(default_factory=dict)
    """Each with the metadata of the chosen protocol only: the others are not in the log."""
    offsets: TopicOffsets = field(default_factory=dict)

    @property
    def state(self) -> GroupState:
        return states.STABLE if self.members else states.EMPTY


class StoredGroups:
    """The groups of a log. Feed it records in the order of each partition; a repeated record does no harm."""

    def __init__(self) -> None:
        self.groups: dict[str, StoredGroup] = {}
        """By id; those that were deleted are not there."""
        self._offsets: dict[str, TopicOffsets] = {}

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take in one record. A type of record that is not ours is passed over.

        Raises `DecodeError` for a damaged one; it changes nothing.
        """
        decoded_key, decoded_value = decode_record(key, value)
        if isinstance(decoded_key, OffsetCommitKey):
            assert decoded_value is None or isinstance(decoded_value, OffsetCommitValue)
            self._replay_offset(decoded_key, decoded_value)
        elif isinstance(decoded_key, GroupMetadataKey):
            assert decoded_value is None or isinstance(decoded_value, GroupMetadataValue)
            self._replay_group(decoded_key.group_id, decoded_value)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """A record replaces the group, its offsets excepted: they have records of their own.

        A group that dies has no offsets any more; one that has goes on as a consumer group.
        """
        offsets = self._offsets.get(group_id)
        if value is None and offsets:
            self.groups[group_id] = StoredGroup(group_id=group_id, offsets=offsets)
        elif value is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = _stored_group(group_id, value, self._offsets.setdefault(group_id, {}))

    def _replay_offset(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        offsets = self._offsets.setdefault(key.group_id, {})
        if value is None:
            offsets.pop((key.topic, key.partition), None)
            return
        offsets[key.topic, key.partition] = value
        if key.group_id not in self.groups:
            # Commits without membership: a group without a record of its own.
            self.groups[key.group_id] = StoredGroup(group_id=key.group_id, offsets=offsets)


def _stored_group(group_id: str, value: GroupMetadataValue, offsets: TopicOffsets) -> StoredGroup:
    members = {
        member.member_id: replace(member, rebalance_timeout_ms=member.loaded_rebalance_timeout_ms)
        for member in value.members
    }
    return StoredGroup(
        group_id=group_id,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        generation_id=value.generation,
        leader_id=next(iter(members), None) if value.leader is None else value.leader,
        state_since_ms=value.state_since_ms,
        members=members,
        offsets=offsets,
    )


def replay_offsets_log(records: Iterable[tuple[bytes, bytes | None]]) -> dict[str, StoredGroup]:
    """The groups that the (key, value) records of an offsets log leave behind, by id. Raises `DecodeError`."""
    stored = StoredGroups()
    for key, value in records:
        stored.replay(key, value)
    return stored.groups
