"""The explanation of one rebalance, as lines: why, step by step, who was waited for, who owns what since. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo

from group_coordinator.command_line.tables import aligned
from group_coordinator.narrative import sentences, words
from group_coordinator.narrative.rebalances import Ownership, Rebalance
from group_coordinator.narrative.steps import Move, WaitedFor, moves, steps, waited_for
from schemas.history import MemberIdentity

OWNER_ROWS_SHOWN = 40


def explanation(rebalance: Rebalance, zone: tzinfo = UTC) -> Iterator[str]:
    """Yield all lines about one rebalance."""
    started = rebalance.started
    yield (
        f"Group {started.group_id}, rebalance to {rebalance.counts} {rebalance.generation_id}, "
        f"{words.day(started.timestamp_ms, zone)} {words.clock(started.timestamp_ms, zone)} "
        f"({zone.tzname(None) or 'local time'})"
    )
    yield f"Why: {sentences.because(started)}."
    yield f"How it ended: {_end(rebalance)}."
    yield ""
    yield from _steps(rebalance, zone)
    waited = waited_for(rebalance)
    if waited:
        yield ""
        yield from _waiting(rebalance, waited)
    if rebalance.owned_after is not None:
        yield ""
        yield from _owners(rebalance.owned_before, rebalance.owned_after)
    yield ""
    yield from _members(rebalance)


def _end(rebalance: Rebalance) -> str:
    if rebalance.gap is not None:
        return f"the recording does not tell: {rebalance.gap}"
    if rebalance.completed is None:
        return "it is not over, as far as this history goes"
    return sentences.sentence(rebalance.completed)


def _steps(rebalance: Rebalance, zone: tzinfo) -> Iterator[str]:
    start_ms = rebalance.started.timestamp_ms
    for step in steps(rebalance, zone):
        since = "" if step.time_ms < start_ms else f"+{words.duration(step.time_ms - start_ms)}"
        log_place = f"  [{step.where}]" if step.where else ""
        yield f"  {words.precise_clock(step.time_ms, zone)}  {since:>9}  {step.text}{log_place}"


def _waiting(rebalance: Rebalance, waited: list[WaitedFor]) -> Iterator[str]:
    start_ms = rebalance.started.timestamp_ms
    rows = []
    for member in waited:
        learned = "never" if member.told_ms is None else f"after {words.duration(member.told_ms - start_ms)}"
        if member.joined_ms is not None:
            rejoined = f"after {words.duration(member.joined_ms - start_ms)}"
        else:
            rejoined = (
                "never"
                if member.gone_ms is None
                else f"never: {member.fate} after {words.duration(member.gone_ms - start_ms)}"
            )
        duration = (
            ""
            if member.told_ms is None or member.joined_ms is None
            else words.duration(member.joined_ms - member.told_ms)
        )
        mark = "slowest" if member.is_slowest and len(waited) > 1 else ""
        rows.append((words.name(member.member_id), learned, rejoined, duration, mark))
    yield from aligned(("WAITED FOR", "TOLD", "REJOINED", "TOOK", ""), rows)


def _owners(before: Ownership, after: Ownership) -> Iterator[str]:
    all_moves = moves(before, after)
    if not all_moves:
        yield "No partition had an owner before, and none has one since."
        return
    table = [
        (
            holding.topic,
            words.ranges(holding.partitions),
            _owner(holding.before),
            _owner(holding.after),
            "moved" if _has_moved(holding) else "",
        )
        for holding in all_moves
    ]
    yield from aligned(("TOPIC", "PARTITIONS", "OWNER BEFORE", "OWNER SINCE", ""), table[:OWNER_ROWS_SHOWN])
    if len(table) > OWNER_ROWS_SHOWN:
        yield f"... and {len(table) - OWNER_ROWS_SHOWN} more lines"
    moved = sum(len(holding.partitions) for holding in all_moves if _has_moved(holding))
    total = sum(len(holding.partitions) for holding in all_moves)
    yield f"{moved} of {words.count(total, 'partition')} changed owner."


def _owner(member_id: str | None) -> str:
    return "nobody" if member_id is None else words.name(member_id)


def _has_moved(move: Move) -> bool:
    """Compare by the names that are shown: the table of members tells equal names apart."""
    return _owner(move.before) != _owner(move.after)


def _members(rebalance: Rebalance) -> Iterator[str]:
    """Whom the short names stand for."""
    identities: dict[str, MemberIdentity] = {}
    for record in (*rebalance.causes, *rebalance.steps):
        for attribute in ("member", "leader"):
            identity = getattr(record, attribute, None)
            if isinstance(identity, MemberIdentity):
                identities[identity.member_id] = identity
    rows = [
        (
            words.name(holding.member_id),
            holding.client_id,
            holding.client_host,
            holding.group_instance_id or "-",
            holding.member_id,
        )
        for holding in identities.values()
    ]
    yield from aligned(("MEMBER", "CLIENT-ID", "HOST", "INSTANCE", "MEMBER ID"), rows)
