"""The sentences of records of consumer groups, and of what only watched groups have. Pure."""

from __future__ import annotations

from typing import assert_never

from group_coordinator.watching.narrative.words import client, count, duration, listed, member, name, names, owned
from schemas.consumer_group_history import (
    ConsumerGroupHistory,
    ConsumerMemberAway,
    ConsumerMemberJoined,
    ConsumerMemberUpdated,
    GroupConverted,
    GroupEpochBumped,
    GroupReconciling,
    MemberReconciled,
    MembersReconciled,
    RegexResolved,
    TargetAssignmentComputed,
)
from schemas.history_parts import Cause
from schemas.observed_history import (
    CoordinatorChanged,
    CoordinatorStalled,
    GenerationsNotRecorded,
    GroupRestored,
    MemberGone,
    MemberRestored,
    ObservedHistory,
    OffsetsRemoved,
    OwnershipNotKnown,
)
from schemas.transaction_history import TransactionalOffsetsAborted, TransactionalOffsetsPending, TransactionHistory

_AWAY = -2
"""The epoch of a static member that has left for a while."""


def sentence(record: TransactionHistory | ConsumerGroupHistory | ObservedHistory) -> str:
    """Return what happened, without time and group."""
    match record:
        case MemberGone():
            return f"{name(record.member.member_id)} is gone: left or expired, not known which"
        case OwnershipNotKnown():
            return _not_known(record)
        case GenerationsNotRecorded():
            first, last = record.first_generation_id, record.last_generation_id
            which = f"generation {first}" if first == last else f"generations {first} to {last}"
            return f"{which} left no record"
        case CoordinatorChanged():
            by = (
                f"broker {record.broker_id}"
                if record.broker_id is not None
                else "another broker, or this one anew,"
            )
            return f"{by} coordinates the group from here on; the sessions of its members begin anew"
        case CoordinatorStalled():
            of_groups = f" of {count(record.groups, 'group')}" if record.groups > 1 else ""
            return (
                f"broker {record.broker_id}, the coordinator, seems to have stood still for "
                f"{duration(record.until_ms - record.since_ms)}: it wrote nothing, and then "
                f"{count(record.members, 'member')}{of_groups} expired at once"
            )
        case MemberRestored():
            how = "gone" if record.departure == "unknown" else _WENT[record.departure]
            return (
                f"{name(record.member.member_id)}, which had {how}, is a member again: that was not stored before "
                "the coordinator changed"
            )
        case GroupRestored():
            return _restored(record)
        case OffsetsRemoved():
            offsets = [f"{offset.topic}-{offset.partition} (was {offset.previous_offset})" for offset in record.offsets]
            return f"the offsets of {listed(offsets)} are gone: expired or deleted, not known which"
        case TransactionalOffsetsPending() | TransactionalOffsetsAborted():
            return _of_transaction(record)
        case _:
            return _of_consumer_group(record)


_WENT = {"left": "left", "expired": "expired", "dropped": "been dropped", "replaced": "been replaced"}


def _not_known(record: OwnershipNotKnown) -> str:
    who = names(record.member_ids)
    match record.reason:
        case "rejoining":
            return f"{who} may have given up their partitions: each does when it rejoins"
        case "eager_member":
            return (
                f"{who} may have given up their partitions, although the assignor is cooperative: each rejoins "
                "without any, as eager members do"
            )
        case "not_recorded":
            return f"what {who} own is not known: no record has the assignment"
        case _:
            assert_never(record.reason)


def _restored(record: GroupRestored) -> str:
    if not record.members:
        return "the group is what was stored of it last: it has no members"
    shares = listed([f"{name(share.member_id)} owns {owned(share.topics)}" for share in record.assignments])
    return f"the group is what was stored of it last: generation {record.generation_id}, in which {shares}"


def _of_transaction(record: TransactionalOffsetsPending | TransactionalOffsetsAborted) -> str:
    offsets = listed([f"{offset.topic}-{offset.partition} at {offset.offset}" for offset in record.offsets])
    if isinstance(record, TransactionalOffsetsAborted):
        return f"producer {record.producer_id} aborts its transaction: {offsets} is never committed"
    return f"producer {record.producer_id} writes {offsets} in a transaction that is still open"


def _of_consumer_group(
    record: GroupEpochBumped
    | TargetAssignmentComputed
    | ConsumerMemberJoined
    | ConsumerMemberUpdated
    | ConsumerMemberAway
    | MemberReconciled
    | MembersReconciled
    | GroupReconciling
    | RegexResolved
    | GroupConverted,
) -> str:
    match record:
        case GroupEpochBumped():
            reasons = listed([reason.replace("_", " ") for reason in record.reasons])
            return f"the group goes to epoch {record.generation_id}, because of: {reasons}"
        case TargetAssignmentComputed():
            shares = [f"{name(share.member_id)} shall own {owned(share.topics)}" for share in record.assignments]
            by = f" by {record.assignor}" if record.assignor else ""
            target = listed(shares) or "nothing for nobody"
            return f"the target of epoch {record.assignment_epoch} is computed{by}: {target}"
        case ConsumerMemberJoined():
            topics = f" for {listed(list(record.joined.subscribed_topics))}" if record.joined.subscribed_topics else ""
            regex = f" for the pattern {record.joined.subscribed_regex}" if record.joined.subscribed_regex else ""
            protocol = " with the classic protocol" if record.joined.uses_classic_protocol else ""
            return f"{member(record.joined.member)} joins{topics}{' and' if topics and regex else ''}{regex}{protocol}"
        case ConsumerMemberUpdated():
            changes = listed([setting.replace("_", " ") for setting in record.changed])
            return f"{member(record.updated.member)} changes its {changes}"
        case ConsumerMemberAway():
            return f"{member(record.member)} is away for a while; its partitions are kept for it"
        case MemberReconciled():
            return _reconciled(record)
        case MembersReconciled():
            return f"every member has come to its target of epoch {record.assignment_epoch}"
        case GroupReconciling():
            return "not every member owns what its target gives it any more"
        case RegexResolved():
            return _resolved(record)
        case GroupConverted():
            return f"the group goes over to the {record.to_protocol} protocol{_occasion(record.cause)}"
        case _:
            assert_never(record)


def _reconciled(record: MemberReconciled) -> str:
    who = member(record.member)
    if record.member_epoch == _AWAY:
        return f"{who} keeps {owned(record.assigned)} while it is away"
    text = f"{who} is in epoch {record.member_epoch} and owns {owned(record.assigned)}"
    if record.pending_revocation:
        text += f"; it must give up {owned(record.pending_revocation)}"
    return text + ("; it waits for what others give up" if record.state == "unreleased_partitions" else "")


def _resolved(record: RegexResolved) -> str:
    if record.topics is None:
        return f"nobody subscribes to the pattern {record.regex} any more"
    if not record.topics:
        return f"the pattern {record.regex} matches no topic"
    topics = f"{count(len(record.topics), 'topic')}: {listed(list(record.topics))}"
    return f"the pattern {record.regex} matches {topics}"


def _occasion(cause: Cause) -> str:
    """Return what a group was converted by."""
    if cause.kind == "request":
        return f", with the {cause.api} of {client(cause)}"
    if cause.kind == "timer" and cause.member_id is not None:
        return f", when the {cause.timer} timer of {name(cause.member_id)} fires"
    return ""
