"""The timers of a consumer group, by name. Each belongs to one member."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal, NamedTuple, cast

from msgspec.structs import replace

from coordinator_state.timers import Timer, Timers

MemberTimer = Literal["session", "rebalance", "join", "sync"]
SESSION_PREFIX = "session:"
_OF_ANOTHER_EPOCH = -1
"""In place of the event that armed a timer."""


class NamedTimer(NamedTuple):
    """A timer's kind, and its member."""

    kind: MemberTimer
    member_id: str


def session(member_id: str) -> str:
    """How long the member may be silent."""
    return SESSION_PREFIX + member_id


def rebalance(member_id: str) -> str:
    """How long the member may take to give up partitions."""
    return f"rebalance:{member_id}"


def join(member_id: str) -> str:
    """How long a member of the classic protocol may take to join again, once it was told to."""
    return f"join:{member_id}"


def sync(member_id: str) -> str:
    """How long a member of the classic protocol may take to ask for its assignment, once it has joined."""
    return f"sync:{member_id}"


def unbind_rebalance(armed: Timers, member_id: str) -> None:
    """Note that a member is in another epoch than that to which its timer to give up partitions is bound. As in Kafka
    the timer goes on, and fences nobody."""
    timer = armed.get(rebalance(member_id))
    if timer is not None:
        armed[rebalance(member_id)] = replace(timer, armed_offset=_OF_ANOTHER_EPOCH)


def is_bound(timer: Timer) -> bool:
    """Return whether a timer is bound to the epoch in which its member is."""
    return timer.armed_offset != _OF_ANOTHER_EPOCH


def timer_of(name: str) -> NamedTimer:
    """Return whose timer this is."""
    kind, _, member_id = name.partition(":")
    return NamedTimer(cast(MemberTimer, kind), member_id)


def outlives_conversion(name: str, members: Container[str]) -> bool:
    """Return whether a timer goes on while the group changes its kind, with these members.

    Those by which a classic member must join or sync do, as in Kafka: a classic group does not look at them, and when
    it is a consumer group again they count as before. Those of members that are gone end, so they do not pile up.
    """
    kind, member_id = timer_of(name)
    return kind in ("join", "sync") and member_id in members


def all_of(member_id: str) -> tuple[str, ...]:
    """Return the names of all timers that a member may have."""
    return session(member_id), rebalance(member_id), join(member_id), sync(member_id)
