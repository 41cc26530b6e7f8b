"""The row of a group's running rebalance."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from group_coordinator.watching.history.causes import Chain, chain_before
from group_coordinator.watching.tables.causes import chain_text
from group_coordinator.watching.tables.rows import Rebalance, WaitedFor
from schemas.history import (
    HistoryRecord,
    JoinPhaseCompleted,
    MemberAssignment,
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
            WaitedFor(member_id=member_id, told_ms=None, joined_ms=joined_ms)
            for member_id, joined_ms in self.waiting.items()
        )
        return replace(self.start, waited_for=waited_for) if self.waiting else self.start


def begin(record: RebalanceStarted, chain: Chain[str], at_ms: int) -> Running:
    """Return the row of the rebalance that a record starts. `chain` is what came before it."""
    links = chain_before(chain, record.caused_by)
    member, cause = record.member, record.cause
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
        member_id=member.member_id if member is not None else cause.member_id,
        group_instance_id=member.group_instance_id if member is not None else cause.group_instance_id,
        client_id=member.client_id if member is not None else cause.client_id,
        client_host=member.client_host if member is not None else cause.client_host,
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


def rejoin(running: Running, record: HistoryRecord, member_id: str, at_ms: int) -> None:
    """Note that a member joined the rebalance."""
    if running.start.join_ended_ms is None and running.waiting.get(member_id, at_ms) is None:
        running.waiting[member_id] = record.timestamp_ms
    running.start = replace(running.start, last_seq=record.seq)


def rename(running: Running, record: HistoryRecord, old_member_id: str, member_id: str) -> None:
    """Go on with a static member under a new id."""
    if old_member_id in running.waiting:
        running.waiting[member_id] = running.waiting.pop(old_member_id)
    running.start = replace(running.start, last_seq=record.seq)


def extend(running: Running, record: HistoryRecord) -> None:
    """Note that the join phase goes on beyond its deadline."""
    running.start = replace(running.start, extensions=running.start.extensions + 1, last_seq=record.seq)


def choose_protocol(running: Running, record: HistoryRecord, protocol_name: str) -> None:
    """Note the assignor that the members have voted for."""
    running.start = replace(running.start, protocol_name=protocol_name, last_seq=record.seq)


def settle(running: Running, record: JoinPhaseCompleted, at_ms: int) -> None:
    """Note that the join phase is over."""
    start = running.start
    running.waiting = {}
    running.start = replace(
        start,
        join_ended_ms=at_ms,
        join_ms=at_ms - start.started_ms,
        waited_for=_waited(record.waited_for),
        slowest=record.slowest,
        dropped=record.dropped,
        generation_after=record.generation_id,
        members=len(record.members),
        last_seq=record.seq,
    )


def assign(running: Running, record: HistoryRecord, leader_id: str | None, partitions: int | None) -> None:
    """Note that the assignment has come."""
    running.start = replace(running.start, leader_id=leader_id, partitions=partitions, last_seq=record.seq)


def aim(running: Running, record: HistoryRecord, assignments: Sequence[MemberAssignment], at_ms: int) -> None:
    """Note that the target assignment of a consumer group is computed."""
    partitions = sum(len(topic.partitions) for share in assignments for topic in share.topics or ())
    running.start = replace(
        running.start, target_ms=at_ms, partitions=partitions, members=len(assignments), last_seq=record.seq
    )


def end(running: Running, record: RebalanceCompleted, at_ms: int) -> None:
    """End the rebalance."""
    start = running.start
    joined_ms = start.join_ended_ms
    running.waiting = {}
    running.start = replace(
        start,
        ended_ms=at_ms,
        outcome=record.outcome,
        waited_for=_waited(record.waited_for),
        slowest=record.slowest,
        dropped=record.dropped,
        sync_ms=at_ms - joined_ms if joined_ms is not None else None,
        total_ms=at_ms - start.started_ms,
        generation_after=record.generation_id,
        last_seq=record.seq,
    )


def abandoned(running: Running, at_ms: int) -> Rebalance:
    """Return the row with an unknown end: the history goes on with another epoch of the group."""
    row = running.row
    return replace(
        row, ended_ms=at_ms, outcome="unknown", total_ms=at_ms - row.started_ms, last_seq=row.last_seq + 1
    )


def _waited(waited: tuple[Waited, ...]) -> tuple[WaitedFor, ...]:
    return tuple(
        WaitedFor(member_id=member.member_id, told_ms=member.told_ms, joined_ms=member.joined_ms) for member in waited
    )
