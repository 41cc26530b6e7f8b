"""Members that come and go; who was put out and came back was replaced by nobody. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

from group_coordinator.watching.history.view import Departure
from group_coordinator.watching.tables.rows import Member
from schemas.history import MemberIdentity

PUT_OUT = ("expired", "dropped")
"""Departures of members that asked for nothing."""


class Coming(NamedTuple):
    """A member came or went."""

    at_ms: int
    member_id: str
    client: str
    """`client_key`."""
    departure: Departure | None
    """How it went; None: it came."""
    is_own_doing: bool
    """False where it expired because its broker stood still."""


class Life(NamedTuple):
    """One life of a member in its group."""

    client: str
    """Which client it was (`client_key`)."""
    member_id: str
    joined_ms: int | None
    """None: it was there before."""
    ended_ms: int | None
    """None: it is there."""
    was_put_out: bool
    """Its session ended, or a rule or the loss of its coordinator ended its life: it asked for nothing."""


def client_key(member: MemberIdentity | Member) -> str:
    """Return the same key for all members that one client has been: its static id, else client id and host."""
    return member.group_instance_id or f"{member.client_id}@{(member.client_host or '').lstrip('/')}"


def returned(lives: Iterable[Life]) -> set[str]:
    """Return the ids of members that were put out and came back afterwards, and the ids that they came back with.

    Who is started anew without having left joins before the session of the old process ends, or on another host. So
    the same client that comes after it is the same process, unless another member with its name was there: then names
    tell nobody apart.
    """
    found: set[str] = set()
    by_client: dict[str, list[Life]] = {}
    for life in sorted(lives, key=lambda life: life.joined_ms or 0):
        by_client.setdefault(life.client, []).append(life)
    for _, own in sorted(by_client.items()):
        _find_returned(own, found)
    return found


def _find_returned(own: Sequence[Life], found: set[str]) -> None:
    """Find those of one client. `own`: its lives, by when they began."""
    began_ms = [life.joined_ms or 0 for life in own]
    latest_ms = [-inf, *accumulate((inf if life.ended_ms is None else life.ended_ms for life in own), max)]
    """When the last of so many first lives ended."""
    next_place: dict[int, int] = {}
    """Behind the place of a life that was found, where the next one may be that was not: so far it was looked."""
    for life in own:
        if not life.was_put_out or life.ended_ms is None:
            continue
        before = place = bisect_left(began_ms, life.ended_ms)
        passed = []
        while place < len(own) and own[place].member_id in found:
            passed.append(place)
            place = next_place.get(place, place + 1)
        next_place.update(dict.fromkeys(passed, place))
        if place < len(own) and latest_ms[before] <= life.ended_ms:  # else another one was there
            found |= {life.member_id, own[place].member_id}
