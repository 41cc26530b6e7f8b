"""The explanation of one rebalance, as lines: why, step by step, who was waited for, who owns what since. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo

from command_line import words
from command_line.rebalances import Gone, Ownership, Rebalance
from command_line.tables import aligned
from schemas.history import (
    AssignmentReceived,
    GroupStable,
    History,
    MemberDropped,
    MemberExpired,
    MemberIdentity,
    MemberLeft,
    RequestRefused,
    Waited,
)

OWNER_ROWS_SHOWN = 40
_NOBODY = "nobody"
_FATES: dict[type[Gone], str] = {MemberLeft: "left", MemberExpired: "expired", MemberDropped: "dropped"}


def explanation(rebalance: Rebalance, zone: tzinfo = UTC) -> Iterator[str]:
    """All that there is to say about one rebalance."""
    started = rebalance.started
    yield (
        f"Group {started.group_id}, rebalance to generation {rebalance.generation_id}, "
        f"{words.day(started.timestamp_ms, zone)} {words.clock(started.timestamp_ms, zone)} ({zone.tzname(None) or 'local time'})"
    )
    yield f"Why: {words.because(started)}."
    yield f"How it ended: {_end(rebalance)}."
    yield ""
    yield from _steps(rebalance, zone)
    waited_for = _waited_for(rebalance)
    if waited_for:
        yield ""
        yield from _waiting(rebalance, waited_for)
    if rebalance.owned_after is not None:
        yield ""
        yield from _owners(rebalance.owned_before, rebalance.owned_after)
    yield ""
    yield from _members(rebalance)


def _end(rebalance: Rebalance) -> str:
    if rebalance.completed is None:
        return "it is not over, as far as this history goes"
    return words.sentence(rebalance.completed)


# -------------------------------------------------------------------------------------------------------- step by step


def _steps(rebalance: Rebalance, zone: tzinfo) -> Iterator[str]:
    start_ms = rebalance.started.timestamp_ms
    rows = [row for record in rebalance.causes for row in _origin(record)]
    if rebalance.started.interrupts is not None:
        interrupted = "the rebalance before this one is interrupted: its members had not all synced"
        rows.insert(0, (start_ms, interrupted))
    told: dict[int, list[str]] = {}
    for each in _waited_for(rebalance):
        if each.told_ms is not None:
            told.setdefault(each.told_ms, []).append(each.member_id)
    notes = [(time_ms, f"{words.names(members)} learns of it" if len(members) == 1 else f"{words.names(members)} learn of it")
             for time_ms, members in told.items()]  # fmt: skip
    steps = [(record.timestamp_ms, _step(record, zone)) for record in rebalance.steps if not isinstance(record, GroupStable)]
    rows += sorted(steps + notes, key=lambda row: row[0])
    for time_ms, text in rows:
        since = "" if time_ms < start_ms else f"+{words.duration(time_ms - start_ms)}"
        yield f"  {words.precise_clock(time_ms, zone)}  {since:>9}  {text}"


def _origin(record: History) -> Iterator[tuple[int, str]]:
    """A cause, and where the log has what led to it."""
    if isinstance(record, MemberExpired):
        heard_ms = record.timestamp_ms - (record.time_ms - record.last_heard_ms)
        where = f"events partition {record.cause.partition}, offset {record.cause.offset}"
        yield heard_ms, f"{words.name(record.member.member_id)} is heard for the last time  [{where}]"
        yield record.timestamp_ms, words.sentence(record)
    else:
        yield record.timestamp_ms, f"{words.sentence(record)}  [{_event(record)}]"


def _step(record: History, zone: tzinfo) -> str:
    if isinstance(record, AssignmentReceived):
        return f"leader {words.name(record.leader_id)} sends the assignment"
    text = words.sentence(record, zone)
    return f"{text}  [{_event(record)}]" if isinstance(record, RequestRefused) else text


def _event(record: History) -> str:
    cause = record.cause
    what = cause.api if cause.kind == "request" else f"{cause.timer} timer, armed"
    return f"{what} at events partition {cause.partition}, offset {cause.offset}"


# -------------------------------------------------------------------------------------------------- who was waited for


def _waited_for(rebalance: Rebalance) -> tuple[Waited, ...]:
    source = rebalance.completed or rebalance.join_phase
    return source.waited_for if source is not None else ()


def _slowest(rebalance: Rebalance) -> str | None:
    source = rebalance.completed or rebalance.join_phase
    return source.slowest if source is not None else None


def _waiting(rebalance: Rebalance, waited_for: tuple[Waited, ...]) -> Iterator[str]:
    start_ms, slowest = rebalance.started.timestamp_ms, _slowest(rebalance)
    fates = {
        record.member.member_id: f"never: {_FATES[type(record)]} after {words.duration(record.timestamp_ms - start_ms)}"
        for record in rebalance.steps
        if isinstance(record, Gone)
    }
    rows = []
    for each in waited_for:
        told = "never" if each.told_ms is None else f"after {words.duration(each.told_ms - start_ms)}"
        joined = fates.get(each.member_id, "never")
        if each.joined_ms is not None:
            joined = f"after {words.duration(each.joined_ms - start_ms)}"
        took = "" if each.told_ms is None or each.joined_ms is None else words.duration(each.joined_ms - each.told_ms)
        mark = "slowest" if each.member_id == slowest and len(waited_for) > 1 else ""
        rows.append((words.name(each.member_id), told, joined, took, mark))
    yield from aligned(("WAITED FOR", "TOLD", "REJOINED", "TOOK", ""), rows)


# -------------------------------------------------------------------------------------------------------------- owners


def _owners(before: Ownership, after: Ownership) -> Iterator[str]:
    old, new = _by_partition(before), _by_partition(after)
    rows: dict[tuple[str, str, str], list[int]] = {}
    for topic, partition in sorted(old.keys() | new.keys()):
        change = topic, old.get((topic, partition), _NOBODY), new.get((topic, partition), _NOBODY)
        rows.setdefault(change, []).append(partition)
    moved = sum(len(partitions) for (_, was, now), partitions in rows.items() if was != now)
    total = sum(map(len, rows.values()))
    if not total:
        yield "No partition had an owner before, and none has one since."
        return
    table = [
        (topic, words.ranges(partitions), was, now, "" if was == now else "moved")
        for (topic, was, now), partitions in rows.items()
    ]
    yield from aligned(("TOPIC", "PARTITIONS", "OWNER BEFORE", "OWNER SINCE", ""), table[:OWNER_ROWS_SHOWN])
    if len(table) > OWNER_ROWS_SHOWN:
        yield f"... and {len(table) - OWNER_ROWS_SHOWN} more lines"
    yield f"{moved} of {words.count(total, 'partition')} changed owner."


def _by_partition(ownership: Ownership) -> dict[tuple[str, int], str]:
    return {
        (each.topic, partition): words.name(member_id)
        for member_id, topics in ownership.items()
        for each in topics or ()
        for partition in each.partitions
    }


# ------------------------------------------------------------------------------------------------------------- members


def _members(rebalance: Rebalance) -> Iterator[str]:
    """Whom the short names stand for."""
    found: dict[str, MemberIdentity] = {}
    for record in (*rebalance.causes, *rebalance.steps):
        for attribute in ("member", "leader"):
            identity = getattr(record, attribute, None)
            if isinstance(identity, MemberIdentity):
                found[identity.member_id] = identity
    rows = [
        (words.name(each.member_id), each.client_id, each.client_host, each.group_instance_id or "-", each.member_id)
        for each in found.values()
    ]
    yield from aligned(("MEMBER", "CLIENT-ID", "HOST", "INSTANCE", "MEMBER ID"), rows)
