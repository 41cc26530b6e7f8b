"""One member of a group with the consumer protocol (KIP-848), as a pure state machine.

It does what Kafka's Java consumer does with `group.protocol=consumer` (`ConsumerMembershipManager`,
`ConsumerHeartbeatRequestManager`, 4.3); where it differs, the parts say so.

It is driven like a `GroupMember` (`member_machine.py`), with two differences. Assignments name topics by ids: it says
`TopicNamesNeeded`, again each second while some are missing, and is answered with `topic_names`. And partition counts
do not matter to it, since the coordinator assigns; `partitions_changed` does nothing. Besides, it can subscribe to a
regular expression (`subscribe_pattern`). `state` is a `ConsumerMemberState`, `generation_id` the member's epoch (0
while it joins, -1 outside the group), and `Assigned` has the epoch, too. Its id, which it makes itself, is the first
of its request ids. `member.new_member` makes either kind, as the settings say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.consumer_heartbeats import API, ConsumerHeartbeats
from group_coordinator.coordinating.members.effects import PollIntervalExceeded
from group_coordinator.coordinating.members.member_machine import MemberMachine
from group_coordinator.coordinating.members.membership import IN_GROUP, ConsumerMembership, ConsumerMemberState
from group_coordinator.coordinating.members.reconciliation import Reconciliation
from group_coordinator.coordinating.members.requests import PendingRequest
from schemas.consumer_group_messages import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from schemas.error_codes import ErrorCode
from schemas.events import ResponseEnvelope
from schemas.messages import Response

_PUT_OUT = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_WILL_JOIN = (ConsumerMemberState.JOINING, ConsumerMemberState.FENCED, ConsumerMemberState.STALE)


class ConsumerGroupMember(MemberMachine):
    """A member of one group that speaks the consumer protocol."""

    _membership: ConsumerMembership

    def __init__(self, config: MemberConfig, request_ids: Iterator[str], *, shard_count: int = 1) -> None:
        """`shard_count`: partitions of the events topic. Raises ValueError for settings that cannot work."""
        config.insist()
        membership = ConsumerMembership(config, request_ids, shard_count)
        super().__init__(membership)
        self._reconciliation = Reconciliation(membership, self._commits, self._positions)
        self._heartbeats = ConsumerHeartbeats(membership, self._reconciliation)
        self._parts += [self._reconciliation, self._heartbeats]

    # --------------------------------------------------------------------------------------- what the member is told

    def start(self, now_ms: int, topics: Iterable[str] = ()) -> None:
        self._membership.now_ms = now_ms
        self.subscribe(topics)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics instead of what was before; the next heartbeat says so. Without any, leave."""
        self._subscribe(tuple(sorted(set(topics))), None)

    def subscribe_pattern(self, pattern: str) -> None:
        """Subscribe to the topics whose whole names match this RE2 expression, as the coordinator resolves it."""
        self._subscribe((), pattern)

    def partitions_changed(self, counts: Mapping[str, int]) -> None:
        """Do nothing: the coordinator knows how many partitions there are."""

    def topic_names(self, names: Mapping[str, str]) -> None:
        self._reconciliation.take_names(names)

    def receive(self, envelope: ResponseEnvelope, response: Response, now_ms: int) -> None:
        """Handle an answer. If the log has a heartbeat twice, the second answer alone may have told an assignment."""
        is_awaited = self._membership.requests.awaits(envelope.request_id)
        if isinstance(response, ConsumerGroupHeartbeatResponse) and not is_awaited:
            self._heartbeats.tell_all()
        super().receive(envelope, response, now_ms)

    def close(self, now_ms: int, *, leave_group: bool | None = None) -> None:
        """Commit if that is automatic, give up the partitions, leave, and say `Closed`: within `request.timeout.ms`.

        Go on polling until then: the poll after `Revoked` says that the partitions have been given up. A dynamic member
        leaves unless `leave_group` is False. A static one leaves for a while, to come back (epoch -2), and for good
        only where `leave_group` is True.
        """
        if self.state in IN_GROUP:
            self._membership.state = ConsumerMemberState.PREPARE_LEAVING
            self._reconciliation.interrupt()
        super().close(now_ms, leave_group=leave_group)

    # ------------------------------------------------------------------------------------------- what the member is

    @property
    def state(self) -> ConsumerMemberState:
        return self._membership.state

    @property
    def is_rejoining(self) -> bool:
        """True if the member will join again, or will tell the coordinator of another subscription."""
        in_group = self.state in IN_GROUP
        return self.state in _WILL_JOIN or (in_group and not self._heartbeats.subscription_is_told)

    @property
    def may_process(self) -> bool:
        return not self._reconciliation.is_revoking and super().may_process

    @property
    def subscription(self) -> tuple[str, ...]:
        return self._heartbeats.names

    @property
    def pattern(self) -> str | None:
        """The regular expression that the member subscribes to instead of names."""
        return self._heartbeats.pattern

    @property
    def topics_of_interest(self) -> tuple[str, ...]:
        """None: the coordinator knows how many partitions there are."""
        return ()

    # --------------------------------------------------------------------------------------------------------- inside

    def _subscribe(self, names: tuple[str, ...], pattern: str | None) -> None:
        heartbeats = self._heartbeats
        subscribed = bool(heartbeats.names) or heartbeats.pattern is not None
        heartbeats.names, heartbeats.pattern = names, pattern
        if not subscribed or names or pattern is not None:
            return
        if self.state in IN_GROUP:
            self._commits.commit_positions(self._positions.to_commit())
            self._shutdown.release_all()
            self._say_leave(self._usual_leave_epoch)
            self._forget_place(ConsumerMemberState.UNSUBSCRIBED)
        elif self.state in _WILL_JOIN:
            self._membership.state = ConsumerMemberState.UNSUBSCRIBED

    def _polled(self) -> None:
        self._heartbeats.polled()
        subscribed = bool(self._heartbeats.names) or self._heartbeats.pattern is not None
        if subscribed and self.state not in IN_GROUP:
            self._join()
        self._reconciliation.poll()

    def _join(self) -> None:
        """Join under the same id, so that an earlier leave must not be repeated behind this.

        That of a static member still may be: until the coordinator has heard it, it refuses to let the member in.
        """
        if not self.config.is_static:
            self._leave_no_more()
        self._membership.join()

    def _leave_no_more(self) -> None:
        if self._leaving.any_open:
            self._leaving.abandon()

    def _keep_place(self) -> None:
        if self._heartbeats.poll_interval_exceeded():
            self._membership.notify(PollIntervalExceeded())
            self._say_leave(self._usual_leave_epoch)
            self._lose_place(ConsumerMemberState.STALE)

    def _go_on(self) -> None:
        self._reconciliation.fire_due()

    def _answered(self, pending: PendingRequest, response: Response) -> None:
        if not isinstance(response, ConsumerGroupHeartbeatResponse):
            return  # nothing else is ever asked
        if pending.tag:
            self._leaving.on_response(pending, response.error_code)
        elif response.error_code in _PUT_OUT:
            self._put_out()
        else:
            self._heartbeats.on_response(response)
            if self._membership.has_place:
                self._leave_no_more()

    def _unanswered(self, pending: PendingRequest) -> None:
        if pending.tag:
            self._leaving.on_timeout(pending)
        else:
            self._heartbeats.on_timeout()

    def _put_out(self) -> None:
        """The coordinator does not know the member or its epoch any more."""
        if self.state is ConsumerMemberState.PREPARE_LEAVING:
            self._lose_place(ConsumerMemberState.UNSUBSCRIBED)
            return
        had_partitions = bool(self._membership.owned)
        self._lose_place(ConsumerMemberState.FENCED)
        if not had_partitions:
            self._join()

    def _lose_place(self, state: ConsumerMemberState) -> None:
        lost = self._membership.owned
        self._membership.lose_partitions()
        self._positions.dropped(lost)
        self._forget_place(state)

    def _forget_place(self, state: ConsumerMemberState) -> None:
        self._heartbeats.forget()
        self._reconciliation.reset()
        self._membership.leave(state)

    @property
    def _usual_leave_epoch(self) -> int:
        return LEAVE_STATIC_EPOCH if self.config.is_static else LEAVE_EPOCH

    def _say_leave(self, epoch: int) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.config.group_instance_id,
        )
        self._leaving.leave(API, request)

    def _leave_for_good(self, leave_group: bool | None) -> None:
        if self.state in IN_GROUP and (leave_group is not False or self.config.is_static):
            self._say_leave(LEAVE_EPOCH if leave_group else self._usual_leave_epoch)
        self._forget_place(ConsumerMemberState.UNSUBSCRIBED)

    def _settle(self) -> None:
        super()._settle()
        self._heartbeats.send_if_due()
