"""The members of a group over time, each with the colour that it has in the swim-lanes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from group_coordinator.watching.narrative import words
from group_coordinator.watching.tables.rows import Member
from schemas.history import History, MemberExpired, MemberIdentity


def by_appearance(rows: Iterable[Member]) -> list[Member]:
    """Return the members that joined, and the ids that were never used, by when they were first seen."""
    return sorted(rows, key=lambda row: (row.first_seen_ms, row.seq))


def slots(members: Sequence[Member]) -> list[int]:
    """Return a colour's number for each member. A client that comes back has the colour that it had; no two members
    share one at a time."""
    free_from: list[int | None] = []
    """When the last life with this colour ended; None: it goes on."""
    owner: list[tuple[str | None, str | None, str | None]] = []
    slot_numbers = []
    for member in members:
        client = member.group_instance_id, member.client_id, member.client_host
        free = [
            number
            for number, ended_ms in enumerate(free_from)
            if ended_ms is not None and ended_ms <= member.first_seen_ms
        ]
        own = [number for number in free if owner[number] == client or owner[number][1:2] == client[1:2]]
        if own:
            slot = own[0]
        elif member.joined_ms is None and free:
            slot = free[0]
        else:
            slot = len(free_from)
            free_from.append(None)
            owner.append(client)
        free_from[slot], owner[slot] = member.ended_ms, client
        slot_numbers.append(slot)
    return slot_numbers


def last_heard(life: Iterable[History]) -> dict[str, int]:
    """Return when each expired member was last heard: from then on what it owned stood still."""
    return {
        record.member.member_id: record.timestamp_ms - (record.time_ms - record.last_heard_ms)
        for record in life
        if isinstance(record, MemberExpired) and record.last_heard_ms is not None
    }


def member_documents(members: Sequence[Member], last_heard_ms: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the page's data of each member. `last_heard_ms` is the result of `last_heard`."""
    return [
        {
            "id": row.member_id,
            "name": _name(row),
            "client": row.client_id,
            "host": row.client_host,
            "instance": row.group_instance_id,
            "replaces": row.replaces,
            "slot": slot,
            "first": row.first_seen_ms,
            "joined": row.joined_ms,
            "ended": row.ended_ms,
            "heard": last_heard_ms.get(row.member_id),
            "ended_by": row.ended_by,
            "reason": row.reason,
            "rejoins": row.rejoins,
            "session": row.session_timeout_ms,
            "rebalance": row.rebalance_timeout_ms,
            "protocols": row.protocols,
            "topics": row.subscribed_topics,
            "generations": [row.first_generation_id, row.last_generation_id],
        }
        for row, slot in zip(members, slots(members), strict=True)
    ]


def _name(row: Member) -> str:
    if row.client_id is None:
        return words.name(row.member_id)
    return words.member(
        MemberIdentity(member_id=row.member_id, client_id=row.client_id, client_host=row.client_host or "")
    )
