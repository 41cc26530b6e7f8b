"""The sentences of records of consumer groups, and of what only watched groups have. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, assert_never

from msgspec import UNSET

from group_coordinator.watching.narrative.words import client, count, duration, listed, member, name, names, owned
from schemas import consumer_group_history as c
from schemas import observed_history as o
from schemas.history import HistoryRecord
from schemas.transaction_history import (
    TransactionalOffsetsAborted,
    TransactionalOffsetsPending,
    TransactionalOffsetsReplaced,
    TransactionHistory,
)

R = TypeVar("R", bound=HistoryRecord)
_AWAY = -2
"""The epoch of a static member that has left for a while."""


def said(kind: type[R], sentence: Callable[[R], str]) -> tuple[type[HistoryRecord], Callable[[Any], str]]:
    """Return a type of record with what says what happened, without time and group."""
    return kind, sentence


def _no_record(record: o.GenerationsNotRecorded) -> str:
    first, last = record.first_generation_id, record.last_generation_id
    which = f"generation {first}" if first == last else f"generations {first} to {last}"
    return f"{which} left no record"


def _moved(record: o.CoordinatorChanged) -> str:
    by = "another broker, or this one anew," if record.broker_id is None else f"broker {record.broker_id}"
    return f"{by} coordinates the group from here on; the sessions of its members begin anew"


def _stood_still(record: o.CoordinatorStalled) -> str:
    of_groups = f" of {count(record.groups, 'group')}" if record.groups > 1 else ""
    return (
        f"broker {record.broker_id}, the coordinator, seems to have stood still for "
        f"{duration(record.until_ms - record.since_ms)}: it wrote nothing, and then "
        f"{count(record.members, 'member')}{of_groups} expired at once"
    )


_WENT = {
    "left": "left", "expired": "expired", "dropped": "been dropped", "replaced": "been replaced", "unknown": "gone",
}  # fmt: skip


def _member_restored(record: o.MemberRestored) -> str:
    return (
        f"{name(record.member.member_id)}, which had {_WENT[record.departure]}, is a member again: that was not stored "
        "before the coordinator changed"
    )


def _not_known(record: o.OwnershipNotKnown) -> str:
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


def _restored(record: o.GroupRestored) -> str:
    if not record.members:
        return "the group is what was stored of it last: it has no members"
    shares = listed([f"{name(share.member_id)} owns {owned(share.topics)}" for share in record.assignments])
    return f"the group is what was stored of it last: generation {record.generation_id}, in which {shares}"


def _removed(record: o.OffsetsRemoved) -> str:
    offsets = [f"{offset.topic}-{offset.partition} (was {offset.previous_offset})" for offset in record.offsets]
    return f"the offsets of {listed(offsets)} are gone: expired or deleted, not known which"


def _of_transaction(record: TransactionHistory) -> str:
    offsets = listed([f"{offset.topic}-{offset.partition} at {offset.offset}" for offset in record.offsets])
    if isinstance(record, TransactionalOffsetsAborted):
        return f"producer {record.producer_id} aborts its transaction: {offsets} is never committed"
    if isinstance(record, TransactionalOffsetsReplaced):
        return f"the transaction of producer {record.producer_id} is committed: later commits had replaced {offsets}"
    name = "a transaction that" if record.transactional_id is UNSET else f"transaction {record.transactional_id}, which"
    return f"producer {record.producer_id} writes {offsets} in {name} is still open"


def _bumped(record: c.GroupEpochBumped) -> str:
    reasons = listed([reason.replace("_", " ") for reason in record.reasons])
    return f"the group goes to epoch {record.generation_id}, because of: {reasons}"


def _computed(record: c.TargetAssignmentComputed) -> str:
    shares = [f"{name(share.member_id)} shall own {owned(share.topics)}" for share in record.assignments]
    by = f" by {record.assignor}" if record.assignor else ""
    target = listed(shares) or "nothing for nobody"
    return f"the target of epoch {record.assignment_epoch} is computed{by}: {target}"


def _joined(record: c.ConsumerMemberJoined) -> str:
    asks = record.joined
    topics = f" for {listed(list(asks.subscribed_topics))}" if asks.subscribed_topics else ""
    regex = f" for the pattern {asks.subscribed_regex}" if asks.subscribed_regex else ""
    protocol = " with the classic protocol" if asks.uses_classic_protocol else ""
    return f"{member(asks.member)} joins{topics}{' and' if topics and regex else ''}{regex}{protocol}"


def _updated(record: c.ConsumerMemberUpdated) -> str:
    changes = listed([setting.replace("_", " ") for setting in record.changed])
    return f"{member(record.updated.member)} changes its {changes}"


def _reconciled(record: c.MemberReconciled) -> str:
    who = member(record.member)
    if record.member_epoch == _AWAY:
        return f"{who} keeps {owned(record.assigned)} while it is away"
    text = f"{who} is in epoch {record.member_epoch} and owns {owned(record.assigned)}"
    if record.pending_revocation:
        text += f"; it must give up {owned(record.pending_revocation)}"
    return text + ("; it waits for what others give up" if record.state == "unreleased_partitions" else "")


def _resolved(record: c.RegexResolved) -> str:
    if record.topics is None:
        return f"nobody subscribes to the pattern {record.regex} any more"
    if not record.topics:
        return f"the pattern {record.regex} matches no topic"
    topics = f"{count(len(record.topics), 'topic')}: {listed(list(record.topics))}"
    return f"the pattern {record.regex} matches {topics}"


def _converted(record: c.GroupConverted) -> str:
    cause, occasion = record.cause, ""
    if cause.kind == "request":
        occasion = f", with the {cause.api} of {client(cause)}"
    elif cause.kind == "timer" and cause.member_id is not None:
        occasion = f", when the {cause.timer} timer of {name(cause.member_id)} fires"
    return f"the group goes over to the {record.to_protocol} protocol{occasion}"


SENTENCES: Mapping[type[HistoryRecord], Callable[[Any], str]] = dict([
    said(o.MemberGone, lambda record: f"{name(record.member.member_id)} is gone: left or expired, not known which"),
    said(o.OwnershipNotKnown, _not_known),
    said(o.GenerationsNotRecorded, _no_record),
    said(o.CoordinatorChanged, _moved),
    said(o.CoordinatorStalled, _stood_still),
    said(o.MemberRestored, _member_restored),
    said(o.GroupRestored, _restored),
    said(o.OffsetsRemoved, _removed),
    said(TransactionalOffsetsPending, _of_transaction),
    said(TransactionalOffsetsAborted, _of_transaction),
    said(TransactionalOffsetsReplaced, _of_transaction),
    said(c.GroupEpochBumped, _bumped),
    said(c.TargetAssignmentComputed, _computed),
    said(c.ConsumerMemberJoined, _joined),
    said(c.ConsumerMemberUpdated, _updated),
    said(
        c.ConsumerMemberAway,
        lambda record: f"{member(record.member)} is away for a while; its partitions are kept for it",
    ),
    said(c.MemberReconciled, _reconciled),
    said(
        c.MembersReconciled,
        lambda record: f"every member has come to its target of epoch {record.assignment_epoch}",
    ),
    said(c.GroupReconciling, lambda _: "not every member owns what its target gives it any more"),
    said(c.RegexResolved, _resolved),
    said(c.GroupConverted, _converted),
])  # fmt: skip
"""By type of record."""
