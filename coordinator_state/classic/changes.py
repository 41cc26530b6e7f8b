"""What one step changes in a classic group. Source: `GroupMetadataManager` (Kafka 4.3), classic groups.

A request is checked first. A JoinGroup, which has many ways, is decided by functions that see the group as it was and
get no step: each raises `Refusal`, or returns what is to be done at the end (`Change`). So who is refused has changed
nothing. A full group is the exception, as in Kafka: it puts out the member that it refuses.

A rebalance has a join phase (PreparingRebalance: all members send JoinGroup, which is parked) and a sync phase
(CompletingRebalance: all send SyncGroup, which is parked until the leader's brings the assignments).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from coordinator_state.classic import states, timers
from coordinator_state.classic.group import ClassicGroup
from coordinator_state.classic.member import Member, Outcome, Rebalance
from coordinator_state.classic.states import GroupState
from coordinator_state.classic.vote import vote, winner
from coordinator_state.outputs import Answer
from coordinator_state.parked import ParkedRequest
from coordinator_state.step import HistoryFields, Step
from schemas import history
from schemas.error_codes import ErrorCode
from schemas.messages import JoinGroupResponse, Response, SyncGroupResponse
from schemas.records import encode_group_metadata, encode_group_metadata_key, encode_member_metadata

GROUP_METADATA_VALUE_VERSION = 3
"""Every Kafka from 2.3 to 4.3 writes 3."""


def group_record(group: ClassicGroup, group_id: str) -> tuple[bytes, bytes]:
    """Return key and value for the group as it is: hard state only."""
    version, protocol_name = GROUP_METADATA_VALUE_VERSION, group.protocol_name
    members = [
        encode_member_metadata(
            version,
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata_of(protocol_name),
            member.assignment,
        )
        for member in group.members.values()
    ]
    value = encode_group_metadata(
        version, group.protocol_type or "", group.generation_id, protocol_name, group.leader_id, group.state_since_ms, members
    )
    return encode_group_metadata_key(group_id), value


SHORTEST_EXTENSION_MS = 1_000
"""A join phase that waits for silent static members is extended by their rebalance timeout (Kafka), but not by less
than this: a timeout of 0 would extend it for ever without time passing."""

Change = Callable[["Changes"], None]
"""What a request does to the group, once all its checks are passed."""


def begin_group(step: Step) -> Changes:
    """Begin a life of the group with the event of this step. A consumer group without members that is there goes on in
    it, with its offsets."""
    body = ClassicGroup(state_since_ms=step.now_ms)
    if step.group is None:
        step.create_group(body)
    else:
        body.regex_refresh_began_ms = step.group.body.regex_refresh_began_ms
        step.group.body = body
        step.note_change()
    return Changes(step, body)


class Changes:
    """The changes of the classic group of a step, and what follows from them: answers, records, history, timers."""

    __slots__ = ("group", "step")

    def __init__(self, step: Step, group: ClassicGroup) -> None:
        self.step = step
        self.group = group

    # ---------------------------------------------------------------------------------------------------- members

    def park_join(self, member: Member) -> None:
        """Park the JoinGroup of this step. An earlier one of the member is answered and given up; Kafka leaves it
        unanswered."""
        request = self.this_request()
        if member.awaiting_join is not None and member.awaiting_join.request_id != request.request_id:
            self.refuse_join(member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        self.group.park_join(member, request)
        if self.group.rebalance is not None:
            self.group.rebalance.note_joined(member.member_id, self.step.timestamp_ms)

    def remove(self, member: Member) -> None:
        """Take a member out; its parked requests are answered (Kafka leaves a parked SyncGroup unanswered)."""
        self.step.cancel(timers.session(member.member_id))
        if member.awaiting_join is not None:
            self.refuse_join(member, ErrorCode.UNKNOWN_MEMBER_ID, "")
        if member.awaiting_sync is not None:
            self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self.group.remove_member(member.member_id)

    def drop(self, member: Member, reason: Literal["did_not_rejoin", "did_not_sync", "group_full"]) -> None:
        """Take out a member that neither left nor expired."""
        if self.group.rebalance is not None:
            self.group.rebalance.dropped.append(member.member_id)
        self.remove(member)
        self.lead(history.MemberDropped(*self.fields(), member=member.identity, reason=reason))

    def take_back(self, member_id: str, reason: Literal["left", "expired", "group_full"]) -> int:
        """Forget a member id that was handed out; returns the seq of its record."""
        seq = self.tell(history.PendingMemberRemoved(*self.fields(), member_id=member_id, reason=reason))
        self.group.remove_pending(member_id)
        self.step.cancel(timers.session(member_id))
        return seq

    # ------------------------------------------------------------------------------------------------- join phase

    def rebalance(self, trigger: history.RebalanceTrigger, reason: str, member: Member | None) -> None:
        """Let the group rebalance after a change of its members. A join phase goes on, or is complete now: an initial
        rebalance waits for its delay whatever happens."""
        group = self.group
        if group.state is not states.PREPARING_REBALANCE:
            if group.members or group.state is not states.EMPTY:
                self.prepare(trigger, reason, member)
        elif group.previous_state is not states.EMPTY and group.all_joined:
            self.complete_join()

    def prepare(self, trigger: history.RebalanceTrigger, reason: str, member: Member | None) -> None:
        """Go to PreparingRebalance (from Empty, CompletingRebalance or Stable)."""
        group, step = self.group, self.step
        interrupted = group.rebalance if group.state is states.COMPLETING_REBALANCE else None
        if interrupted is not None:
            self.complete("interrupted")
        if group.state is states.COMPLETING_REBALANCE:
            for joined in group.members.values():
                group.set_assignment(joined, b"")
            self.answer_syncs(ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self.step.cancel(timers.SYNC)
        initial = group.state is states.EMPTY
        timeout_ms = rebalance_timeout_ms = group.rebalance_timeout_ms
        if initial:
            timeout_ms = step.config.group_initial_rebalance_delay_ms
            group.initial_join = (timeout_ms, max(rebalance_timeout_ms - timeout_ms, 0))
            self.step.arm(timers.JOIN, timeout_ms)
        self.become(states.PREPARING_REBALANCE)
        waiting = [member.member_id for member in group.members.values() if member.awaiting_join is None]
        seq = self.lead(
            history.RebalanceStarted(
                *self.fields(),
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
        if not initial:
            if group.all_joined:
                self.complete_join()
            else:
                self.step.arm(timers.JOIN, timeout_ms)

    def join_timer_expired(self) -> None:
        """Go on with the join phase: the initial delay or the rebalance timeout is over."""
        group = self.group
        if group.initial_join is not None:
            delay_ms, remaining_ms = group.initial_join
            if group.new_member_added and remaining_ms != 0:
                group.new_member_added = False
                next_ms = min(self.step.config.group_initial_rebalance_delay_ms, remaining_ms)
                group.initial_join = (next_ms, max(remaining_ms - delay_ms, 0))
                self._extend("members_arriving", next_ms)
                return
        self.complete_join()

    def _extend(self, reason: Literal["members_arriving", "only_static_members_left"], delay_ms: int) -> None:
        self.step.arm(timers.JOIN, delay_ms)
        progress = self.group.rebalance
        if progress is not None:
            deadline_ms = self.step.now_ms + delay_ms
            progress.last_seq = self.tell(
                history.RebalanceExtended(
                    *self.fields(), rebalance=progress.seq, reason=reason, deadline_ms=deadline_ms
                )
            )

    def complete_join(self) -> None:
        """End the join phase: who is not there is out, the generation rises, everybody is told."""
        group = self.group
        self.step.cancel(timers.JOIN)
        group.initial_join = None
        for absent in [member for member in group.members.values() if member.awaiting_join is None]:
            if absent.group_instance_id is None:
                self.drop(absent, "did_not_rejoin")
        if not self._elect_leader():
            self._extend("only_static_members_left", max(group.rebalance_timeout_ms, SHORTEST_EXTENSION_MS))
            return
        group.generation_id = next_generation(group.generation_id)
        group.pending_sync.clear()
        if group.members:
            self._begin_sync_phase()
            return
        group.protocol_name = group.elected_leader_id = None
        group.subscribed_topics = group.topics_of_members()
        self.become(states.EMPTY)
        self.write()
        self.tell(history.GroupEmpty(*self.fields()))
        self.complete("empty")

    def _elect_leader(self) -> bool:
        """The leader must have joined; else the first who has leads. False: there are only members that have not."""
        group = self.group
        leader = group.members.get(group.leader_id) if group.leader_id is not None else None
        if leader is not None and leader.awaiting_join is None:
            joined = [member.member_id for member in group.members.values() if member.awaiting_join is not None]
            if not joined:
                return False
            group.leader_id = joined[0]
        return True

    # ------------------------------------------------------------------------------------------------- sync phase

    def _begin_sync_phase(self) -> None:
        group, previous_id = self.group, self.group.elected_leader_id
        votes = vote(group)
        group.protocol_name, tie = winner(votes)
        group.subscribed_topics = group.topics_of_members()
        self.become(states.COMPLETING_REBALANCE)
        self.tell(
            history.ProtocolChosen(*self.fields(), protocol_name=group.protocol_name, votes=votes, tie=tie)
        )
        if group.leader_id is not None and group.leader_id != previous_id:
            leader = group.members[group.leader_id]
            if previous_id is None:
                self.tell_leader(leader, previous_id, "first_member")
            else:
                is_there = previous_id in group.members
                self.tell_leader(leader, previous_id, "leader_did_not_rejoin" if is_there else "leader_gone")
        if group.rebalance is not None:
            self._tell_join_phase(group.rebalance)
        for member in group.members.values():
            parked = member.awaiting_join
            if parked is not None:
                group.park_join(member, None)
                self.answer("JoinGroup", parked, group.join_response(member.member_id))
            self.await_sync(member)
        self.step.arm(timers.SYNC, group.rebalance_timeout_ms)

    def tell_leader(
        self,
        leader: Member,
        previous_id: str | None,
        reason: Literal["first_member", "leader_did_not_rejoin", "leader_gone", "leader_replaced"],
    ) -> None:
        """Tell of a new leader."""
        self.group.elected_leader_id = leader.member_id
        self.tell(
            history.LeaderElected(
                *self.fields(), leader=leader.identity, previous_leader_id=previous_id, reason=reason
            )
        )

    def _tell_join_phase(self, progress: Rebalance) -> None:
        progress.join_ms = progress.moment(self.step.timestamp_ms) - progress.started_ms
        progress.last_seq = self.lead(
            history.JoinPhaseCompleted(
                *self.fields(),
                rebalance=progress.seq,
                duration_ms=progress.join_ms,
                members=tuple(self.group.members),
                waited_for=progress.waited_for(),
                slowest=progress.slowest(),
                dropped=tuple(progress.dropped),
            )
        )

    def await_sync(self, member: Member) -> None:
        """Wait for the member's SyncGroup, now that it knows the generation, and restart its session."""
        self.step.arm(timers.SESSION_PREFIX + member.member_id, member.session_timeout_ms)
        member.is_new = False
        self.group.pending_sync[member.member_id] = None

    def answer_syncs(self, error_code: ErrorCode) -> None:
        """Answer every parked SyncGroup: with its member's assignment, or with an error."""
        group = self.group
        for member in group.members.values():
            if member.awaiting_sync is not None:
                is_well = error_code is ErrorCode.NONE
                self.answer_sync(
                    member, group.sync_response(member) if is_well else SyncGroupResponse(error_code=error_code)
                )
                self.step.arm(timers.session(member.member_id), member.session_timeout_ms)

    def sync_timer_expired(self) -> None:
        """Remove the members that knew of the generation and sent no SyncGroup within the rebalance timeout."""
        group = self.group
        late = [group.members[member_id] for member_id in group.pending_sync if member_id in group.members]
        if not group.pending_sync or group.state not in (states.COMPLETING_REBALANCE, states.STABLE):
            return
        for member in late:
            self.drop(member, "did_not_sync")
        names = ", ".join(member.member_id for member in late[:5]) + (", ..." if len(late) > 5 else "")
        reason = f"{len(late)} member(s) did not send SyncGroup within the rebalance timeout: {names}"
        self.prepare("members_did_not_sync", reason, late[0] if late else None)

    def complete(self, outcome: Outcome) -> None:
        """Tell how the rebalance ended, and forget it."""
        progress, self.group.rebalance = self.group.rebalance, None
        if progress is not None:
            self.tell(progress.completed(self.fields(), outcome))

    # ----------------------------------------------------------------------------------------------------- effects

    def become(self, state: GroupState) -> None:
        """Let the group go to another state; it is published at the end of the step."""
        self.group.transition_to(state, self.step.now_ms)
        self.step.note_change()

    def write(self) -> None:
        """Append the group as it is to the offsets log: hard state only."""
        key, value = group_record(self.group, self.step.group_id)
        self.step.append_record(key, value)

    # `fields`, `tell` and `lead` do what `Step` does without calling it: the calls make joins 4 % slower.

    def fields(self) -> HistoryFields:
        """Return the common fields of the next history record."""
        step = self.step
        return (
            step.group_id, step.epoch, step.seq + 1, step.now_ms, step.timestamp_ms, self.group.generation_id,
            step.cause, step.cause_seq,
        )  # fmt: skip

    def tell(self, record: history.History) -> int:
        """Append to history a record that was made with `fields`; returns its seq."""
        step = self.step
        step.seq = seq = record.seq
        step.outputs.append(record)
        return seq

    def lead(self, record: history.History) -> int:
        """Append to history what the next records follow from; returns its seq."""
        step = self.step
        step.seq = step.cause_seq = seq = record.seq
        step.outputs.append(record)
        return seq

    def this_request(self) -> ParkedRequest:
        """Return what the response to the request of this step needs."""
        step = self.step
        envelope = step.envelope
        return ParkedRequest(envelope.request_id, envelope.reply_partition, envelope.api_version, step.offset)

    def answer(self, api: str, parked: ParkedRequest, response: Response) -> None:
        """Answer a parked request."""
        step = self.step
        step.seq += 1
        step.outputs.append(
            Answer(
                step.group_id, step.epoch, step.seq, step.now_ms,
                parked.request_id, parked.reply_partition, api, parked.api_version, parked.offset, response,
            )
        )  # fmt: skip

    def refuse_join(self, member: Member, error_code: ErrorCode, member_id: str) -> None:
        """Answer a member's parked JoinGroup with an error."""
        assert member.awaiting_join is not None
        response = JoinGroupResponse(error_code=error_code, member_id=member_id)
        self.answer("JoinGroup", member.awaiting_join, response)

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> None:
        """Answer a member's parked SyncGroup."""
        assert member.awaiting_sync is not None
        parked, member.awaiting_sync = member.awaiting_sync, None
        self.answer("SyncGroup", parked, response)


def next_generation(generation_id: int) -> int:
    """Kafka's generation is a 32-bit integer that wraps around."""
    return (generation_id + 1 + 2**31) % 2**32 - 2**31
