"""Each record of a classic group's history gets its meaning in the words of every kind of group."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from group_coordinator.watching.history.meaning import Meaning, nothing_more
from group_coordinator.watching.history.view import HistoryView
from schemas.group_states import UNKNOWN, GroupState
from schemas.history import (
    AssignmentReceived,
    GroupCreated,
    GroupDead,
    GroupEmpty,
    GroupRecorded,
    GroupStable,
    HistoryRecord,
    JoinPhaseCompleted,
    LeaderElected,
    MemberDropped,
    MemberExpired,
    MemberFenced,
    MemberIdAssigned,
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
    RecordingGap,
    RequestRefused,
)


def _group_empty(view: HistoryView, record: GroupEmpty) -> None:
    view.group_emptied(record)


def _group_stable(view: HistoryView, record: GroupStable) -> None:
    view.leader_chosen(record, record.leader_id)


def _group_dead(view: HistoryView, record: GroupDead) -> None:
    view.group_died(record)


def _group_recorded(view: HistoryView, record: GroupRecorded) -> None:
    view.group_found(record, record.members, record.leader_id, record.protocol_name)


def _recording_gap(view: HistoryView, record: RecordingGap) -> None:
    view.track_lost(record, record.reason)


def _member_id_assigned(view: HistoryView, record: MemberIdAssigned) -> None:
    view.member_id_given(record, record.member, record.session_timeout_ms)


def _pending_member_removed(view: HistoryView, record: PendingMemberRemoved) -> None:
    view.member_id_forgotten(record, record.member_id, record.reason)


def _member_joined(view: HistoryView, record: MemberJoined) -> None:
    view.member_joined(record, record)


def _member_rejoined(view: HistoryView, record: MemberRejoined) -> None:
    view.member_rejoined(record, record.member, record.subscribed_topics)


def _member_left(view: HistoryView, record: MemberLeft) -> None:
    view.member_departed(record, record.member, "left", record.cause.reason)


def _member_expired(view: HistoryView, record: MemberExpired) -> None:
    timeout_ms = record.session_timeout_ms
    timeout = "its session timeout" if timeout_ms is None else f"{timeout_ms} ms"
    broker_id = record.stalled_broker_id
    stalled = "" if broker_id is UNSET else f": broker {broker_id} seems to have stood still"
    view.member_departed(record, record.member, "expired", f"not heard for {timeout}{stalled}")


def _member_dropped(view: HistoryView, record: MemberDropped) -> None:
    view.member_departed(record, record.member, "dropped", record.reason)


def _member_replaced(view: HistoryView, record: MemberReplaced) -> None:
    view.member_replaced(record, record.member, record.old_member_id, record.rebalanced is True)


def _member_fenced(view: HistoryView, record: MemberFenced) -> None:
    view.member_fenced(record)


def _rebalance_started(view: HistoryView, record: RebalanceStarted) -> None:
    view.rebalance_started(record)


def _rebalance_extended(view: HistoryView, record: RebalanceExtended) -> None:
    view.rebalance_extended(record, record.deadline_ms)


def _join_phase_completed(view: HistoryView, record: JoinPhaseCompleted) -> None:
    view.members_settled(record)


def _protocol_chosen(view: HistoryView, record: ProtocolChosen) -> None:
    view.protocol_chosen(record, record.protocol_name)


def _leader_elected(view: HistoryView, record: LeaderElected) -> None:
    view.leader_chosen(record, record.leader.member_id)


def _assignment_received(view: HistoryView, record: AssignmentReceived) -> None:
    view.partitions_assigned(record, record.assignments, record.leader_id, record.rebalance)


def _rebalance_completed(view: HistoryView, record: RebalanceCompleted) -> None:
    view.rebalance_ended(record)


def _offsets_committed(view: HistoryView, record: OffsetsCommitted) -> None:
    view.offsets_committed(record)


def _offsets_expired(view: HistoryView, record: OffsetsExpired) -> None:
    view.offsets_removed(record, "expired")


def _offsets_deleted(view: HistoryView, record: OffsetsDeleted) -> None:
    view.offsets_removed(record, "deleted")


def _request_refused(view: HistoryView, record: RequestRefused) -> None:
    view.request_refused(record)


MEANINGS: Mapping[type[HistoryRecord], Meaning] = {
    GroupCreated: Meaning(nothing_more, state=GroupState.EMPTY.value, may_cause=True),
    GroupEmpty: Meaning(_group_empty, state=GroupState.EMPTY.value),
    GroupStable: Meaning(_group_stable, state=GroupState.STABLE.value),
    GroupDead: Meaning(_group_dead, state=GroupState.DEAD.value),
    GroupRecorded: Meaning(_group_recorded, state=GroupState.COMPLETING_REBALANCE.value),
    RecordingGap: Meaning(_recording_gap, state=UNKNOWN),
    MemberIdAssigned: Meaning(_member_id_assigned),
    PendingMemberRemoved: Meaning(_pending_member_removed, may_cause=True),
    MemberJoined: Meaning(_member_joined, may_cause=True),
    MemberRejoined: Meaning(_member_rejoined, may_cause=True),
    MemberLeft: Meaning(_member_left, may_cause=True),
    MemberExpired: Meaning(_member_expired, may_cause=True),
    MemberDropped: Meaning(_member_dropped, may_cause=True),
    MemberReplaced: Meaning(_member_replaced, may_cause=True),
    MemberFenced: Meaning(_member_fenced),
    RebalanceStarted: Meaning(_rebalance_started, state=GroupState.PREPARING_REBALANCE.value),
    RebalanceExtended: Meaning(_rebalance_extended),
    JoinPhaseCompleted: Meaning(_join_phase_completed, state=GroupState.COMPLETING_REBALANCE.value),
    ProtocolChosen: Meaning(_protocol_chosen),
    LeaderElected: Meaning(_leader_elected),
    AssignmentReceived: Meaning(_assignment_received),
    RebalanceCompleted: Meaning(_rebalance_completed),
    OffsetsCommitted: Meaning(_offsets_committed, is_of_life=False),
    OffsetsExpired: Meaning(_offsets_expired, is_of_life=False),
    OffsetsDeleted: Meaning(_offsets_deleted, is_of_life=False),
    RequestRefused: Meaning(_request_refused, is_of_life=False),
}
