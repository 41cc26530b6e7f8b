"""State blobs of versions 1 and 2: there were classic groups only, and all of a group's fields lay in one array."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from coordinator_state.classic.group import ClassicGroup
from coordinator_state.classic.member import Member, Rebalance
from coordinator_state.classic.states import GroupState
from coordinator_state.group import Group, TopicRetention
from coordinator_state.timers import Timers
from schemas.history import MemberIdentity


class OldGroup(Struct, array_like=True, gc=False):
    """A group of version 2. One of version 1 ends before `offsets_bytes`."""

    group_id: str
    epoch: int
    seq: int
    now_ms: int
    timestamp_ms: int
    state: GroupState
    previous_state: GroupState
    state_since_ms: int
    protocol_type: str | None
    protocol_name: str | None
    generation_id: int
    leader_id: str | None
    elected_leader_id: str | None
    members: dict[str, Member]
    static_members: dict[str, str]
    pending_join: dict[str, MemberIdentity]
    pending_sync: dict[str, None]
    awaiting_join_count: int
    protocol_counts: dict[str, int]
    members_bytes: int
    subscribed_topics: tuple[str, ...] | None
    new_member_added: bool
    initial_join: tuple[int, int] | None
    timers: Timers
    rebalance: Rebalance | None
    is_logged: bool
    retention: dict[str, TopicRetention] = field(default_factory=dict)
    offsets: None = None
    """They lie in the second blob."""
    offsets_bytes: int | None = None
    regex_refresh_began_ms: None = None


_decode = msgspec.msgpack.Decoder(OldGroup).decode


def read_old_state(membership: memoryview, version: int) -> Group:
    """Read the first blob of version 1 or 2, without its version byte."""
    old = _decode(membership)
    body = ClassicGroup(**{name: getattr(old, name) for name in ClassicGroup.__struct_fields__})
    if version == 1:
        body.count_members()
    return Group(
        group_id=old.group_id,
        epoch=old.epoch,
        body=body,
        seq=old.seq,
        now_ms=old.now_ms,
        timestamp_ms=old.timestamp_ms,
        timers=old.timers,
        is_logged=old.is_logged,
        retention=old.retention,
        offsets_bytes=None if version == 1 else old.offsets_bytes,
    )


OLDER_VERSIONS = {1: read_old_state, 2: read_old_state}
