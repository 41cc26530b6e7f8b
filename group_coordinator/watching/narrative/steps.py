"""One rebalance step by step: what led to it, what happened in it, who was waited for, whose partitions moved. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.watching.narrative import seen, sentences, words
from group_coordinator.watching.narrative.rebalances import Gone, Ownership, Rebalance
from schemas.history import (
    AssignmentReceived,
    Cause,
    GroupStable,
    History,
    MemberDropped,
    MemberExpired,
    MemberIdentity,
    MemberLeft,
    RequestRefused,
    Waited,
)

_IN_TOPIC = "at events partition"
_FATES: dict[type[Gone], str] = {MemberLeft: "left", MemberExpired: "expired", MemberDropped: "dropped"}


_EVENTS = {
    "topics_deleted": "topics deleted",
    "topic_metadata": "what the cluster's topics are",
    "regexes_resolved": "what patterns match",
    "group_config": "the group's settings",
}
"""Events that are no requests, in words."""


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
    """A member that a rebalance had to wait for."""

    member_id: str
    told_ms: int | None
    joined_ms: int | None
    gone_ms: int | None
    fate: str | None
    """What became of it: `left`, `expired`, `dropped` or `never came`; None where it joined."""
    is_slowest: bool


class Move(Struct, frozen=True, kw_only=True):
    """Partitions with their owner before and after."""

    topic: str
    partitions: tuple[int, ...]
    member_id_before: str | None
    """None, here and below: nobody."""
    member_id_after: str | None
    member_id_target: str | None
    """In a consumer group: the member that shall own them. In others: the owner."""


def steps(rebalance: Rebalance, zone: tzinfo = UTC) -> list[Step]:
    """Return the causes, the first one first, then all that happened, by time."""
    start_ms = rebalance.started.timestamp_ms
    causes = [step for record in rebalance.causes for step in _origin(record)]
    if rebalance.started.interrupts is not None:
        interruption = (
            "not every member had its target"
            if (rebalance.interrupted or rebalance.counts) == "epoch"
            else "its members had not all synced"
        )
        text = f"the rebalance before this one is interrupted: {interruption}"
        causes.insert(0, Step(time_ms=start_ms, text=text, is_cause=True))
    members_by_ms: dict[int, list[str]] = {}
    for member in _waited(rebalance):
        # Of a consumer group a record says who is told what to give up.
        if member.told_ms is not None and rebalance.counts != "epoch":
            members_by_ms.setdefault(member.told_ms, []).append(member.member_id)
    notes = [
        Step(time_ms=time_ms, text=f"{words.names(members)} {'learns' if len(members) == 1 else 'learn'} of it")
        for time_ms, members in members_by_ms.items()
    ]
    notes += _unresolved(rebalance)
    all_steps = causes + sorted(_happened(rebalance, zone) + notes, key=lambda step: step.time_ms)
    return [_without_topic(step) for step in all_steps] if _is_of_a_log(rebalance) else all_steps


def _is_of_a_log(rebalance: Rebalance) -> bool:
    """Return whether a request log tells of it: its events lie in no topic."""
    records = (rebalance.started, *rebalance.causes, *rebalance.steps)
    return any(evidence.source == "request_log" for record in records for evidence in record.cause.evidence)


def _without_topic(step: Step) -> Step:
    """Return the step without a place in the events topic, or the word that leads to it."""
    origin, found, _ = step.where.partition(_IN_TOPIC.removeprefix("at "))
    return replace(step, where=origin.removesuffix(" at ").removesuffix(", armed")) if found else step


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
                fate=None if joined else fate,
                gone_ms=None if joined else gone_ms,
                is_slowest=member.member_id == slowest,
            )
        )
    return members


def moves_of(rebalance: Rebalance) -> list[Move]:
    """Return whose partitions a rebalance moved, shall move, and left where they were; of one that assigned nothing,
    nothing."""
    before, after, target = rebalance.owned_before, rebalance.owned_after, rebalance.target
    if after is None and target is None:
        return []
    after = before if after is None else after
    owners = tuple([_by_partition(ownership) for ownership in (before, after, after if target is None else target)])
    partitions_by_change: dict[tuple[str, str | None, str | None, str | None], list[int]] = {}
    for topic, partition in sorted(dict.fromkeys(place for each in owners for place in each)):
        was, is_now, shall_be = [each.get((topic, partition)) for each in owners]
        partitions_by_change.setdefault((topic, was, is_now, shall_be), []).append(partition)
    return [
        Move(topic=topic, partitions=tuple(numbers), member_id_before=was, member_id_after=is_now, member_id_target=to)
        for (topic, was, is_now, to), numbers in partitions_by_change.items()
    ]


def identities_in(rebalance: Rebalance) -> dict[str, MemberIdentity]:
    """Return the members that a rebalance's records tell of, and those that hold it up or wait for them."""
    concerned = [member_id for holder in rebalance.holders for member_id in (holder.member_id, *holder.waiting)]
    members = {member_id: rebalance.members[member_id] for member_id in concerned if member_id in rebalance.members}
    for record in (*rebalance.causes, *rebalance.steps):
        asks = getattr(record, "joined", None) or getattr(record, "updated", None)
        for identity in (
            getattr(asks, "member", None), getattr(record, "member", None), getattr(record, "leader", None)
        ):  # fmt: skip
            if isinstance(identity, MemberIdentity):
                members[identity.member_id] = identity
    return members


def place(cause: Cause) -> str:
    """Return the request, timer or other event, and where it lies in the log. What is inferred lies nowhere; what a
    request log has is named by its line."""
    if cause.certainty != "told" and cause.kind != "observed":
        return seen.CERTAINTIES[cause.certainty]
    match cause.kind:
        case "request":
            origin = str(cause.api)
        case "timer":
            origin = f"{cause.timer} timer, armed"
        case "transaction_ended":
            origin = f"end of a transaction of producer {cause.producer_id},"
        case "recording":
            origin = "recording"
        case "topics_deleted" | "topic_metadata" | "regexes_resolved" | "group_config":
            origin = f"{_EVENTS[cause.kind]},"
        case "observed":
            return seen.places(cause)
        case _:
            assert_never(cause.kind)
    if cause.evidence:
        return f"{origin}, {seen.places(cause)}"
    return f"{origin} {_IN_TOPIC} {cause.partition}, offset {cause.offset}"


def _happened(rebalance: Rebalance, zone: tzinfo) -> list[Step]:
    """The records of a rebalance, in their order. What a timer did has the log's clock, which may be ahead of the
    append time of the request after it: no step is told as earlier than the one before."""
    happened, now_ms = [], 0
    for record in rebalance.steps:
        if not isinstance(record, GroupStable):
            now_ms = max(now_ms, record.timestamp_ms)
            happened.append(replace(_step(record, zone), time_ms=now_ms))
    return happened


def _unresolved(rebalance: Rebalance) -> list[Step]:
    """Which members get nothing by their patterns yet."""
    members_by_regex: dict[str, list[str]] = {}
    for member_id, regex in rebalance.unresolved.items():
        members_by_regex.setdefault(regex, []).append(member_id)
    last_ms = max(record.timestamp_ms for record in (rebalance.started, *rebalance.steps))
    return [
        Step(
            time_ms=last_ms,
            text=words.patterns_wait([f"{regex} of {words.names(members)}"]),
        )
        for regex, members in members_by_regex.items()
    ]


def _waited(rebalance: Rebalance) -> tuple[Waited, ...]:
    source = rebalance.completed or rebalance.join_phase
    return source.waited_for if source is not None else ()


def _origin(record: History) -> Iterator[Step]:
    """A cause, and where the log has what led to it."""
    if isinstance(record, MemberExpired) and record.last_heard_ms is not None:
        heard_ms = record.timestamp_ms - (record.time_ms - record.last_heard_ms)
        log_place = f"{_IN_TOPIC} {record.cause.partition}, offset {record.cause.offset}".removeprefix("at ")
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
