"""The explanation of one rebalance, as lines: why, step by step, who was waited for, who owns what since. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from group_coordinator.command_line.tables import aligned
from group_coordinator.watching.narrative import holding, sentences, words
from group_coordinator.watching.narrative.rebalances import Rebalance, because
from group_coordinator.watching.narrative.steps import Move, WaitedFor, identities_in, moves_of, steps, waited_for

if TYPE_CHECKING:
    from group_coordinator.watching.dashboard.deploys import Deploy

OWNER_ROWS_SHOWN = 40


def explanation(rebalance: Rebalance, zone: tzinfo = UTC) -> Iterator[str]:
    """Yield all lines about one rebalance."""
    started = rebalance.started
    yield (
        f"Group {started.group_id}, rebalance to {rebalance.counts} {rebalance.generation_id}, "
        f"{words.day(started.timestamp_ms, zone)} {words.clock(started.timestamp_ms, zone)} "
        f"({zone.tzname(None) or 'local time'})"
    )
    yield f"Why: {because(rebalance)}."
    yield f"How it ended: {_end(rebalance)}."
    yield ""
    yield from _steps(rebalance, zone)
    waited = waited_for(rebalance)
    if waited:
        yield ""
        yield from _waiting(rebalance, waited)
    if rebalance.holders:
        yield ""
        yield from _holders(rebalance, zone)
    if rebalance.owned_after is not None or rebalance.target is not None:
        yield ""
        yield from _owners(moves_of(rebalance))
    yield ""
    yield from _members(rebalance)


def deploys_told(deploys: Sequence[Deploy], zone: tzinfo = UTC) -> Iterator[str]:
    """Yield the lines about deploys, side by side."""
    rows = [
        (
            f"{words.day(each.started, zone)} {words.clock(each.started, zone)}",
            words.duration(each.ended - each.started),
            str(each.rebalances),
            f"{each.replaced} of {each.members}",
            ("at least " if each.not_known_ms else "") + words.duration(each.unowned_ms),
            words.duration(each.longest_ms),
        )
        for each in deploys
    ]
    titles = ("DEPLOY", "TOOK", "REBALANCES", "MEMBERS REPLACED", "PARTITION-TIME WITHOUT OWNER", "LONGEST")
    yield from aligned(titles, rows)


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
        learned = "never" if member.told_ms is None else _since(member.told_ms - start_ms)
        rejoined, duration = "never", ""
        if member.joined_ms is not None:
            rejoined = f"after {words.duration(member.joined_ms - start_ms)}"
            duration = "" if member.told_ms is None else words.duration(member.joined_ms - member.told_ms)
        elif member.gone_ms is not None:
            rejoined = f"never: {member.fate} after {words.duration(member.gone_ms - start_ms)}"
        mark = "slowest" if member.is_slowest and len(waited) > 1 else ""
        rows.append((words.name(member.member_id), learned, rejoined, duration, mark))
    done = "GAVE UP" if rebalance.counts == "epoch" else "REJOINED"
    yield from aligned(("WAITED FOR", "TOLD", done, "TOOK", ""), rows)


def _since(after_ms: int) -> str:
    """A member of a consumer group may have been told before, and not have done so since."""
    return f"after {words.duration(after_ms)}" if after_ms >= 0 else f"{words.duration(-after_ms)} before"


def _holders(rebalance: Rebalance, zone: tzinfo) -> Iterator[str]:
    """Who held, or holds, up the others."""
    members = identities_in(rebalance)
    yield "Who holds it up:" if rebalance.completed is None else "Who held it up when it ended:"
    for holder in rebalance.holders:
        yield f"  {holding.sentence(holder, holder.told_ms, members, zone)}"


def _owners(all_moves: list[Move]) -> Iterator[str]:
    if not all_moves:
        yield "No partition had an owner before, and none has one since."
        return
    header = ["TOPIC", "PARTITIONS", "OWNER BEFORE", "OWNER SINCE", "TARGET", ""]
    table = [
        [
            move.topic,
            words.ranges(move.partitions),
            _owner(move.member_id_before),
            _owner(move.member_id_after),
            _owner(move.member_id_target),
            "moved" if _has_moved(move) else "",
        ]
        for move in all_moves
    ]
    if all(move.member_id_target == move.member_id_after for move in all_moves):
        for row in (header, *table):
            del row[4]
    yield from aligned(header, table[:OWNER_ROWS_SHOWN])
    if len(table) > OWNER_ROWS_SHOWN:
        yield f"... and {len(table) - OWNER_ROWS_SHOWN} more lines"
    moved = sum(len(move.partitions) for move in all_moves if _has_moved(move))
    on_the_way = sum(len(move.partitions) for move in all_moves if move.member_id_target != move.member_id_after)
    total = sum(len(move.partitions) for move in all_moves)
    rest = f"; {words.count(on_the_way, 'partition')} not yet where the target has them" if on_the_way else ""
    yield f"{moved} of {words.count(total, 'partition')} changed owner{rest}."


def _owner(member_id: str | None) -> str:
    return "nobody" if member_id is None else words.name(member_id)


def _has_moved(move: Move) -> bool:
    """Compare by the names that are shown: the table of members tells equal names apart."""
    return _owner(move.member_id_before) != _owner(move.member_id_after)


def _members(rebalance: Rebalance) -> Iterator[str]:
    """Whom the short names stand for."""
    rows = [
        (
            words.name(identity.member_id),
            identity.client_id,
            identity.client_host,
            identity.group_instance_id or "-",
            identity.member_id,
        )
        for identity in identities_in(rebalance).values()
    ]
    yield from aligned(("MEMBER", "CLIENT-ID", "HOST", "INSTANCE", "MEMBER ID"), rows)
