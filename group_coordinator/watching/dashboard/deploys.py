"""Deploys of a group: the rebalances of one roll are an episode, and what it cost is one row. Pure.

Rebalances belong together while at most `HealthSettings.roll_apart_ms` lies between the end of one and the begin of the
next. They are a deploy where others (`returns`) have come for more than half of the members that were there before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from group_coordinator.watching.dashboard.lanes import Lane, Past
from group_coordinator.watching.dashboard.returns import PUT_OUT, Life, client_key, returned
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.tables.fold import rows_of_group
from group_coordinator.watching.tables.rows import Member, Rebalance
from schemas.history import History

DEPLOYS_SHOWN = 5


class Deploy(Struct, frozen=True, kw_only=True):
    """One roll of a group. Times are milliseconds since 1970."""

    started: int
    ended: int
    """The end of its last rebalance so far."""
    rebalances: int
    members: int
    """Those that were there before ..."""
    replaced: int
    """... and how many of them others have come for."""
    unowned_ms: int
    """Partition-milliseconds without an owner."""
    longest_ms: int
    """So long one partition had none."""
    not_known_ms: int
    """Partition-milliseconds of which no source says whether there was an owner."""


def deploys(
    rebalances: Iterable[Rebalance], members: list[Member], group_lanes: Sequence[Lane], now_ms: int,
    settings: HealthSettings,
) -> list[Deploy]:  # fmt: skip
    """Return the last deploys, the oldest first."""
    episodes: list[list[Rebalance]] = []
    ended_ms = 0
    for row in sorted(rebalances, key=lambda row: (row.started_ms, row.seq)):
        if not episodes or row.started_ms - ended_ms > settings.roll_apart_ms:
            episodes.append([])
        episodes[-1].append(row)
        ended_ms = max(ended_ms, row.ended_ms or row.started_ms)
    back = returned(map(_life, members))
    others = [each for each in members if each.member_id not in back]
    found = (_deploy(rows, members, others, group_lanes, now_ms) for rows in reversed(episodes))
    last = [deploy for deploy in found if deploy is not None][:DEPLOYS_SHOWN]
    return last[::-1]


def deploys_in(history: Sequence[History]) -> list[Deploy]:
    """Return the last deploys that a group's history tells of, the oldest first."""
    past, rows = Past(history), rows_of_group(history)
    members = [row for row in rows if isinstance(row, Member)]
    rebalances = (row for row in rows if isinstance(row, Rebalance))
    return deploys(rebalances, members, past.lanes(rows, past.last_ms), past.last_ms, HealthSettings())


def _deploy(
    rows: Sequence[Rebalance], members: list[Member], others: list[Member], group_lanes: Sequence[Lane], now_ms: int
) -> Deploy | None:
    ended_ms = max(row.ended_ms or now_ms for row in rows)
    there = _there(members, rows[0])
    if not there:  # the group came together; what followed may be a roll
        ends_ms = [each.ended_ms for each in members if each.ended_ms is not None]
        first_ms = min((end_ms for end_ms in ends_ms if end_ms > rows[0].started_ms), default=ended_ms)
        rows = [row for row in rows if (row.ended_ms or now_ms) >= first_ms]
        there = _there(members, rows[0]) if rows else []
    if len(rows) < 2:
        return None
    began_ms = rows[0].started_ms
    before = _there(others, rows[0])
    known = set(map(id, before))
    gone = sum(each.ended_ms is not None and each.ended_ms <= ended_ms for each in before)
    came = sum(
        each.joined_ms is not None and each.joined_ms <= ended_ms and id(each) not in known
        and (each.ended_ms is None or each.ended_ms > ended_ms)
        for each in others
    )  # fmt: skip
    replaced = min(gone, came)
    if 2 * replaced <= len(there):
        return None
    gaps = [
        (gap.kind, max(0, min(gap.to_ms or now_ms, ended_ms) - max(gap.from_ms, began_ms)))
        for lane in group_lanes
        for gap in lane.gaps
    ]
    unowned = [length_ms for kind, length_ms in gaps if kind != "not_known"]
    return Deploy(
        started=began_ms,
        ended=ended_ms,
        rebalances=len(rows),
        members=len(there),
        replaced=replaced,
        unowned_ms=sum(unowned),
        longest_ms=max(unowned, default=0),
        not_known_ms=sum(length_ms for kind, length_ms in gaps if kind == "not_known"),
    )


def _life(member: Member) -> Life:
    return Life(client_key(member), member.member_id, member.joined_ms, member.ended_ms, member.ended_by in PUT_OUT)


def _there(members: Iterable[Member], first: Rebalance) -> list[Member]:
    """Return the members that were there before. Who set it off has left, or joined, a moment before it began."""
    before = [each for each in members if each.joined_ms is not None and each.joined_ms < first.started_ms]
    doer, has_joined = first.member_id, first.trigger == "member_joined"
    return [
        each
        for each in before
        if (not has_joined if each.member_id == doer else each.ended_ms is None or each.ended_ms >= first.started_ms)
    ]
