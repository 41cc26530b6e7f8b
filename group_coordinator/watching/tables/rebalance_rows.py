"""The row of a group's running rebalance."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from group_coordinator.watching.history.causes import Chain, chain_before
from group_coordinator.watching.tables.causes import chain_text
from group_coordinator.watching.tables.rows import Rebalance
from schemas.consumer_group_history import TargetAssignmentComputed
from schemas.history import (
    HistoryRecord,
    JoinPhaseCompleted,
    MemberRejoined,
    MemberReplaced,
    RebalanceCompleted,
    RebalanceStarted,
    Waited,
)


class Running(Struct):
    """A rebalance that is going on."""

    start: Rebalance
    """Its row, `waited_for` apart."""
    waiting: dict[str, int | None] = field(default_factory=dict)
    """The members that must rejoin -> when each did."""

    @property
    def row(self) -> Rebalance:
        waited_for = tuple(
            Waited(member_id=member_id, told_ms=None, joined_ms=joined_ms)
            for member_id, joined_ms in self.waiting.items()
        )
        return replace(self.start, waited_for=waited_for) if self.waiting else self.start


def begin(record: RebalanceStarted, chain: Chain[str], at_ms: int) -> Running:
    """Return the row of the rebalance that a record starts. `chain` is what came before it."""
    links = chain_before(chain, record.caused_by)
    cause, doer = record.cause, record.member or record.cause
    row = Rebalance(
        group_id=record.group_id,
        epoch=record.epoch,
        seq=record.seq,
        started_ms=at_ms,
        join_ended_ms=None,
        ended_ms=None,
        outcome=None,
        trigger=record.trigger,
        reason=record.reason,
        cause_chain=chain_text(links, "rebalance"),
        cause_seqs=tuple(seq for seq, _ in links),
        member_id=doer.member_id,
        group_instance_id=doer.group_instance_id,
        client_id=doer.client_id,
        client_host=doer.client_host,
        client_reason=cause.reason,
        cause_offset=cause.offset,
        initial=record.initial,
        interrupts=record.interrupts,
        waited_for=(),
        slowest=None,
        dropped=(),
        generation_before=record.generation_id,
        last_seq=record.seq,
    )
    return Running(row, dict.fromkeys(record.waiting_for))


def change(running: Running, record: HistoryRecord, **columns: Any) -> None:
    """Note what a record says of the rebalance."""
    running.start = replace(running.start, last_seq=record.seq, **columns)


def rejoin(running: Running, record: MemberRejoined, at_ms: int) -> None:
    """Note that a member joined the rebalance."""
    member_id = record.member.member_id
    if running.start.join_ended_ms is None and running.waiting.get(member_id, at_ms) is None:
        running.waiting[member_id] = record.timestamp_ms
    change(running, record)


def rename(running: Running, record: MemberReplaced) -> None:
    """Go on with a static member under a new id."""
    if record.old_member_id in running.waiting:
        running.waiting[record.member.member_id] = running.waiting.pop(record.old_member_id)
    change(running, record)


def settle(running: Running, record: JoinPhaseCompleted, at_ms: int) -> None:
    """Note that the join phase is over."""
    started_ms, members = running.start.started_ms, len(record.members)
    change(running, record, join_ended_ms=at_ms, join_ms=at_ms - started_ms, members=members, **_awaited(record))
    running.waiting = {}


def aim(running: Running, record: TargetAssignmentComputed, at_ms: int) -> None:
    """Note that the target assignment of a consumer group is computed."""
    shares = record.assignments
    partitions = sum(len(topic.partitions) for share in shares for topic in share.topics or ())
    change(running, record, target_ms=at_ms, partitions=partitions, members=len(shares))


def end(running: Running, record: RebalanceCompleted, at_ms: int) -> None:
    """End the rebalance."""
    started_ms, joined_ms = running.start.started_ms, running.start.join_ended_ms
    sync_ms = None if joined_ms is None else at_ms - joined_ms
    change(
        running, record, ended_ms=at_ms, outcome=record.outcome, sync_ms=sync_ms, total_ms=at_ms - started_ms,
        **_awaited(record),
    )  # fmt: skip
    running.waiting = {}


def abandoned(running: Running, at_ms: int) -> Rebalance:
    """Return the row with an unknown end: the history goes on with another epoch of the group."""
    row = running.row
    return replace(row, ended_ms=at_ms, outcome="unknown", total_ms=at_ms - row.started_ms, last_seq=row.last_seq + 1)


def _awaited(record: JoinPhaseCompleted | RebalanceCompleted) -> dict[str, Any]:
    """Return the columns that tell who was waited for."""
    return {
        "waited_for": record.waited_for, "slowest": record.slowest, "dropped": record.dropped,
        "generation_after": record.generation_id,
    }  # fmt: skip
