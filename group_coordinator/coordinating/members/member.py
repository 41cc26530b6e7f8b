"""One member of a group with the classic protocol, as a pure state machine.

It does what Kafka's Java consumer does with `group.protocol=classic` (`ConsumerCoordinator`, `AbstractCoordinator`);
where it differs, the parts say so. What it says and is told: `member_machine.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from group_coordinator.coordinating.assignors import ASSIGNORS, Assignor
from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.consumer_member import ConsumerGroupMember
from group_coordinator.coordinating.members.effects import PollIntervalExceeded
from group_coordinator.coordinating.members.heartbeats import Heartbeats
from group_coordinator.coordinating.members.joining import Joining
from group_coordinator.coordinating.members.leader_assignment import assignors_named
from group_coordinator.coordinating.members.leaving import leave_group
from group_coordinator.coordinating.members.member_machine import MemberMachine
from group_coordinator.coordinating.members.membership import ClassicMembership, MemberState
from group_coordinator.coordinating.members.requests import PendingRequest
from schemas.messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    Response,
    SyncGroupResponse,
)

_LEAVES_OF_ITS_OWN = "consumer pro-actively leaving the group"


class GroupMember(MemberMachine):
    """A member of one group that speaks the classic protocol."""

    _membership: ClassicMembership

    def __init__(
        self,
        config: MemberConfig,
        request_ids: Iterator[str],
        *,
        shard_count: int = 1,
        assignors: Mapping[str, Assignor] = ASSIGNORS,
    ) -> None:
        """`shard_count`: partitions of the events topic. Raises ValueError for settings that cannot work."""
        config.insist()
        own_assignors = assignors_named(config.partition_assignment_strategy, assignors)
        membership = ClassicMembership(config, request_ids, shard_count)
        super().__init__(membership)
        self._heartbeats = Heartbeats(membership)
        self._joining = Joining(membership, own_assignors, self._heartbeats, self._commits, self._positions)
        self._parts += [self._heartbeats, self._joining]

    # --------------------------------------------------------------------------------------- what the member is told

    def start(self, now_ms: int, topics: Iterable[str] = ()) -> None:
        self._membership.now_ms = now_ms
        self._membership.rejoin_needed = True
        self.subscribe(topics)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics instead of those before; the next poll rejoins. Without any, leave the group."""
        subscription = tuple(sorted(set(topics)))
        unsubscribed = bool(self._joining.subscription) and not subscription
        self._joining.subscription = subscription
        if unsubscribed:
            self._commits.commit_positions(self._positions.to_commit())
            self._shutdown.release_all()
            self._leave("the consumer unsubscribed from all topics")

    def partitions_changed(self, counts: Mapping[str, int]) -> None:
        self._joining.partition_counts.update(counts)
        self._joining.counts_changed()
        self._settle()

    def topic_names(self, names: Mapping[str, str]) -> None:
        """Do nothing: this protocol has no ids of topics."""

    # ------------------------------------------------------------------------------------------- what the member is

    @property
    def state(self) -> MemberState:
        return self._membership.state

    @property
    def is_rejoining(self) -> bool:
        return self._membership.rejoin_needed

    @property
    def is_leader(self) -> bool:
        return self._joining.is_leader

    @property
    def may_process(self) -> bool:
        return not self._joining.is_revoking and super().may_process

    @property
    def subscription(self) -> tuple[str, ...]:
        return self._joining.subscription

    @property
    def topics_of_interest(self) -> tuple[str, ...]:
        """The topics whose partition counts matter: the member's own and, while it leads, the group's."""
        return self._joining.topics_of_interest

    # --------------------------------------------------------------------------------------------------------- inside

    def _polled(self) -> None:
        self._heartbeats.polled()
        if self._joining.subscription:
            self._joining.poll()

    def _keep_place(self) -> None:
        if self._heartbeats.poll_interval_exceeded():
            self._membership.notify(PollIntervalExceeded())
            self._leave("consumer poll timeout has expired.")
        self._heartbeats.send_if_due()

    def _go_on(self) -> None:
        self._joining.fire_due()

    def _answered(self, pending: PendingRequest, response: Response) -> None:
        match response:
            case JoinGroupResponse():
                self._joining.on_join_response(pending, response)
            case SyncGroupResponse():
                self._joining.on_sync_response(pending, response)
            case HeartbeatResponse():
                self._heartbeats.on_response(pending, response)
            case LeaveGroupResponse():
                self._leaving.on_response(pending, response.error_code)
            case _:
                pass  # nothing else is ever asked

    def _unanswered(self, pending: PendingRequest) -> None:
        match pending.api:
            case "JoinGroup" | "SyncGroup":
                self._joining.on_timeout()
            case "Heartbeat":
                self._heartbeats.on_timeout()
            case "LeaveGroup":
                self._leaving.on_timeout(pending)

    def _leave(self, reason: str) -> None:
        """Leave the group on the member's own account; the next poll joins it anew."""
        if not self.config.is_static:
            leave_group(self._membership, self._leaving, reason)
        self._membership.reset_and_rejoin(_LEAVES_OF_ITS_OWN)

    def _leave_for_good(self, leaves: bool | None) -> None:
        if not self.config.is_static if leaves is None else leaves:
            leave_group(self._membership, self._leaving, "the consumer is being closed")
        self._membership.reset_and_rejoin(_LEAVES_OF_ITS_OWN)


def new_member(
    config: MemberConfig,
    request_ids: Iterator[str],
    *,
    shard_count: int = 1,
    assignors: Mapping[str, Assignor] = ASSIGNORS,
) -> GroupMember | ConsumerGroupMember:
    """Make a member. Raises ValueError for settings that cannot work."""
    if config.group_protocol == "consumer":
        return ConsumerGroupMember(config, request_ids, shard_count=shard_count)
    return GroupMember(config, request_ids, shard_count=shard_count, assignors=assignors)
