"""The recording of another coordinator says more than requests: its leaders, its groups, and its gaps.

A replay that follows these does what that coordinator did, where ours would have decided otherwise or cannot know.
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator_state.classic import states, timers
from coordinator_state.classic.changes import Changes, begin_group
from coordinator_state.classic.group import ClassicGroup
from coordinator_state.classic.loading import recorded_members
from coordinator_state.classic.member import Member
from coordinator_state.offsets import CommittedOffset
from coordinator_state.outputs import RecordedEvent
from coordinator_state.retention import note_commits
from coordinator_state.step import Step
from schemas import history
from schemas.observed_history import MemberGone
from schemas.recorded import (
    RecordedDeparture,
    RecordedGroup,
    RecordedLeader,
    RecordedMember,
    RecordedOffset,
    RecordedSession,
    RecordingGap,
)
from schemas.records import NO_TIMESTAMP, encode_offset_commit, encode_offset_commit_key


def follow_recording(step: Step, event: RecordedEvent) -> None:
    """Handle one event of a recording. (Each kind of group loads in its own way.)"""
    fact = event.fact
    if type(fact) is RecordedLeader:
        if step.group is not None and type(step.group.body) is ClassicGroup:  # no other kind of group has a leader
            step.begin(event)
            put_first(step.group.body, fact.member_ids)
    elif type(fact) is RecordedGroup:
        if step.group is not None:
            step.configuration = step.group.configuration
        step.group = None
        step.begin(event)
        _take_over(step, fact)
    elif type(fact) is RecordedSession:
        if step.group is not None:
            step.begin(event)
            _fire_at(step, timers.JOIN if fact.member_id is None else timers.session(fact.member_id), fact.ends_ms)
    elif type(fact) is RecordedDeparture:
        if step.group is not None and type(step.group.body) is ClassicGroup:  # another kind has its own way
            step.begin(event)
            _depart(step, step.group.body, fact.member_id)
    elif type(fact) is RecordingGap:
        step.begin(event)
        step.append_history(history.RecordingGap(*step.history_fields(), reason=fact.reason))
        if step.group is not None:
            step.forget_group()


def _fire_at(step: Step, name: str, ends_ms: int) -> None:
    """Move a timer. Both kinds of groups name those of sessions alike."""
    armed = step.require_group().timers
    timer = armed.get(name)
    if timer is not None:
        armed[name] = replace(timer, deadline_ms=ends_ms)
        step.no_deadline_before_ms = min(step.no_deadline_before_ms, ends_ms)


def _depart(step: Step, group: ClassicGroup, member_id: str) -> None:
    """Take out a member of which only that is known."""
    member = group.members.get(member_id)
    if member is not None:
        changes = Changes(step, group)
        changes.lead(MemberGone(*changes.fields(), member=member.identity))
        changes.remove(member)
        changes.rebalance("not_known", f"{member_id} is gone: left or expired, not known which", member)


def put_first(group: ClassicGroup, member_ids: tuple[str, ...]) -> None:
    """Move these members before the others: where there is no leader, the first member that has joined is elected."""
    first = {member_id: group.members[member_id] for member_id in member_ids if member_id in group.members}
    group.members = first | group.members


def _take_over(step: Step, fact: RecordedGroup) -> None:
    """The group right after a join phase: all wait for the leader's SyncGroup."""
    changes = begin_group(step)
    group = changes.group
    group.state, group.previous_state = states.COMPLETING_REBALANCE, states.PREPARING_REBALANCE
    group.generation_id, group.protocol_name = fact.generation_id, fact.protocol_name
    for recorded in fact.members:
        group.add_member(_member(recorded), fact.protocol_type)
    group.leader_id = group.elected_leader_id = fact.leader_id
    group.subscribed_topics = group.topics_of_members()
    step.require_group().is_logged = True
    for member in group.members.values():
        changes.await_sync(member)
    changes.step.arm(timers.SYNC, group.rebalance_timeout_ms)
    for offset in fact.offsets:
        _put_offset(step, offset)
    step.require_group().offsets_bytes = None
    step.append_history(
        history.GroupRecorded(
            *step.history_fields(),
            leader_id=fact.leader_id,
            protocol_name=fact.protocol_name,
            members=recorded_members(group, fact.protocol_type),
        )
    )


def _put_offset(step: Step, offset: RecordedOffset) -> None:
    """The offsets log has it too: while the group was not known, nobody wrote there."""
    group = step.require_group()
    is_new = group.offsets.get(offset.topic, offset.partition) is None
    committed = CommittedOffset(
        offset.offset,
        offset.leader_epoch,
        offset.metadata,
        step.timestamp_ms,
        step.now_ms,
        topic_id=offset.topic_id,
        log_offset=step.offset,
    )
    group.offsets.put(offset.topic, offset.partition, committed)
    value = encode_offset_commit(
        step.config.offset_commit_value_version, offset.offset, offset.leader_epoch, offset.metadata, step.timestamp_ms,
        NO_TIMESTAMP,
        offset.topic_id,
    )  # fmt: skip
    step.append_record(encode_offset_commit_key(step.group_id, offset.topic, offset.partition), value)
    note_commits(step, offset.topic, int(is_new), None)


def _member(recorded: RecordedMember) -> Member:
    return Member(
        member_id=recorded.member_id,
        group_instance_id=recorded.group_instance_id,
        client_id=recorded.client_id,
        client_host=recorded.client_host,
        session_timeout_ms=recorded.session_timeout_ms,
        rebalance_timeout_ms=recorded.rebalance_timeout_ms,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in recorded.protocols),
    )
