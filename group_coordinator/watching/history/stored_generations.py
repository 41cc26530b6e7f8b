"""What a classic group's stored generations say of whether brokers would convert it, in few bytes. Pure.

The coordinator stores each generation with what its members and their assignor sent. History has none of those bytes.
"""

from __future__ import annotations

from msgspec import Struct

from schemas.consumer_protocol import decode_assignment, decode_subscription
from schemas.records import GroupMetadataValue, MemberMetadata
from schemas.small_cache import small_cache
from schemas.wire import DecodeError

GENERATIONS = 16
"""So many of the latest count: who led long ago hardly leads again."""
_EACH_MAX, _NAME_MAX = 16, 200
"""Clients choose names, and however long they are: what is kept of a group has its bounds."""


class StoredGenerations(Struct, frozen=True, kw_only=True):
    """The last of a group's stored generations, and what the earlier ones add to it."""

    stored_ms: int
    """When the last one was written."""
    generation_id: int
    protocol_type: str | None
    protocol: str | None
    """The assignor."""
    members: int
    static_members: int
    session_timeouts_ms: tuple[int, ...]
    """Of its members, each once: the shortest and the longest ones."""
    unreadable: int
    """Members whose subscription or assignment is no consumer's."""
    unreadable_ids: tuple[str, ...]
    """The first of these."""
    with_data: int
    """Members whose assignment has data of the assignor."""
    had_data: tuple[tuple[str, int], ...]
    """Assignors that put data of their own into assignments, and how many generations ago they last did."""


def next_generation(before: StoredGenerations | None, group: GroupMetadataValue, stored_ms: int) -> StoredGenerations:
    """Return what is known once this generation is stored."""
    unreadable, with_data = [], 0
    for member in group.members:
        try:
            with_data += _has_data(member)
        except DecodeError:
            unreadable.append(member.member_id[:_NAME_MAX])
    later = 0 if before is None or before.generation_id == group.generation else 1
    had_data = {name: ago + later for name, ago in (before.had_data if before else ()) if ago + later < GENERATIONS}
    if with_data and group.protocol is not None:
        had_data[group.protocol[:_NAME_MAX]] = 0
    timeouts_ms = sorted({member.session_timeout_ms for member in group.members})
    return StoredGenerations(
        stored_ms=stored_ms,
        generation_id=group.generation,
        protocol_type=group.protocol_type[:_NAME_MAX] or None,
        protocol=None if group.protocol is None else group.protocol[:_NAME_MAX],
        members=len(group.members),
        static_members=sum(member.group_instance_id is not None for member in group.members),
        session_timeouts_ms=tuple(sorted({*timeouts_ms[:_EACH_MAX], *timeouts_ms[-_EACH_MAX:]})),
        unreadable=len(unreadable),
        unreadable_ids=tuple(unreadable[:_EACH_MAX]),
        with_data=with_data,
        had_data=tuple(sorted(had_data.items())),
    )


def _has_data(member: MemberMetadata) -> bool:
    """Return whether the member's assignment has data. Raises DecodeError where its bytes are no consumer's."""
    _insist_on_subscription(member.subscription)
    return bool(member.assignment and decode_assignment(member.assignment).user_data)


@small_cache(entries=256, longest=65_536)
def _insist_on_subscription(data: bytes) -> None:
    """Raise DecodeError where it is none. Members often send the same."""
    decode_subscription(data)
