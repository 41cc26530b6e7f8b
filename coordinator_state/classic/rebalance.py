"""The rebalance: what requests and timers share. Source: `GroupMetadataManager` (Kafka 4.3), classic groups.

A rebalance has a join phase (PreparingRebalance: all members send JoinGroup, which is parked) and a sync phase
(CompletingRebalance: all send SyncGroup, which is parked until the leader's brings the assignments).
"""

from __future__ import annotations

from typing import Literal

from coordinator_state.classic import states, timers
from coordinator_state.classic.context import classic, transition_to
from coordinator_state.classic.group import CONSUMER, ClassicGroup
from coordinator_state.classic.group_record import append_group_metadata
from coordinator_state.classic.member import Member, Rebalance
from coordinator_state.classic.rebalance_history import (
    complete_rebalance,
    record_extension,
    record_join_phase,
    record_leader,
)
from coordinator_state.classic.vote import selected_protocol, vote, winner
from coordinator_state.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator_state.parked import ParkedRequest
from coordinator_state.step import Step
from schemas.consumer_protocol import subscribed_topics
from schemas.error_codes import ErrorCode
from schemas.history import GroupEmpty, MemberDropped, ProtocolChosen, RebalanceStarted, RebalanceTrigger
from schemas.messages import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse

SHORTEST_EXTENSION_MS = 1_000
"""A join phase that waits for silent static members is extended by their rebalance timeout (Kafka), but not by less than
this: a timeout of 0 would extend it for ever without time passing."""

# ------------------------------------------------------------------------------------------------------------ starting


def prepare_rebalance(step: Step, trigger: RebalanceTrigger, reason: str, member: Member | None) -> None:
    """Go to PreparingRebalance (from Empty, CompletingRebalance or Stable)."""
    group = classic(step)
    interrupted = group.rebalance if group.state is states.COMPLETING_REBALANCE else None
    if interrupted is not None:
        complete_rebalance(step, "interrupted")
    if group.state is states.COMPLETING_REBALANCE:
        for joined in group.members.values():
            group.set_assignment(joined, b"")
        answer_parked_syncs(step, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    step.cancel(timers.SYNC)
    initial = group.state is states.EMPTY
    timeout_ms = rebalance_timeout_ms = group.rebalance_timeout_ms
    if initial:
        timeout_ms = step.config.group_initial_rebalance_delay_ms
        group.initial_join = (timeout_ms, max(rebalance_timeout_ms - timeout_ms, 0))
        step.arm(timers.JOIN, timeout_ms)
    transition_to(step, states.PREPARING_REBALANCE)
    waiting = [member.member_id for member in group.members.values() if member.awaiting_join is None]
    seq = step.append_history(
        RebalanceStarted(
            *step.history_fields(),
            trigger=trigger,
            member=member.identity if member is not None else None,
            reason=reason,
            initial=initial,
            waiting_for=tuple(waiting),
            deadline_ms=step.now_ms + timeout_ms,
            interrupts=interrupted.seq if interrupted is not None else None,
        )
    )
    group.rebalance = Rebalance(seq, trigger, step.timestamp_ms, dict.fromkeys(waiting, (None, None)), last_seq=seq)
    step.cause_seq = seq
    if not initial:
        if group.all_joined:
            complete_join(step)
        else:
            step.arm(timers.JOIN, timeout_ms)


def park_join(step: Step, group: ClassicGroup, member: Member) -> None:
    """Park the JoinGroup of this step. An earlier one of the member is answered and given up; Kafka leaves it
    unanswered."""
    if member.awaiting_join is not None and not step.is_copy_of(member.awaiting_join):
        answer_join_error(step, member.awaiting_join, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    group.park_join(member, step.park())
    progress = group.rebalance
    if progress is not None and member.member_id in progress.waited and progress.join_ms is None:
        told_ms, joined_ms = progress.waited[member.member_id]
        progress.waited[member.member_id] = (
            told_ms, progress.moment(step.timestamp_ms) if joined_ms is None else joined_ms
        )  # fmt: skip


def note_rebalance_known(step: Step, member_id: str) -> None:
    """Note that a member has learnt that it must rejoin, so that history tells when."""
    progress = classic(step).rebalance
    if progress is not None and progress.waited.get(member_id) == (None, None):
        progress.waited[member_id] = (progress.moment(step.timestamp_ms), None)


# --------------------------------------------------------------------------------------------------------- join phase


def maybe_complete_join(step: Step, group: ClassicGroup) -> None:
    """Complete the join phase if all are there. An initial rebalance waits for its delay whatever happens."""
    if group.state is states.PREPARING_REBALANCE and group.previous_state is not states.EMPTY and group.all_joined:
        complete_join(step)


def join_timer_expired(step: Step) -> None:
    """Go on with the join phase: the initial delay or the rebalance timeout is over."""
    group = classic(step)
    if group.initial_join is not None:
        delay_ms, remaining_ms = group.initial_join
        if group.new_member_added and remaining_ms != 0:
            group.new_member_added = False
            next_ms = min(step.config.group_initial_rebalance_delay_ms, remaining_ms)
            group.initial_join = (next_ms, max(remaining_ms - delay_ms, 0))
            step.arm(timers.JOIN, next_ms)
            record_extension(step, "members_arriving", next_ms)
            return
    complete_join(step)


def complete_join(step: Step) -> None:
    """End the join phase: who is not there is out, the generation rises, everybody is told."""
    group = classic(step)
    step.cancel(timers.JOIN)
    group.initial_join = None
    for absent in [member for member in group.members.values() if member.awaiting_join is None]:
        if absent.group_instance_id is None:
            drop_member(step, absent, "did_not_rejoin")
    if not _elect_leader(group):
        timeout_ms = max(group.rebalance_timeout_ms, SHORTEST_EXTENSION_MS)
        step.arm(timers.JOIN, timeout_ms)
        record_extension(step, "only_static_members_left", timeout_ms)
        return
    group.generation_id = _next_generation(group.generation_id)
    group.pending_sync.clear()
    if group.members:
        _begin_sync_phase(step)
    else:
        _become_empty(step)


def _elect_leader(group: ClassicGroup) -> bool:
    """The leader must have joined; else the first who has leads. False: there are only members that have not."""
    leader = group.members.get(group.leader_id) if group.leader_id is not None else None
    if leader is not None and leader.awaiting_join is None:
        joined = next((member.member_id for member in group.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        group.leader_id = joined
    return True


def _next_generation(generation_id: int) -> int:
    """Kafka's generation is a 32-bit integer that wraps around."""
    return (generation_id + 1 + 2**31) % 2**32 - 2**31


def _begin_sync_phase(step: Step) -> None:
    group = classic(step)
    votes = vote(group)
    group.protocol_name, tie = winner(votes)
    group.subscribed_topics = subscribed_topics_of(group)
    transition_to(step, states.COMPLETING_REBALANCE)
    step.append_history(
        ProtocolChosen(*step.history_fields(), protocol_name=group.protocol_name, votes=votes, tie=tie)
    )
    record_leader(step)
    record_join_phase(step)
    everybody = join_response_members(group)
    for member in group.members.values():
        parked = member.awaiting_join
        if parked is not None:
            group.park_join(member, None)
            members = everybody if member.member_id == group.leader_id else ()
            step.respond_to_parked("JoinGroup", parked, join_response(group, member.member_id, members))
        await_sync(step, group, member)
    step.arm(timers.SYNC, group.rebalance_timeout_ms)


def await_sync(step: Step, group: ClassicGroup, member: Member) -> None:
    """Wait for the member's SyncGroup, now that it knows the generation, and restart its session."""
    step.arm(timers.session(member.member_id), member.session_timeout_ms)
    member.is_new = False
    group.pending_sync[member.member_id] = None


def _become_empty(step: Step) -> None:
    group = classic(step)
    group.protocol_name = None
    group.elected_leader_id = None
    group.subscribed_topics = subscribed_topics_of(group)
    transition_to(step, states.EMPTY)
    append_group_metadata(step)
    step.append_history(GroupEmpty(*step.history_fields()))
    complete_rebalance(step, "empty")


def subscribed_topics_of(group: ClassicGroup) -> tuple[str, ...] | None:
    """Return the topics that the members subscribe to; None if that cannot be known."""
    if group.protocol_type != CONSUMER:
        return None
    if not group.members:
        return ()
    if group.protocol_name is None:
        return None
    topics: dict[str, None] = {}
    metadata_seen: set[bytes] = set()
    for member in group.members.values():
        metadata = member.metadata_of(group.protocol_name)
        if metadata not in metadata_seen:
            metadata_seen.add(metadata)
            of_member = subscribed_topics(metadata)
            if of_member is None:
                return None
            topics |= dict.fromkeys(of_member)
    return tuple(topics)


def join_response(
    group: ClassicGroup, member_id: str, members: tuple[JoinGroupResponseMember, ...]
) -> JoinGroupResponse:
    """Return a successful answer to JoinGroup."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member_id,
        members=members,
    )


def join_response_members(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    """Return the list of members that the leader gets."""
    name = group.protocol_name
    return tuple(
        [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata_of(name),
            )
            for member in group.members.values()
        ]
    )


# --------------------------------------------------------------------------------------------------------- sync phase


def sync_timer_expired(step: Step) -> None:
    """Remove the members that knew of the generation and sent no SyncGroup within the rebalance timeout."""
    group = classic(step)
    late = [group.members[member_id] for member_id in group.pending_sync if member_id in group.members]
    if not group.pending_sync or group.state not in (states.COMPLETING_REBALANCE, states.STABLE):
        return
    for member in late:
        drop_member(step, member, "did_not_sync")
    names = ", ".join(member.member_id for member in late[:5]) + (", ..." if len(late) > 5 else "")
    prepare_rebalance(
        step,
        "members_did_not_sync",
        f"{len(late)} member(s) did not send SyncGroup within the rebalance timeout: {names}",
        late[0] if late else None,
    )


def answer_parked_syncs(step: Step, error_code: ErrorCode) -> None:
    """Answer every parked SyncGroup: with its member's assignment, or with an error."""
    group = classic(step)
    for member in group.members.values():
        parked = member.awaiting_sync
        if parked is not None:
            member.awaiting_sync = None
            if error_code is ErrorCode.NONE:
                response = sync_response(group, member)
            else:
                response = SyncGroupResponse(error_code=error_code)
            step.respond_to_parked("SyncGroup", parked, response)
            step.arm(timers.session(member.member_id), member.session_timeout_ms)


def sync_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """Return a successful answer to SyncGroup."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


# ------------------------------------------------------------------------------------------------------------ members


def add_member(step: Step, group: ClassicGroup, member: Member, protocol_type: str) -> None:
    """Take a new member in and park its JoinGroup."""
    extends_when_empty = step.config.kafka_version.extends_when_empty
    may_be_extended = group.previous_state is states.EMPTY if extends_when_empty else group.generation_id == 0
    if group.state is states.PREPARING_REBALANCE and may_be_extended:
        group.new_member_added = True
    group.add_member(member, protocol_type)
    group.remove_pending(member.member_id)
    park_join(step, group, member)
    step.arm(timers.session(member.member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)


def remove_member(step: Step, member: Member) -> None:
    """Take a member out; its parked requests are answered (a parked SyncGroup too, which Kafka leaves unanswered)."""
    group = classic(step)
    step.cancel(timers.session(member.member_id))
    if member.awaiting_join is not None:
        answer_join_error(step, member.awaiting_join, ErrorCode.UNKNOWN_MEMBER_ID, "")
    if member.awaiting_sync is not None:
        step.respond_to_parked(
            "SyncGroup", member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        )
    group.remove_member(member.member_id)


def drop_member(step: Step, member: Member, reason: Literal["did_not_rejoin", "did_not_sync", "group_full"]) -> None:
    """Take out a member that neither left nor expired."""
    progress = classic(step).rebalance
    if progress is not None:
        progress.dropped.append(member.member_id)
    remove_member(step, member)
    step.cause_seq = step.append_history(MemberDropped(*step.history_fields(), member=member.identity, reason=reason))


def answer_join_error(step: Step, parked: ParkedRequest, error_code: ErrorCode, member_id: str) -> None:
    step.respond_to_parked("JoinGroup", parked, JoinGroupResponse(error_code=error_code, member_id=member_id))


def still_votes_for_the_same(group: ClassicGroup) -> bool:
    """Return whether the members' vote would choose the present protocol again."""
    return selected_protocol(group) == group.protocol_name
