"""The rebalance: what requests and timers share. Source: `GroupMetadataManager` (Kafka 4.3), classic groups.

A rebalance has a join phase (PreparingRebalance: all members send JoinGroup, which is parked) and a sync phase
(CompletingRebalance: all send SyncGroup, which is parked until the leader's brings the assignments).
"""

from __future__ import annotations

from typing import Literal

from coordinator_state import states, timers
from coordinator_state.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator_state.group import CONSUMER, Group, Member, ParkedRequest, Rebalance
from coordinator_state.offset_log import append_group_metadata
from coordinator_state.turn import Turn
from coordinator_state.vote import selected_protocol, vote, winner
from schemas.consumer_protocol import subscribed_topics
from schemas.error_codes import ErrorCode
from schemas.history import (
    GroupEmpty,
    JoinPhaseCompleted,
    LeaderElected,
    MemberDropped,
    ProtocolChosen,
    RebalanceCompleted,
    RebalanceExtended,
    RebalanceStarted,
    RebalanceTrigger,
)
from schemas.messages import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse

SHORTEST_EXTENSION_MS = 1_000
"""A join phase that waits for silent static members is extended by their rebalance timeout (Kafka), but not by less than
this: a timeout of 0 would extend it for ever without time passing."""

# ------------------------------------------------------------------------------------------------------------ starting


def rebalance_or_complete(turn: Turn, trigger: RebalanceTrigger, reason: str, member: Member | None) -> None:
    """A member came, changed or went: start a rebalance, or see whether the running one is complete."""
    group = turn.require_group()
    if group.state is states.PREPARING_REBALANCE:
        maybe_complete_join(turn)
    else:
        prepare_rebalance(turn, trigger, reason, member)


def prepare_rebalance(turn: Turn, trigger: RebalanceTrigger, reason: str, member: Member | None) -> None:
    """Go to PreparingRebalance (from Empty, CompletingRebalance or Stable)."""
    group = turn.require_group()
    interrupted = group.rebalance if group.state is states.COMPLETING_REBALANCE else None
    if interrupted is not None:
        complete_rebalance(turn, "interrupted")
    if group.state is states.COMPLETING_REBALANCE:
        for each in group.members.values():
            group.set_assignment(each, b"")
        answer_parked_syncs(turn, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    turn.cancel(timers.SYNC)
    initial = group.state is states.EMPTY
    timeout_ms = group.rebalance_timeout_ms
    if initial:
        timeout_ms = turn.config.group_initial_rebalance_delay_ms
        group.initial_join = (timeout_ms, max(group.rebalance_timeout_ms - timeout_ms, 0))
        turn.arm(timers.JOIN, timeout_ms)
    turn.transition_to(states.PREPARING_REBALANCE)
    waiting = [each.member_id for each in group.members.values() if each.awaiting_join is None]
    seq = turn.tell(
        RebalanceStarted,
        trigger=trigger,
        member=member.identity if member is not None else None,
        reason=reason,
        initial=initial,
        waiting_for=tuple(waiting),
        deadline_ms=turn.now_ms + timeout_ms,
        interrupts=interrupted.seq if interrupted is not None else None,
    )
    group.rebalance = Rebalance(
        seq, trigger, turn.timestamp_ms, dict.fromkeys(waiting, (None, None)), last_seq=seq
    )
    turn.cause_seq = seq
    if not initial:
        if group.all_joined:
            complete_join(turn)
        else:
            turn.arm(timers.JOIN, timeout_ms)


def park_join(turn: Turn, member: Member) -> None:
    """Park the JoinGroup of this turn. One that is already parked is superseded, and told so (Kafka leaves it unanswered)."""
    group = turn.require_group()
    if member.awaiting_join is not None and not turn.is_copy_of(member.awaiting_join):
        answer_join_error(turn, member.awaiting_join, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    group.park_join(member, turn.park())
    progress = group.rebalance
    if progress is not None and member.member_id in progress.waited and progress.join_ms is None:
        told_ms, joined_ms = progress.waited[member.member_id]
        progress.waited[member.member_id] = (told_ms, turn.timestamp_ms if joined_ms is None else joined_ms)


def told_of_rebalance(turn: Turn, member_id: str) -> None:
    """A member has learnt that it must rejoin; history will say when."""
    progress = turn.require_group().rebalance
    if progress is not None and progress.waited.get(member_id) == (None, None):
        progress.waited[member_id] = (turn.timestamp_ms, None)


# --------------------------------------------------------------------------------------------------------- join phase


def maybe_complete_join(turn: Turn) -> None:
    """Complete the join phase if all are there. An initial rebalance waits for its delay whatever happens."""
    group = turn.require_group()
    if group.state is states.PREPARING_REBALANCE and group.previous_state is not states.EMPTY and group.all_joined:
        complete_join(turn)


def join_timer_expired(turn: Turn) -> None:
    """The initial delay or the rebalance timeout is over."""
    group = turn.require_group()
    if group.initial_join is not None:
        delay_ms, remaining_ms = group.initial_join
        if group.new_member_added and remaining_ms != 0:
            group.new_member_added = False
            next_ms = min(turn.config.group_initial_rebalance_delay_ms, remaining_ms)
            group.initial_join = (next_ms, max(remaining_ms - delay_ms, 0))
            turn.arm(timers.JOIN, next_ms)
            _tell_extended(turn, "members_arriving", next_ms)
            return
    complete_join(turn)


def complete_join(turn: Turn) -> None:
    """End the join phase: who is not there is out, the generation rises, everybody is told."""
    group = turn.require_group()
    turn.cancel(timers.JOIN)
    group.initial_join = None
    for absent in [each for each in group.members.values() if each.awaiting_join is None]:
        if absent.group_instance_id is None:
            drop_member(turn, absent, "did_not_rejoin")
    if not _elect_leader(group):
        timeout_ms = max(group.rebalance_timeout_ms, SHORTEST_EXTENSION_MS)
        turn.arm(timers.JOIN, timeout_ms)
        _tell_extended(turn, "only_static_members_left", timeout_ms)
        return
    group.generation_id = _next_generation(group.generation_id)
    group.pending_sync.clear()
    if group.members:
        _begin_sync_phase(turn)
    else:
        _become_empty(turn)


def _elect_leader(group: Group) -> bool:
    """The leader must have joined; else the first who has leads. False: there are only members that have not."""
    leader = group.members.get(group.leader_id) if group.leader_id is not None else None
    if leader is not None and leader.awaiting_join is None:
        joined = next((each.member_id for each in group.members.values() if each.awaiting_join is not None), None)
        if joined is None:
            return False
        group.leader_id = joined
    return True


def _next_generation(generation_id: int) -> int:
    """Kafka's generation is a 32-bit integer that wraps around."""
    return (generation_id + 1 + 2**31) % 2**32 - 2**31


def _begin_sync_phase(turn: Turn) -> None:
    group = turn.require_group()
    votes = vote(group)
    group.protocol_name, tie = winner(votes)
    group.subscribed_topics = subscribed_topics_of(group)
    turn.transition_to(states.COMPLETING_REBALANCE)
    turn.tell(ProtocolChosen, protocol_name=group.protocol_name, votes=votes, tie=tie)
    tell_leader(turn)
    _tell_join_phase_completed(turn)
    everybody = join_response_members(group)
    for member in group.members.values():
        if member.awaiting_join is not None:
            parked = member.awaiting_join
            group.park_join(member, None)
            turn.answer_parked(
                "JoinGroup",
                parked,
                join_response(group, member.member_id, everybody if member.member_id == group.leader_id else ()),
            )
        await_sync(turn, member)
    turn.arm(timers.SYNC, group.rebalance_timeout_ms)


def await_sync(turn: Turn, member: Member) -> None:
    """The member knows of the generation: it must send SyncGroup, and its session begins anew."""
    turn.arm(timers.session(member.member_id), member.session_timeout_ms)
    member.is_new = False
    turn.require_group().pending_sync[member.member_id] = None


def _become_empty(turn: Turn) -> None:
    group = turn.require_group()
    group.protocol_name = None
    group.elected_leader_id = None
    group.subscribed_topics = subscribed_topics_of(group)
    turn.transition_to(states.EMPTY)
    append_group_metadata(turn)
    turn.tell(GroupEmpty)
    complete_rebalance(turn, "empty")


def subscribed_topics_of(group: Group) -> tuple[str, ...] | None:
    """The topics that the members are subscribed to; None where that cannot be known."""
    if group.protocol_type != CONSUMER:
        return None
    if not group.members:
        return ()
    if group.protocol_name is None:
        return None
    topics: dict[str, None] = {}
    read: set[bytes] = set()
    for member in group.members.values():
        metadata = member.metadata_of(group.protocol_name)
        if metadata not in read:
            read.add(metadata)
            of_member = subscribed_topics(metadata)
            if of_member is None:
                return None
            topics |= dict.fromkeys(of_member)
    return tuple(topics)


def join_response(group: Group, member_id: str, members: tuple[JoinGroupResponseMember, ...]) -> JoinGroupResponse:
    """A successful answer to JoinGroup."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member_id,
        members=members,
    )


def join_response_members(group: Group) -> tuple[JoinGroupResponseMember, ...]:
    """What the leader is told of everybody."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata_of(group.protocol_name),
        )
        for member in group.members.values()
    )


# --------------------------------------------------------------------------------------------------------- sync phase


def sync_timer_expired(turn: Turn) -> None:
    """Members that were told of the generation did not sync within the rebalance timeout: all of them are out."""
    group = turn.require_group()
    late = [group.members[member_id] for member_id in group.pending_sync if member_id in group.members]
    if not group.pending_sync or group.state not in (states.COMPLETING_REBALANCE, states.STABLE):
        return
    for member in late:
        drop_member(turn, member, "did_not_sync")
    names = ", ".join(member.member_id for member in late[:5]) + (", ..." if len(late) > 5 else "")
    prepare_rebalance(
        turn,
        "members_did_not_sync",
        f"{len(late)} member(s) did not send SyncGroup within the rebalance timeout: {names}",
        late[0] if late else None,
    )


def answer_parked_syncs(turn: Turn, error_code: ErrorCode) -> None:
    """Answer every parked SyncGroup: with its member's assignment, or with an error."""
    group = turn.require_group()
    for member in group.members.values():
        parked = member.awaiting_sync
        if parked is not None:
            member.awaiting_sync = None
            if error_code is ErrorCode.NONE:
                response = sync_response(group, member)
            else:
                response = SyncGroupResponse(error_code=error_code)
            turn.answer_parked("SyncGroup", parked, response)
            turn.arm(timers.session(member.member_id), member.session_timeout_ms)


def sync_response(group: Group, member: Member) -> SyncGroupResponse:
    """A successful answer to SyncGroup."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


# ------------------------------------------------------------------------------------------------------------ members


def add_member(turn: Turn, member: Member, protocol_type: str) -> None:
    """Take a new member in and park its JoinGroup."""
    group = turn.require_group()
    if group.state is states.PREPARING_REBALANCE and group.previous_state is states.EMPTY:
        group.new_member_added = True
    group.add_member(member, protocol_type)
    group.remove_pending(member.member_id)
    park_join(turn, member)
    turn.arm(timers.session(member.member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)


def remove_member(turn: Turn, member: Member) -> None:
    """Take a member out; its parked requests are answered (a parked SyncGroup too, which Kafka leaves unanswered)."""
    group = turn.require_group()
    turn.cancel(timers.session(member.member_id))
    if member.awaiting_join is not None:
        answer_join_error(turn, member.awaiting_join, ErrorCode.UNKNOWN_MEMBER_ID, "")
    if member.awaiting_sync is not None:
        turn.answer_parked(
            "SyncGroup", member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        )
    group.remove_member(member.member_id)


def drop_member(turn: Turn, member: Member, reason: Literal["did_not_rejoin", "did_not_sync", "group_full"]) -> None:
    """Take out a member that neither left nor expired."""
    progress = turn.require_group().rebalance
    if progress is not None:
        progress.dropped.append(member.member_id)
    remove_member(turn, member)
    turn.cause_seq = turn.tell(MemberDropped, member=member.identity, reason=reason)


def answer_join_error(turn: Turn, parked: ParkedRequest, error_code: ErrorCode, member_id: str) -> None:
    turn.answer_parked("JoinGroup", parked, JoinGroupResponse(error_code=error_code, member_id=member_id))


def still_votes_for_the_same(group: Group) -> bool:
    """Whether the vote of the members as they are now would choose the protocol that is in force."""
    return selected_protocol(group) == group.protocol_name


# ------------------------------------------------------------------------------------------------------------ history


def tell_leader(turn: Turn) -> None:
    """Tell of a new leader, if there is one."""
    group = turn.require_group()
    previous, leader = group.elected_leader_id, group.leader_id
    if leader is None or leader == previous:
        return
    group.elected_leader_id = leader
    member = group.members[leader]
    if previous is None:
        reason = "first_member"
    elif previous in group.members:
        reason = "leader_did_not_rejoin"
    else:
        reason = "leader_gone"
    turn.tell(LeaderElected, leader=member.identity, previous_leader_id=previous, reason=reason)


def _tell_extended(turn: Turn, reason: str, delay_ms: int) -> None:
    progress = turn.require_group().rebalance
    if progress is not None:
        progress.last_seq = turn.tell(
            RebalanceExtended, rebalance=progress.seq, reason=reason, deadline_ms=turn.now_ms + delay_ms
        )


def _tell_join_phase_completed(turn: Turn) -> None:
    group = turn.require_group()
    progress = group.rebalance
    if progress is None:
        return
    progress.join_ms = turn.timestamp_ms - progress.started_ms
    progress.last_seq = turn.cause_seq = turn.tell(
        JoinPhaseCompleted,
        rebalance=progress.seq,
        duration_ms=progress.join_ms,
        members=tuple(group.members),
        waited_for=progress.waited_for(),
        slowest=progress.slowest(),
        dropped=tuple(progress.dropped),
    )


def complete_rebalance(turn: Turn, outcome: Literal["stable", "empty", "interrupted"]) -> None:
    """Tell how the rebalance ended, and forget it."""
    group = turn.require_group()
    progress = group.rebalance
    if progress is None:
        return
    group.rebalance = None
    turn.tell(
        RebalanceCompleted,
        rebalance=progress.seq,
        outcome=outcome,
        trigger=progress.trigger,
        started_ms=progress.started_ms,
        duration_ms=turn.timestamp_ms - progress.started_ms,
        join_ms=progress.join_ms,
        waited_for=progress.waited_for(),
        slowest=progress.slowest(),
        dropped=tuple(progress.dropped),
    )
