"""A group is loaded by another broker, as a recording tells: it is what its last record in the offsets log says.

Source: `GroupMetadataManager.replay` and `onLoaded`, and `onUnloaded` of the old coordinator (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.classic import states, timers
from coordinator_state.classic.assigned_topics import assigned_topics
from coordinator_state.classic.changes import Changes, begin_group
from coordinator_state.classic.group import CONSUMER, ClassicGroup, classic_group
from coordinator_state.classic.join_group import first_subscription
from coordinator_state.classic.member import Member
from coordinator_state.step import Step
from coordinator_state.timers import OFFSETS_EXPIRY
from schemas import history
from schemas.error_codes import ErrorCode
from schemas.messages import SyncGroupResponse
from schemas.observed_history import CoordinatorChanged, GroupRestored
from schemas.recorded import RecordedLoad
from schemas.records import MemberMetadata, decode_group_metadata_value


def load(step: Step, fact: RecordedLoad) -> None:
    """Put the stored group in place of the one that was, and begin its members' sessions when it has loaded."""
    if step.group is None and fact.group_metadata is None:
        return
    changes = begin_group(step) if step.group is None else Changes(step, classic_group(step.group))
    before = changes.group
    _answer_waiting(changes)
    changes.tell(CoordinatorChanged(*changes.fields(), broker_id=fact.broker_id, leader_epoch=None))
    changes.complete("coordinator_changed")
    loaded = _stored(fact, before)
    group = step.require_group()
    for name in list(group.timers):
        if name != OFFSETS_EXPIRY:
            del group.timers[name]
    group.body, group.is_logged = loaded, group.is_logged or fact.group_metadata is not None
    for member in loaded.members.values():
        delay_ms = max(fact.loaded_ms - step.now_ms, 0)
        step.arm(timers.session(member.member_id), delay_ms + member.session_timeout_ms)
    _tell_changes(step, before, loaded)
    step.note_change()


def _answer_waiting(changes: Changes) -> None:
    """The old coordinator refuses what waits."""
    for member in changes.group.members.values():
        if member.awaiting_join is not None:
            changes.refuse_join(member, ErrorCode.NOT_COORDINATOR, member.member_id)
        if member.awaiting_sync is not None:
            changes.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))


def _stored(fact: RecordedLoad, before: ClassicGroup) -> ClassicGroup:
    """The group as its record has it: with members it is Stable, and each has the one protocol that was chosen."""
    if fact.group_metadata is None:
        return ClassicGroup(state_since_ms=before.state_since_ms)
    stored = decode_group_metadata_value(fact.group_metadata)
    loaded = ClassicGroup(
        state=states.STABLE if stored.members else states.EMPTY,
        previous_state=states.COMPLETING_REBALANCE if stored.members else states.PREPARING_REBALANCE,
        state_since_ms=stored.state_since_ms or 0,
        protocol_type=stored.protocol_type or None,
        protocol_name=stored.protocol,
        generation_id=stored.generation,
        leader_id=stored.leader,
    )
    for member in stored.members:
        loaded.add_member(_member(member, stored.protocol or ""), stored.protocol_type)
    loaded.elected_leader_id = loaded.leader_id
    loaded.subscribed_topics = loaded.topics_of_members()
    return loaded


def _member(stored: MemberMetadata, protocol_name: str) -> Member:
    return Member(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=stored.loaded_rebalance_timeout_ms,
        protocols=((protocol_name, stored.subscription),),
        assignment=stored.assignment,
        is_new=False,
    )


def _tell_changes(step: Step, before: ClassicGroup, loaded: ClassicGroup) -> None:
    """History of what the load has changed: nothing, if the group was as it is stored."""
    for member_id in before.pending_join:
        step.append_history(
            history.PendingMemberRemoved(*step.history_fields(), member_id=member_id, reason="not_stored")
        )
    for member in before.members.values():
        if member.member_id not in loaded.members:
            step.append_history(
                history.MemberDropped(*step.history_fields(), member=member.identity, reason="not_stored")
            )
    is_as_before = before.state is loaded.state and before.generation_id == loaded.generation_id
    if is_as_before and before.members.keys() == loaded.members.keys():
        return
    protocol_type = loaded.protocol_type or ""
    is_consumer = protocol_type == CONSUMER
    step.append_history(
        GroupRestored(
            *step.history_fields(),
            leader_id=loaded.leader_id or "",
            protocol_name=loaded.protocol_name,
            members=recorded_members(loaded, protocol_type),
            assignments=tuple(
                history.MemberAssignment(
                    member_id=member.member_id, topics=assigned_topics(is_consumer, member.assignment)
                )
                for member in loaded.members.values()
            ),
        )
    )


def recorded_members(group: ClassicGroup, protocol_type: str) -> tuple[history.MemberRecorded, ...]:
    """Return a group's members as history records them when they come from a recording."""
    return tuple(
        history.MemberRecorded(
            member=member.identity,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=tuple(name for name, _ in member.protocols),
            subscribed_topics=first_subscription(protocol_type, member.protocols),
        )
        for member in group.members.values()
    )
