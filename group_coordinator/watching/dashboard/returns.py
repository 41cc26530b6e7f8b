"""Members that come and go; who was put out and came back was replaced by nobody. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from group_coordinator.watching.history.view import Departure

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


def returned(lives: Iterable[Life]) -> set[str]:
    """Return the ids of members that were put out and came back afterwards, and the ids that they came back with.

    Who is started anew without having left joins before the session of the old process ends, or on another host. So
    the same client that comes after it is the same process, unless another member with its name was there: then names
    tell nobody apart.
    """
    found: set[str] = set()
    for _, of_client in groupby(sorted(lives, key=lambda life: life.client), lambda life: life.client):
        own = sorted(of_client, key=lambda life: life.joined_ms or 0)
        for life in own:
            if not life.was_put_out or life.ended_ms is None:
                continue
            back = [other for other in own if (other.joined_ms or 0) >= life.ended_ms and other.member_id not in found]
            if back and not any(other is not life and _is_there(other, life.ended_ms) for other in own):
                found |= {life.member_id, back[0].member_id}
    return found


def _is_there(life: Life, at_ms: int) -> bool:
    return (life.joined_ms or 0) < at_ms and (life.ended_ms is None or life.ended_ms > at_ms)
