"""History in plain words: one sentence for each record. Pure: the same record gives the same text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any, assert_never

from msgspec import UNSET

from group_coordinator.watching.narrative import seen, words
from group_coordinator.watching.narrative.observed_sentences import SENTENCES as OF_OTHER_RECORDS
from group_coordinator.watching.narrative.observed_sentences import said
from group_coordinator.watching.narrative.words import clock, duration, listed, member, name, names
from schemas import history as h

_SECOND_STEP_OF_JOINING = "need to re-join with the given member-id"
"""What Java's consumer gives as its reason for every first join: no news."""

TRIGGERS: dict[h.RebalanceTrigger, str] = {
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


def line(record: h.History, zone: tzinfo = UTC) -> str:
    """Return a record as one line of a log: time, group, sentence."""
    return f"{clock(record.timestamp_ms, zone)} {record.group_id}: {sentence(record, zone)}"


def sentence(record: h.History, zone: tzinfo = UTC) -> str:
    """Return what happened, without time and group. Times in it are of `zone`."""
    if isinstance(record, h.RebalanceStarted | h.RebalanceExtended):
        text = _of_waiting(record, zone)
    else:
        text = SENTENCES[type(record)](record)
    return text + seen.unconfirmed(record.cause)


def because(started: h.RebalanceStarted) -> str:
    """Return why a rebalance started, with the evidence: when a member was last heard, and its request."""
    return _why(started) + seen.unconfirmed(started.cause)


def _why(started: h.RebalanceStarted) -> str:
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


# ------------------------------------------------------------------------------------------------- groups and members


def _created(record: h.GroupCreated) -> str:
    by = "" if record.cause.kind == "observed" else f" by the {record.cause.api} of {words.client(record.cause)}"
    return f"the group is created{by}"


def _stable(record: h.GroupStable) -> str:
    return (
        f"the group is stable in generation {record.generation_id}: {words.count(len(record.members), 'member')}, "
        f"led by {name(record.leader_id)}" + (f", assignor {record.protocol_name}" if record.protocol_name else "")
    )


def _dead(record: h.GroupDead) -> str:
    match record.reason:
        case "deleted":
            return f"the group is deleted by {words.client(record.cause)}"
        case "not_known":
            return "the group is gone: deleted, or expired with its last offset, not known which"
        case _:
            return "the group is gone: it has no members and no offsets"


def _recorded(record: h.GroupRecorded) -> str:
    led_by = f", led by {name(record.leader_id)}" if record.leader_id else ""
    return (
        f"the recording tells of the group from here on: generation {record.generation_id} of "
        f"{names(joined.member.member_id for joined in record.members)}{led_by}"
    )


def _id_assigned(record: h.MemberIdAssigned) -> str:
    timeout_ms = record.session_timeout_ms
    time_to_join = "" if timeout_ms is None else f" and has {duration(timeout_ms)} to join with it"
    return f"{words.client(record.cause)} is given the member id {name(record.member.member_id)}{time_to_join}"


def _pending_removed(record: h.PendingMemberRemoved) -> str:
    member_id = f"the member id {name(record.member_id)}"
    match record.reason:
        case "expired":
            return f"{member_id} is forgotten: nobody joined with it in time"
        case "left":
            return f"{member_id} is given back before anybody joined with it{_reason_text(record.cause)}"
        case "group_full" | "not_stored":
            return f"{member_id} is forgotten: {_DROPPED[record.reason]}"
        case _:
            assert_never(record.reason)


def _joined(record: h.MemberJoined) -> str:
    host, topics, timeouts = record.member.client_host, record.subscribed_topics, ""
    if record.session_timeout_ms is not None and record.rebalance_timeout_ms is not None:
        session, rebalance = duration(record.session_timeout_ms), duration(record.rebalance_timeout_ms)
        timeouts = f" (session timeout {session}, rebalance timeout {rebalance})"
    return (
        f"{name(record.member.member_id)} joins{f' from {host}' if host else ''}"
        f"{f' for {listed(list(topics))}' if topics else ''}{timeouts}{_reason_text(record.cause)}"
    )


def _rejoined(record: h.MemberRejoined) -> str:
    changes = listed([change.replace("_", " ") for change in record.changed])
    who = name(record.member.member_id)
    return f"{who} rejoins{f' with new {changes}' if changes else ''}{_reason_text(record.cause)}"


def _expired(record: h.MemberExpired) -> str:
    who, host, timeout_ms = name(record.member.member_id), record.member.client_host, record.session_timeout_ms
    if record.last_heard_ms is None or timeout_ms is None:
        broker_id = record.stalled_broker_id
        stalled = "" if broker_id is UNSET else f", because broker {broker_id} seems to have stood still"
        at_host = f" ({host})" if host else ""
        return f"{who}{at_host} expires: nothing was heard of it for its session timeout{stalled}"
    deadline_ms = record.cause.deadline_ms
    renewed = deadline_ms is not None and deadline_ms - timeout_ms > record.last_heard_ms
    return (
        f"{who} ({host}) expires: last heard {duration(record.time_ms - record.last_heard_ms)} "
        f"ago, its time was {duration(timeout_ms)}"
        f"{', begun anew after a pause of the clock' if renewed else ''}"
    )


_DROPPED: dict[str, str] = {
    "did_not_rejoin": "it did not rejoin before the rebalance timeout",
    "did_not_sync": "it did not send SyncGroup before the rebalance timeout",
    "did_not_revoke": "it did not give up its partitions before the rebalance timeout",
    "group_full": "the group is full",
    "fenced": "the coordinator fences it",
    "not_stored": "the coordinator moved before it was stored",
}
_COST = {
    True: "a rebalance is needed",
    False: "it keeps its partitions, no rebalance",
    None: "it keeps its partitions; whether that cost a rebalance is not known",
}


def _replaced(record: h.MemberReplaced) -> str:
    old, new = name(record.old_member_id), name(record.member.member_id)
    static_member = f"static member {_instance(record.member)}"
    return f"{static_member} comes back as {new} in place of {old}: {_COST[record.rebalanced]}"


def _fenced(record: h.MemberFenced) -> str:
    who, owner = name(record.member_id), name(record.owner_member_id) if record.owner_member_id else "another member"
    return f"{who} is fenced off static member {record.group_instance_id}: the instance is {owner} now"


def _instance(identity: h.MemberIdentity | None) -> str:
    return (identity.group_instance_id if identity is not None else None) or "(no instance id)"


def _reason_text(cause: h.Cause) -> str:
    if cause.reason and cause.reason.startswith(_SECOND_STEP_OF_JOINING):
        return ""
    return f', saying "{cause.reason}"' if cause.reason else ""


# --------------------------------------------------------------------------------------------------------- rebalances


def _of_waiting(record: h.RebalanceStarted | h.RebalanceExtended, zone: tzinfo) -> str:
    until = ""
    if record.deadline_ms is not None:
        # By the time that is shown everywhere else: the group's own may be behind it.
        until = clock(record.deadline_ms + record.timestamp_ms - record.time_ms, zone)
    if isinstance(record, h.RebalanceExtended):
        if record.reason == "members_arriving":
            return f"members are still arriving: the rebalance waits until {until}"
        return f"only static members are left, and none is back: the rebalance waits until {until}"
    text = f"a rebalance starts, because {because(record)}"
    if record.deadline_ms is None:
        return text
    if record.initial:
        return f"{text}; it waits until {until} for more members"
    if record.waiting_for:
        return f"{text}; it waits for {names(record.waiting_for)}, until {until} at the latest"
    return f"{text}; it need not wait for anybody"


def _settled(record: h.JoinPhaseCompleted) -> str:
    begins = f"generation {record.generation_id} begins with {words.count(len(record.members), 'member')}"
    took = f",{after(record)}" if after(record) else ""
    return f"{begins}{took}{_waited(record.waited_for, record.slowest)}{_dropped(record.dropped)}"


_OUTCOMES = {
    "stable": "is done",
    "empty": "ends with an empty group",
    "interrupted": "is interrupted by the next one",
    "coordinator_changed": "ends with its coordinator",
}


def _completed(record: h.RebalanceCompleted) -> str:
    # What ends at rest without a join phase is of a group that counts epochs.
    counts = "generation" if record.join_ms is not None else "epoch" if record.outcome == "stable" else ""
    to = f" to {counts} {record.generation_id}" if counts and record.outcome != "empty" else ""
    return f"the rebalance{to} {_OUTCOMES[record.outcome]}{after(record) or '; when it began is not known'}"


def after(record: h.JoinPhaseCompleted | h.RebalanceCompleted) -> str:
    """Return ` after 6 s`; nothing where it is not known when it began."""
    return "" if record.is_begin_known is False else f" after {duration(record.duration_ms)}"


def waited(completed: h.RebalanceCompleted, until: h.MemberLeft | h.MemberExpired | h.MemberDropped | None) -> str:
    """Return `; waited 1.2 s for a and c, slowest a; dropped d`, or nothing if no member was waited for.

    `until` is the end of a member that was waited for in vain: it took longer than the slowest of those that came.
    """
    if until is None:
        return _waited(completed.waited_for, completed.slowest, completed.join_ms) + _dropped(completed.dropped)
    ends = {h.MemberLeft: "left", h.MemberExpired: "expired", h.MemberDropped: "was dropped"}
    end = f", until {name(until.member.member_id)} {ends[type(until)]}"
    return _waited(completed.waited_for, None, completed.join_ms) + end


def _waited(waited_for: Sequence[h.Waited], slowest: str | None, join_ms: int | None = None) -> str:
    if not waited_for:
        return ""
    time = "" if join_ms is None else f" {duration(join_ms)}"
    last = f", slowest {name(slowest)}" if slowest is not None and len(waited_for) > 1 else ""
    return f"; waited{time} for {names(awaited.member_id for awaited in waited_for)}{last}"


def _dropped(dropped: Sequence[str]) -> str:
    return f"; dropped {names(dropped)}" if dropped else ""


def _chosen(record: h.ProtocolChosen) -> str:
    votes = listed([f"{protocol} {words.count(len(voters), 'vote')}" for protocol, voters in record.votes.items()])
    tie = " (a tie, settled as Kafka does)" if record.votes and record.tie else ""
    return f"assignor {record.protocol_name} is chosen{f': {votes}' if votes else ''}{tie}"


def _assigned(record: h.AssignmentReceived) -> str:
    shares = [f"{name(share.member_id)} gets {words.owned(share.topics)}" for share in record.assignments]
    return f"leader {name(record.leader_id)} assigns: {listed(shares)}"


_LEADS = {
    "first_member": "it is the first member",
    "leader_gone": "the leader is gone",
    "leader_did_not_rejoin": "the leader did not rejoin in time",
    "leader_replaced": "it is the leader under its new member id",
}

# ------------------------------------------------------------------------------------ offsets and refused requests


def _committed(record: h.OffsetsCommitted) -> str:
    changes = words.committed(record.offsets)
    if record.cause.kind == "observed":
        return f"committed: {changes}"
    if record.cause.kind == "transaction_ended":
        return f"the transaction of producer {record.cause.producer_id} commits {changes}"
    who = name(record.member_id) if record.member_id else f"{words.client(record.cause)}, no member,"
    return f"{who} commits {changes}"


def _deleted(record: h.OffsetsDeleted) -> str:
    offsets = f"the offsets of {words.removed(record.offsets)} are"
    if record.cause.kind != "topics_deleted":
        return f"{offsets} deleted by {words.client(record.cause)}"
    topics = dict.fromkeys(offset.topic for offset in record.offsets)
    deletion = f"topic {next(iter(topics))} was" if len(topics) == 1 else f"topics {listed(list(topics))} were"
    return f"{offsets} dropped: {deletion} deleted"


def _refused(record: h.RequestRefused) -> str:
    if record.api == "topic_metadata":
        return f"what came to be known of topics is kept out: {record.detail}"
    requester = name(record.cause.member_id) if record.cause.member_id else words.client(record.cause)
    met = "there was no such group" if record.state == "none" else f"the group was {record.state}"
    return f"{record.api} of {requester} is refused with {record.error}: {record.detail} ({met})"


SENTENCES: Mapping[type[h.HistoryRecord], Callable[[Any], str]] = {
    **OF_OTHER_RECORDS,
    **dict([
        said(h.GroupCreated, _created),
        said(h.GroupEmpty, lambda _: "the group is empty; its offsets stay until they expire"),
        said(h.GroupStable, _stable),
        said(h.GroupDead, _dead),
        said(h.GroupRecorded, _recorded),
        said(h.RecordingGap, lambda record: f"from here on nothing is known of the group: {record.reason}"),
        said(h.MemberIdAssigned, _id_assigned),
        said(h.PendingMemberRemoved, _pending_removed),
        said(h.MemberJoined, _joined),
        said(h.MemberRejoined, _rejoined),
        said(h.MemberLeft, lambda record: f"{name(record.member.member_id)} leaves{_reason_text(record.cause)}"),
        said(h.MemberExpired, _expired),
        said(h.MemberDropped, lambda record: f"{name(record.member.member_id)} is dropped: {_DROPPED[record.reason]}"),
        said(h.MemberReplaced, _replaced),
        said(h.MemberFenced, _fenced),
        said(h.JoinPhaseCompleted, _settled),
        said(h.RebalanceCompleted, _completed),
        said(h.ProtocolChosen, _chosen),
        said(h.LeaderElected, lambda record: f"{name(record.leader.member_id)} leads: {_LEADS[record.reason]}"),
        said(h.AssignmentReceived, _assigned),
        said(h.OffsetsCommitted, _committed),
        said(h.OffsetsExpired, lambda record: f"the offsets of {words.removed(record.offsets)} expire"),
        said(h.OffsetsDeleted, _deleted),
        said(h.RequestRefused, _refused),
    ]),
}  # fmt: skip
"""By type, of all records but those whose sentences have a time of day."""
