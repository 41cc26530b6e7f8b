"""Who holds up a group, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo

from group_coordinator.watching.history.holding import Holder
from group_coordinator.watching.narrative import words
from schemas.history import MemberIdentity


def sentence(
    holder: Holder, told_ms: int | None, members: Mapping[str, MemberIdentity] | None = None, zone: tzinfo = UTC
) -> str:
    """Return what a member must give up, since when, and who waits for it, without a full stop.

    `told_ms` is the time to show. `members` have names; where they are not known, ids stand for them.
    """
    since = "and has not heard of it yet"
    if told_ms is not None:
        since = f"since {words.day(told_ms, zone)} {words.clock(told_ms, zone)}"
    must = f"must give up {words.owned(holder.topics)} {since}"
    return f"{called(holder.member_id, members)} {must}{_waits(holder, members)}"


def since(holder: Holder, for_ms: int, members: Mapping[str, MemberIdentity] | None = None) -> str:
    """Return for how long a member, which was told so, has not given up its partitions."""
    has = f"has not given up {words.owned(holder.topics)} for {words.duration(for_ms)}"
    return f"{called(holder.member_id, members)} {has}{_waits(holder, members)}"


def called(member_id: str, members: Mapping[str, MemberIdentity] | None) -> str:
    """Return a recognizable name of a member."""
    identity = None if members is None else members.get(member_id)
    return words.name(member_id) if identity is None else words.member(identity)


def _waits(holder: Holder, members: Mapping[str, MemberIdentity] | None) -> str:
    if not holder.waiting:
        return ""
    who = words.listed([called(member_id, members) for member_id in holder.waiting])
    return f"; {who} {'waits' if len(holder.waiting) == 1 else 'wait'} for it"
