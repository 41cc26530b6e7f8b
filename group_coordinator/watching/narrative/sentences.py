"""History in plain words: one sentence for each record. Pure: the same record gives the same text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import assert_never

from group_coordinator.watching.narrative import observed_sentences, seen
from group_coordinator.watching.narrative.expiries import expires
from group_coordinator.watching.narrative.words import (
    client,
    clock,
    committed,
    count,
    duration,
    listed,
    member,
    name,
    names,
    owned,
    removed,
)
from schemas.history import (
    AssignmentReceived,
    Cause,
    GroupCreated,
    GroupDead,
    GroupEmpty,
    GroupRecorded,
    GroupStable,
    History,
    JoinPhaseCompleted,
    LeaderElected,
    MemberDropped,
    MemberExpired,
    MemberFenced,
    MemberIdAssigned,
    MemberIdentity,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    PendingMemberRemoved,
    ProtocolChosen,
    RebalanceCompleted,
    RebalanceExtended,
    RebalanceStarted,
    RebalanceTrigger,
    RecordingGap,
    RequestRefused,
    Waited,
)

_SECOND_STEP_OF_JOINING = "need to re-join with the given member-id"
"""What Java's consumer gives as its reason for every first join: no news."""

TRIGGERS: dict[RebalanceTrigger, str] = {
    "member_joined": "a member joined",
    "leader_rejoined": "the leader rejoined",
    "member_changed": "a member rejoined with new metadata",
    "static_member_replaced": "a static member came back changed",
    "member_left": "a member left",
    "pending_member_left": "a joining client left",
    "member_expired": "a member expired",
    "members_did_not_sync": "members did not sync",
    "assignment_too_large": "the assignment was too large",
    "subscription_changed": "a member subscribed to other topics",
    "topics_changed": "the topics changed",
    "regexes_resolved": "other topics match a pattern",
    "group_converted": "the group went over to another protocol",
    "member_dropped": "a member was too slow",
    "not_known": "not known",
}
"""Why rebalances happen, as a table's row names it."""


def line(record: History, zone: tzinfo = UTC) -> str:
    """Return a record as one line of a log: time, group, sentence."""
    return f"{clock(record.timestamp_ms, zone)} {record.group_id}: {sentence(record, zone)}"


def sentence(record: History, zone: tzinfo = UTC) -> str:
    """Return what happened, without time and group. Times in it are of `zone`."""
    return _said(record, zone) + seen.unconfirmed(record.cause)


def _said(record: History, zone: tzinfo) -> str:
    match record:
        case GroupCreated() | GroupEmpty() | GroupStable() | GroupDead():
            return _of_group(record)
        case GroupRecorded() | RecordingGap():
            return _of_recording(record)
        case MemberIdAssigned() | PendingMemberRemoved():
            return _of_pending_member(record)
        case MemberJoined() | MemberRejoined() | MemberLeft() | MemberExpired() | MemberDropped():
            return _of_member(record)
        case MemberReplaced() | MemberFenced():
            return _of_static_member(record)
        case RebalanceStarted() | RebalanceExtended() | JoinPhaseCompleted() | RebalanceCompleted():
            return _of_rebalance(record, zone)
        case ProtocolChosen() | LeaderElected() | AssignmentReceived():
            return _of_decision(record)
        case OffsetsCommitted() | OffsetsExpired() | OffsetsDeleted():
            return _of_offsets(record)
        case RequestRefused(api="topic_metadata"):
            return f"what came to be known of topics is kept out: {record.detail}"
        case RequestRefused():
            requester = name(record.cause.member_id) if record.cause.member_id else client(record.cause)
            met = "there was no such group" if record.state == "none" else f"the group was {record.state}"
            return f"{record.api} of {requester} is refused with {record.error}: {record.detail} ({met})"
        case _:
            return observed_sentences.sentence(record)


def because(started: RebalanceStarted) -> str:
    """Return why a rebalance started, with the evidence: when a member was last heard, and its request."""
    return _why(started) + seen.unconfirmed(started.cause)


def _why(started: RebalanceStarted) -> str:
    member_name = member(started.member) if started.member is not None else "a member"
    reason = _reason_text(started.cause)
    match started.trigger:
        case "member_joined":
            return f"{member_name} joined{' the empty group' if started.initial else ''}{reason}"
        case "leader_rejoined":
            return f"its leader {member_name} asked for one{reason}"
        case "member_changed":
            return f"{member_name} rejoined with new metadata{reason}"
        case "static_member_replaced":
            return f"static member {_instance(started.member)} came back as {member_name}{reason}"
        case "member_left":
            return f"{member_name} left{reason}"
        case "pending_member_left":
            return f"a client left before it had joined{reason}"
        case "member_expired":
            heard_ms = None if started.cause.armed_ms is None else started.time_ms - started.cause.armed_ms
            return f"{member_name} expired" + ("" if heard_ms is None else f" (last heard {duration(heard_ms)} ago)")
        case (
            "members_did_not_sync" | "assignment_too_large" | "subscription_changed" | "topics_changed"
            | "regexes_resolved" | "group_converted" | "member_dropped" | "not_known"
        ):  # fmt: skip
            return started.reason
        case _:
            assert_never(started.trigger)


# ---------------------------------------------------------------------------------------------------------- sentences


def _of_group(record: GroupCreated | GroupEmpty | GroupStable | GroupDead) -> str:
    match record:
        case GroupCreated(cause=Cause(kind="observed")):
            return "the group is created"
        case GroupCreated():
            return f"the group is created by the {record.cause.api} of {client(record.cause)}"
        case GroupEmpty():
            return "the group is empty; its offsets stay until they expire"
        case GroupStable():
            return (
                f"the group is stable in generation {record.generation_id}: {count(len(record.members), 'member')}, "
                f"led by {name(record.leader_id)}"
                + (f", assignor {record.protocol_name}" if record.protocol_name else "")
            )
        case GroupDead(reason="deleted"):
            return f"the group is deleted by {client(record.cause)}"
        case GroupDead(reason="not_known"):
            return "the group is gone: deleted, or expired with its last offset, not known which"
        case GroupDead():
            return "the group is gone: it has no members and no offsets"
        case _:
            assert_never(record)


def _of_recording(record: GroupRecorded | RecordingGap) -> str:
    if isinstance(record, RecordingGap):
        return f"from here on nothing is known of the group: {record.reason}"
    led_by = f", led by {name(record.leader_id)}" if record.leader_id else ""
    return (
        f"the recording tells of the group from here on: generation {record.generation_id} of "
        f"{names(joined.member.member_id for joined in record.members)}{led_by}"
    )


def _of_pending_member(record: MemberIdAssigned | PendingMemberRemoved) -> str:
    if isinstance(record, MemberIdAssigned):
        return (
            f"{client(record.cause)} is given the member id {name(record.member.member_id)}"
            + _time_to_join(record.session_timeout_ms)
        )
    match record.reason:
        case "expired":
            return f"the member id {name(record.member_id)} is forgotten: nobody joined with it in time"
        case "left":
            return (
                f"the member id {name(record.member_id)} is given back before anybody joined with "
                f"it{_reason_text(record.cause)}"
            )
        case "group_full" | "not_stored":
            return f"the member id {name(record.member_id)} is forgotten: {_DROPPED[record.reason]}"
        case _:
            assert_never(record.reason)


def _time_to_join(timeout_ms: int | None) -> str:
    return "" if timeout_ms is None else f" and has {duration(timeout_ms)} to join with it"


def _of_member(record: MemberJoined | MemberRejoined | MemberLeft | MemberExpired | MemberDropped) -> str:
    who = name(record.member.member_id)
    match record:
        case MemberJoined():
            return (
                f"{who} joins{_from(record.member)}{_topics(record.subscribed_topics)}{_timeouts(record)}"
                f"{_reason_text(record.cause)}"
            )
        case MemberRejoined():
            changes = listed([change.replace("_", " ") for change in record.changed])
            return f"{who} rejoins{f' with new {changes}' if changes else ''}{_reason_text(record.cause)}"
        case MemberLeft():
            return f"{who} leaves{_reason_text(record.cause)}"
        case MemberExpired():
            return expires(record)
        case MemberDropped():
            return f"{who} is dropped: {_DROPPED[record.reason]}"
        case _:
            assert_never(record)


def _from(member: MemberIdentity) -> str:
    return f" from {member.client_host}" if member.client_host else ""


def _timeouts(record: MemberJoined) -> str:
    if record.session_timeout_ms is None or record.rebalance_timeout_ms is None:
        return ""
    session, rebalance = duration(record.session_timeout_ms), duration(record.rebalance_timeout_ms)
    return f" (session timeout {session}, rebalance timeout {rebalance})"


_DROPPED: dict[str, str] = {
    "did_not_rejoin": "it did not rejoin before the rebalance timeout",
    "did_not_sync": "it did not send SyncGroup before the rebalance timeout",
    "did_not_revoke": "it did not give up its partitions before the rebalance timeout",
    "group_full": "the group is full",
    "fenced": "the coordinator fences it",
    "not_stored": "the coordinator moved before it was stored",
}


def _of_static_member(record: MemberReplaced | MemberFenced) -> str:
    if isinstance(record, MemberReplaced):
        match record.rebalanced:
            case True:
                end = "a rebalance is needed"
            case False:
                end = "it keeps its partitions, no rebalance"
            case None:
                end = "it keeps its partitions; whether that cost a rebalance is not known"
        old, new = name(record.old_member_id), name(record.member.member_id)
        return f"static member {_instance(record.member)} comes back as {new} in place of {old}: {end}"
    who, owner = name(record.member_id), name(record.owner_member_id) if record.owner_member_id else "another member"
    return f"{who} is fenced off static member {record.group_instance_id}: the instance is {owner} now"


def _until(record: RebalanceStarted | RebalanceExtended, zone: tzinfo) -> str:
    """The deadline by the time that is shown everywhere else: the group's own may be behind it."""
    if record.deadline_ms is None:
        return "a time that is not known"
    return clock(record.deadline_ms + record.timestamp_ms - record.time_ms, zone)


def _of_rebalance(
    record: RebalanceStarted | RebalanceExtended | JoinPhaseCompleted | RebalanceCompleted, zone: tzinfo
) -> str:
    match record:
        case RebalanceStarted():
            if record.deadline_ms is None:
                return f"a rebalance starts, because {because(record)}"
            if record.initial:
                end = f"it waits until {_until(record, zone)} for more members"
            elif record.waiting_for:
                end = f"it waits for {names(record.waiting_for)}, until {_until(record, zone)} at the latest"
            else:
                end = "it need not wait for anybody"
            return f"a rebalance starts, because {because(record)}; {end}"
        case RebalanceExtended(reason="members_arriving"):
            return f"members are still arriving: the rebalance waits until {_until(record, zone)}"
        case RebalanceExtended():
            return f"only static members are left, and none is back: the rebalance waits until {_until(record, zone)}"
        case JoinPhaseCompleted():
            return (
                f"generation {record.generation_id} begins with {count(len(record.members), 'member')}, after "
                f"{duration(record.duration_ms)}{_waited(record.waited_for, record.slowest)}{_dropped(record.dropped)}"
            )
        case RebalanceCompleted():
            ends = {
                "stable": "is done",
                "empty": "ends with an empty group",
                "interrupted": "is interrupted by the next one",
                "coordinator_changed": "ends with its coordinator",
            }
            # What ends at rest without a join phase is of a group that counts epochs.
            counts = "generation" if record.join_ms is not None else "epoch" if record.outcome == "stable" else ""
            to = f" to {counts} {record.generation_id}" if counts and record.outcome != "empty" else ""
            return f"the rebalance{to} {ends[record.outcome]} after {duration(record.duration_ms)}"
        case _:
            assert_never(record)


def waited(completed: RebalanceCompleted, until: MemberLeft | MemberExpired | MemberDropped | None = None) -> str:
    """Return `; waited 1.2 s for a and c, slowest a; dropped d`, or nothing if no member was waited for.

    `until` is the end of a member that was waited for in vain: it took longer than the slowest of those that came.
    """
    if until is None:
        return _waited(completed.waited_for, completed.slowest, completed.join_ms) + _dropped(completed.dropped)
    ends = {MemberLeft: "left", MemberExpired: "expired", MemberDropped: "was dropped"}
    end = f", until {name(until.member.member_id)} {ends[type(until)]}"
    return _waited(completed.waited_for, None, completed.join_ms) + end


def _waited(waited_for: Sequence[Waited], slowest: str | None, join_ms: int | None = None) -> str:
    if not waited_for:
        return ""
    time = "" if join_ms is None else f" {duration(join_ms)}"
    last = f", slowest {name(slowest)}" if slowest is not None and len(waited_for) > 1 else ""
    return f"; waited{time} for {names(awaited.member_id for awaited in waited_for)}{last}"


def _dropped(dropped: Sequence[str]) -> str:
    return f"; dropped {names(dropped)}" if dropped else ""


def _of_decision(record: ProtocolChosen | LeaderElected | AssignmentReceived) -> str:
    match record:
        case ProtocolChosen():
            if not record.votes:
                return f"assignor {record.protocol_name} is chosen"
            votes = listed([f"{protocol} {count(len(voters), 'vote')}" for protocol, voters in record.votes.items()])
            return f"assignor {record.protocol_name} is chosen: {votes}" + (
                " (a tie, settled as Kafka does)" if record.tie else ""
            )
        case LeaderElected():
            return f"{name(record.leader.member_id)} leads: {_LEADS[record.reason]}"
        case AssignmentReceived():
            shares = [f"{name(share.member_id)} gets {owned(share.topics)}" for share in record.assignments]
            return f"leader {name(record.leader_id)} assigns: {listed(shares)}"
        case _:
            assert_never(record)


_LEADS = {
    "first_member": "it is the first member",
    "leader_gone": "the leader is gone",
    "leader_did_not_rejoin": "the leader did not rejoin in time",
    "leader_replaced": "it is the leader under its new member id",
}


def _of_offsets(record: OffsetsCommitted | OffsetsExpired | OffsetsDeleted) -> str:
    match record:
        case OffsetsCommitted():
            changes = committed(record.offsets)
            if record.cause.kind == "observed":
                return f"committed: {changes}"
            if record.cause.kind == "transaction_ended":
                return f"the transaction of producer {record.cause.producer_id} commits {changes}"
            who = name(record.member_id) if record.member_id else f"{client(record.cause)}, no member,"
            return f"{who} commits {changes}"
        case OffsetsExpired():
            return f"the offsets of {removed(record.offsets)} expire"
        case OffsetsDeleted() if record.cause.kind == "topics_deleted":
            topics = dict.fromkeys(offset.topic for offset in record.offsets)
            deletion = f"topic {next(iter(topics))} was" if len(topics) == 1 else f"topics {listed(list(topics))} were"
            return f"the offsets of {removed(record.offsets)} are dropped: {deletion} deleted"
        case OffsetsDeleted():
            return f"the offsets of {removed(record.offsets)} are deleted by {client(record.cause)}"
        case _:
            assert_never(record)


def _instance(member: MemberIdentity | None) -> str:
    return (member.group_instance_id if member is not None else None) or "(no instance id)"


def _reason_text(cause: Cause) -> str:
    if cause.reason and cause.reason.startswith(_SECOND_STEP_OF_JOINING):
        return ""
    return f', saying "{cause.reason}"' if cause.reason else ""


def _topics(topics: tuple[str, ...] | None) -> str:
    return f" for {listed(list(topics))}" if topics else ""
