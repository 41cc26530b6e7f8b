"""What each record means of consumer groups, and of what only watched groups have."""

from __future__ import annotations

from collections.abc import Mapping

from group_coordinator.watching.history.meaning import Meaning, nothing_more
from group_coordinator.watching.history.view import HistoryView
from schemas.consumer_group_history import (
    SUBSCRIPTION,
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
from schemas.group_states import ASSIGNING, RECONCILING, UNKNOWN, GroupState
from schemas.history import AssignedTopic, HistoryRecord
from schemas.observed_history import (
    CoordinatorChanged,
    CoordinatorStalled,
    GenerationsNotRecorded,
    GroupRestored,
    MemberGone,
    MemberRestored,
    OffsetsRemoved,
    OwnershipNotKnown,
)
from schemas.transaction_history import TransactionalOffsetsAborted, TransactionalOffsetsPending


def _group_converted(view: HistoryView, record: GroupConverted) -> None:
    view.group_converted(record, record.to_protocol)


def _state_after_conversion(record: GroupConverted) -> str:
    """The next records tell the state, but of an Empty group that becomes a classic one, which counts from 0 again."""
    return GroupState.EMPTY.value if record.to_protocol == "classic" and not record.generation_id else UNKNOWN


def _member_gone(view: HistoryView, record: MemberGone) -> None:
    view.member_departed(record, record.member, "unknown", "left or expired, not known which")


def _ownership_not_known(view: HistoryView, record: OwnershipNotKnown) -> None:
    view.ownership_lost_from_view(record, record.member_ids)


def _group_restored(view: HistoryView, record: GroupRestored) -> None:
    view.group_found(record, record.members, record.leader_id, record.protocol_name)
    if record.members:
        view.partitions_assigned(record, record.assignments, record.leader_id, None)
    else:
        view.group_emptied(record)


def _restored_state(record: GroupRestored) -> str:
    return (GroupState.STABLE if record.members else GroupState.EMPTY).value


def _offsets_removed(view: HistoryView, record: OffsetsRemoved) -> None:
    view.offsets_removed(record, "unknown")


def _offsets_pending(view: HistoryView, record: TransactionalOffsetsPending) -> None:
    view.offsets_pending(record)


def _offsets_aborted(view: HistoryView, record: TransactionalOffsetsAborted) -> None:
    view.offsets_aborted(record)


def _group_epoch_bumped(view: HistoryView, record: GroupEpochBumped) -> None:
    view.epoch_raised(record)


def _target_assignment_computed(view: HistoryView, record: TargetAssignmentComputed) -> None:
    if record.assignor is not None:
        view.protocol_chosen(record, record.assignor)
    view.target_computed(record, record.assignments)


def _consumer_member_joined(view: HistoryView, record: ConsumerMemberJoined) -> None:
    view.member_joined(record, record.joined)


def _consumer_member_updated(view: HistoryView, record: ConsumerMemberUpdated) -> None:
    view.member_changed(record, record.updated)


def _asks_for_other_topics(record: ConsumerMemberUpdated) -> bool:
    return not SUBSCRIPTION.isdisjoint(record.changed)


def _member_reconciled(view: HistoryView, record: MemberReconciled) -> None:
    view.partitions_of_member(record, record.member, _held(record))


def _held(record: MemberReconciled) -> tuple[AssignedTopic, ...]:
    """What a member has in hand: what it must give up stays its own until it has."""
    by_topic: dict[str, list[int]] = {}
    for topic in (*record.assigned, *record.pending_revocation):
        by_topic.setdefault(topic.topic, []).extend(topic.partitions)
    return tuple(
        AssignedTopic(topic=topic, partitions=tuple(sorted(partitions))) for topic, partitions in by_topic.items()
    )


MEANINGS: Mapping[type[HistoryRecord], Meaning] = {
    MemberGone: Meaning(_member_gone, may_cause=True),
    OwnershipNotKnown: Meaning(_ownership_not_known),
    GenerationsNotRecorded: Meaning(nothing_more),
    CoordinatorChanged: Meaning(nothing_more),
    CoordinatorStalled: Meaning(nothing_more, may_cause=True),
    MemberRestored: Meaning(nothing_more),
    GroupRestored: Meaning(_group_restored, state=_restored_state),
    OffsetsRemoved: Meaning(_offsets_removed, is_of_life=False),
    TransactionalOffsetsPending: Meaning(_offsets_pending, is_of_life=False),
    TransactionalOffsetsAborted: Meaning(_offsets_aborted, is_of_life=False),
    GroupEpochBumped: Meaning(_group_epoch_bumped, state=ASSIGNING),
    TargetAssignmentComputed: Meaning(_target_assignment_computed, state=RECONCILING),
    ConsumerMemberJoined: Meaning(_consumer_member_joined, may_cause=True),
    ConsumerMemberUpdated: Meaning(_consumer_member_updated, may_cause=_asks_for_other_topics),
    ConsumerMemberAway: Meaning(nothing_more),
    MemberReconciled: Meaning(_member_reconciled),
    MembersReconciled: Meaning(nothing_more, state=GroupState.STABLE.value),
    GroupReconciling: Meaning(nothing_more, state=RECONCILING),
    RegexResolved: Meaning(nothing_more, may_cause=True),
    GroupConverted: Meaning(_group_converted, state=_state_after_conversion, may_cause=True),
}
