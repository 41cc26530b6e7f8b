"""One rebalance step by step: what led to it, what happened in it, who was waited for, whose partitions moved. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo

from msgspec import Struct

from group_coordinator.narrative import seen, sentences, words
from group_coordinator.narrative.rebalances import Gone, Ownership, Rebalance
from schemas.history import (
    AssignmentReceived,
    Cause,
    GroupStable,
    History,
    MemberDropped,
    MemberExpired,
    MemberLeft,
    RequestRefused,
    Waited,
)

_FATES: dict[type[Gone], str] = {MemberLeft: "left", MemberExpired: "expired", MemberDropped: "dropped"}


class Step(Struct, frozen=True, kw_only=True):
    """One line of a rebalance's story."""

    time_ms: int
    text: str
    record: History | None = None
    """The record that says so; None: it follows from another one."""
    where: str = ""
    """The request or timer behind it, and where that lies in the log; empty where it is no news."""
    is_cause: bool = False
    """It led to the rebalance; the others are of the rebalance itself."""


class WaitedFor(Struct, frozen=True, kw_only=True):
    """One member that a rebalance waited for, and what became of it."""

    member_id: str
    told_ms: int | None
    joined_ms: int | None
    fate: str
    """Empty where it joined; else `left`, `expired`, `dropped` or `never came`."""
    gone_ms: int | None
    is_slowest: bool


class Move(Struct, frozen=True, kw_only=True):
    """Partitions of a topic that had, and have, the same owners; None: nobody."""

    topic: str
    partitions: tuple[int, ...]
    before: str | None
    after: str | None


def steps(rebalance: Rebalance, zone: tzinfo = UTC) -> list[Step]:
    """Return the causes, the first one first, then all that happened, by time."""
    start_ms = rebalance.started.timestamp_ms
    causes = [step for record in rebalance.causes for step in _origin(record)]
    if rebalance.started.interrupts is not None:
        interruption = (
            "not every member had its target" if rebalance.counts == "epoch" else "its members had not all synced"
        )
        text = f"the rebalance before this one is interrupted: {interruption}"
        causes.insert(0, Step(time_ms=start_ms, text=text, is_cause=True))
    members_by_ms: dict[int, list[str]] = {}
    for member in _waited(rebalance):
        if member.told_ms is not None:
            members_by_ms.setdefault(member.told_ms, []).append(member.member_id)
    notes = [
        Step(time_ms=time_ms, text=f"{words.names(members)} {'learns' if len(members) == 1 else 'learn'} of it")
        for time_ms, members in members_by_ms.items()
    ]
    happened = [_step(record, zone) for record in rebalance.steps if not isinstance(record, GroupStable)]
    return causes + sorted(happened + notes, key=lambda step: step.time_ms)


def waited_for(rebalance: Rebalance) -> list[WaitedFor]:
    """Return the members that had to rejoin; while the join phase goes on, those known so far."""
    source = rebalance.completed or rebalance.join_phase
    slowest = source.slowest if source is not None else None
    fates = {
        record.member.member_id: (_FATES[type(record)], record.timestamp_ms)
        for record in rebalance.steps
        if isinstance(record, Gone)
    }
    members = []
    for member in _waited(rebalance):
        fate, gone_ms = fates.get(member.member_id, ("never came", None))
        joined = member.joined_ms is not None
        members.append(
            WaitedFor(
                member_id=member.member_id,
                told_ms=member.told_ms,
                joined_ms=member.joined_ms,
                fate="" if joined else fate,
                gone_ms=None if joined else gone_ms,
                is_slowest=member.member_id == slowest,
            )
        )
    return members


def moves(before: Ownership, after: Ownership) -> list[Move]:
    """Return whose partitions changed hands, and whose did not."""
    owners_before, owners_after = _by_partition(before), _by_partition(after)
    partitions_by_change: dict[tuple[str, str | None, str | None], list[int]] = {}
    for topic, partition in sorted(owners_before.keys() | owners_after.keys()):
        change = topic, owners_before.get((topic, partition)), owners_after.get((topic, partition))
        partitions_by_change.setdefault(change, []).append(partition)
    return [
        Move(topic=topic, partitions=tuple(partitions), before=owner_before, after=owner_after)
        for (topic, owner_before, owner_after), partitions in partitions_by_change.items()
    ]


def place(cause: Cause) -> str:
    """Return the request, timer or other event, and where it lies in the log."""
    match cause.kind:
        case "request":
            origin = str(cause.api)
        case "timer":
            origin = f"{cause.timer} timer, armed"
        case "topics_deleted":
            origin = "topics deleted,"
        case "transaction_ended":
            origin = f"end of a transaction of producer {cause.producer_id},"
        case "recording":
            origin = "recording"
        case "observed":
            return seen.places(cause)
    return f"{origin} at events partition {cause.partition}, offset {cause.offset}"


def _waited(rebalance: Rebalance) -> tuple[Waited, ...]:
    source = rebalance.completed or rebalance.join_phase
    return source.waited_for if source is not None else ()


def _origin(record: History) -> Iterator[Step]:
    """A cause, and where the log has what led to it."""
    if isinstance(record, MemberExpired) and record.last_heard_ms is not None:
        heard_ms = record.timestamp_ms - (record.time_ms - record.last_heard_ms)
        log_place = f"events partition {record.cause.partition}, offset {record.cause.offset}"
        text = f"{words.name(record.member.member_id)} is heard for the last time"
        yield Step(time_ms=heard_ms, text=text, record=record, where=log_place, is_cause=True)
        yield Step(time_ms=record.timestamp_ms, text=sentences.sentence(record), record=record, is_cause=True)
    else:
        yield Step(
            time_ms=record.timestamp_ms,
            text=sentences.sentence(record),
            record=record,
            where=place(record.cause),
            is_cause=True,
        )


def _step(record: History, zone: tzinfo) -> Step:
    if isinstance(record, AssignmentReceived):
        text = f"leader {words.name(record.leader_id)} sends the assignment"
        return Step(time_ms=record.timestamp_ms, text=text, record=record, where=seen.places(record.cause))
    log_place = place(record.cause) if isinstance(record, RequestRefused) else seen.places(record.cause)
    return Step(time_ms=record.timestamp_ms, text=sentences.sentence(record, zone), record=record, where=log_place)


def _by_partition(ownership: Ownership) -> dict[tuple[str, int], str]:
    return {
        (topic.topic, partition): member_id
        for member_id, topics in ownership.items()
        for topic in topics or ()
        for partition in topic.partitions
    }
