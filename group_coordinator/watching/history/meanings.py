"""Each record of history gets its meaning in words that are the same for every kind of group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from group_coordinator.watching.history.view import HistoryView
from schemas import consumer_group_history as c
from schemas import history as h
from schemas import observed_history as o
from schemas import transaction_history as t
from schemas.group_states import ASSIGNING, RECONCILING, UNKNOWN, GroupState

R = TypeVar("R", bound=h.HistoryRecord)
_EMPTY, _STABLE = GroupState.EMPTY.value, GroupState.STABLE.value
_COMPLETING = GroupState.COMPLETING_REBALANCE.value


class Meaning(NamedTuple):
    """The meaning of one type of record."""

    type: type[h.HistoryRecord]
    tell: Callable[[HistoryView, Any], None]
    """Says it to a view. The record is of the type that this is the meaning of."""
    state: str | Callable[[Any], str] | None
    """The state that the group is in from then on, or what says it of a record; None: the record does not change it."""
    may_cause: bool | Callable[[Any], bool]
    """The record may lead to a rebalance, or what says whether it may."""
    is_of_life: bool
    """The record belongs to a life of the group. Offsets and refusals also come where there is no group."""


def nothing_more(view: HistoryView, record: h.HistoryRecord) -> None:
    """Return nothing: the other fields of the meaning say it all."""


def meaning(
    kind: type[R],
    tell: Callable[[HistoryView, R], None] = nothing_more,
    *,
    state: str | Callable[[R], str] | None = None,
    may_cause: bool | Callable[[R], bool] = False,
    is_of_life: bool = True,
) -> Meaning:
    """Return the meaning of records of this type."""
    return Meaning(kind, tell, state, may_cause, is_of_life)


def _group_restored(view: HistoryView, record: o.GroupRestored) -> None:
    view.group_found(record)
    if record.members:
        view.partitions_assigned(record, record.assignments)
    else:
        view.group_emptied(record)


def _target_computed(view: HistoryView, record: c.TargetAssignmentComputed) -> None:
    if record.assignor is not None:
        view.protocol_chosen(record, record.assignor)
    view.target_computed(record)


def _state_after_conversion(record: c.GroupConverted) -> str:
    """The next records tell the state, but of an Empty group that becomes a classic one, which counts from 0 again."""
    return _EMPTY if record.to_protocol == "classic" and not record.generation_id else UNKNOWN


def _held(record: c.MemberReconciled) -> tuple[h.AssignedTopic, ...]:
    """What a member has in hand: what it must give up stays its own until it has."""
    by_topic: dict[str, list[int]] = {}
    for topic in (*record.assigned, *record.pending_revocation):
        by_topic.setdefault(topic.topic, []).extend(topic.partitions)
    return tuple(
        h.AssignedTopic(topic=topic, partitions=tuple(sorted(partitions))) for topic, partitions in by_topic.items()
    )


_ALL = (
    # The group.
    meaning(h.GroupCreated, state=_EMPTY, may_cause=True),
    meaning(h.GroupEmpty, lambda view, record: view.group_emptied(record), state=_EMPTY),
    meaning(h.GroupStable, lambda view, record: view.leader_chosen(record, record.leader_id), state=_STABLE),
    meaning(h.GroupDead, lambda view, record: view.group_died(record), state=GroupState.DEAD.value),
    meaning(h.GroupRecorded, lambda view, record: view.group_found(record), state=_COMPLETING),
    meaning(h.RecordingGap, lambda view, record: view.track_lost(record), state=UNKNOWN),
    meaning(
        c.GroupConverted, lambda view, record: view.group_converted(record), state=_state_after_conversion,
        may_cause=True,
    ),
    meaning(o.GroupRestored, _group_restored, state=lambda record: _STABLE if record.members else _EMPTY),
    meaning(o.GenerationsNotRecorded),
    meaning(o.CoordinatorChanged),
    meaning(o.CoordinatorStalled, may_cause=True),
    # Members.
    meaning(h.MemberIdAssigned, lambda view, record: view.member_id_given(record)),
    meaning(h.PendingMemberRemoved, lambda view, record: view.member_id_forgotten(record), may_cause=True),
    meaning(h.MemberJoined, lambda view, record: view.member_joined(record, record), may_cause=True),
    meaning(c.ConsumerMemberJoined, lambda view, record: view.member_joined(record, record.joined), may_cause=True),
    meaning(h.MemberRejoined, lambda view, record: view.member_rejoined(record), may_cause=True),
    meaning(
        c.ConsumerMemberUpdated, lambda view, record: view.member_changed(record),
        may_cause=lambda record: not c.SUBSCRIPTION.isdisjoint(record.changed),
    ),
    meaning(h.MemberReplaced, lambda view, record: view.member_replaced(record), may_cause=True),
    meaning(h.MemberLeft, lambda view, record: view.member_departed(record, record.member, "left"), may_cause=True),
    meaning(
        h.MemberExpired, lambda view, record: view.member_departed(record, record.member, "expired"), may_cause=True
    ),
    meaning(
        h.MemberDropped, lambda view, record: view.member_departed(record, record.member, "dropped"), may_cause=True
    ),
    meaning(o.MemberGone, lambda view, record: view.member_departed(record, record.member, "unknown"), may_cause=True),
    meaning(h.MemberFenced, lambda view, record: view.member_fenced(record)),
    meaning(c.ConsumerMemberAway),
    meaning(o.MemberRestored),
    # Rebalances.
    meaning(
        h.RebalanceStarted, lambda view, record: view.rebalance_started(record),
        state=GroupState.PREPARING_REBALANCE.value,
    ),
    meaning(h.RebalanceExtended, lambda view, record: view.rebalance_extended(record)),
    meaning(h.JoinPhaseCompleted, lambda view, record: view.members_settled(record), state=_COMPLETING),
    meaning(h.ProtocolChosen, lambda view, record: view.protocol_chosen(record, record.protocol_name)),
    meaning(h.LeaderElected, lambda view, record: view.leader_chosen(record, record.leader.member_id)),
    meaning(h.AssignmentReceived, lambda view, record: view.partitions_assigned(record, record.assignments)),
    meaning(h.RebalanceCompleted, lambda view, record: view.rebalance_ended(record)),
    meaning(c.GroupEpochBumped, lambda view, record: view.epoch_raised(record), state=ASSIGNING),
    meaning(c.TargetAssignmentComputed, _target_computed, state=RECONCILING),
    meaning(c.MemberReconciled, lambda view, record: view.partitions_of_member(record, _held(record))),
    meaning(c.MembersReconciled, state=_STABLE),
    meaning(c.GroupReconciling, state=RECONCILING),
    meaning(c.RegexResolved, lambda view, record: view.regex_resolved(record), may_cause=True),
    meaning(o.OwnershipNotKnown, lambda view, record: view.ownership_lost_from_view(record)),
    # Offsets and refused requests.
    meaning(h.OffsetsCommitted, lambda view, record: view.offsets_committed(record), is_of_life=False),
    meaning(h.OffsetsExpired, lambda view, record: view.offsets_removed(record, "expired"), is_of_life=False),
    meaning(h.OffsetsDeleted, lambda view, record: view.offsets_removed(record, "deleted"), is_of_life=False),
    meaning(o.OffsetsRemoved, lambda view, record: view.offsets_removed(record, "unknown"), is_of_life=False),
    meaning(t.TransactionalOffsetsPending, lambda view, record: view.offsets_pending(record), is_of_life=False),
    meaning(t.TransactionalOffsetsAborted, lambda view, record: view.offsets_never_counted(record), is_of_life=False),
    meaning(t.TransactionalOffsetsReplaced, lambda view, record: view.offsets_never_counted(record), is_of_life=False),
    meaning(h.RequestRefused, lambda view, record: view.request_refused(record), is_of_life=False),
)  # fmt: skip

MEANINGS: Mapping[type[h.HistoryRecord], Meaning] = {each.type: each for each in _ALL}
"""Of every type of record."""
