"""One group member as a pure state machine: it is told what happens and when, and says what to send and what to do.

It has no clock, no chance and no I/O. Time is an argument (milliseconds, of any origin, never going back); ids of
requests come from an iterator; what it has to say is taken with `take_outputs`. Whoever drives it sends the requests,
hands it the answers, polls it as often as the application would poll a consumer, and wakes it at `next_deadline_ms`.

It does what Kafka's Java consumer does with the classic protocol (`ConsumerCoordinator`, `AbstractCoordinator`); where
it differs, the parts say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from group_coordinator.assignors import ASSIGNORS, Assignor
from group_coordinator.members.commits import Commits
from group_coordinator.members.config import MemberConfig
from group_coordinator.members.effects import OffsetAndMetadata, Output, PollIntervalExceeded
from group_coordinator.members.heartbeats import Heartbeats
from group_coordinator.members.joining import Joining
from group_coordinator.members.leader_assignment import assignors_named
from group_coordinator.members.leaving import Leaving
from group_coordinator.members.membership import Membership, MemberState
from group_coordinator.members.positions import Positions
from group_coordinator.members.requests import PendingRequest
from group_coordinator.members.shutdown import Shutdown
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.events import ResponseEnvelope
from schemas.messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    Response,
    SyncGroupResponse,
)


class GroupMember:
    """A member of one group. `start` it, then `poll` it: it joins at the first poll after it has a subscription."""

    def __init__(
        self,
        config: MemberConfig,
        request_ids: Iterator[str],
        *,
        shard_count: int = 1,
        assignors: Mapping[str, Assignor] = ASSIGNORS,
    ) -> None:
        """`shard_count`: partitions of the events topic. Raises ValueError for settings that cannot work."""
        problems = config.problems()
        if problems:
            raise ValueError(" ".join(problems))
        own_assignors = assignors_named(config.partition_assignment_strategy, assignors)
        self.config = config
        self._membership = Membership(config, request_ids, shard_count)
        self._heartbeats = Heartbeats(self._membership)
        self._commits = Commits(self._membership)
        self._positions = Positions(self._membership, self._commits)
        self._joining = Joining(self._membership, own_assignors, self._heartbeats, self._commits, self._positions)
        self._leaving = Leaving(self._membership)
        self._shutdown = Shutdown(self._membership, self._commits, self._positions, self._leaving)

    # ------------------------------------------------------------------------------------------ what the member says

    def take_outputs(self) -> list[Output]:
        """Return the outputs since the last call, in order: requests to send, notifications to act on."""
        outputs = list(self._membership.outputs)
        self._membership.outputs.clear()
        return outputs

    def next_deadline_ms(self) -> int | None:
        """Return the latest time for the next `advance_to`; None if only an input can change something."""
        parts = (
            self._membership.requests,
            self._heartbeats,
            self._commits,
            self._positions,
            self._joining,
            self._leaving,
            self._shutdown,
        )
        return min((deadline for part in parts if (deadline := part.next_deadline_ms()) is not None), default=None)

    # --------------------------------------------------------------------------------------- what the member is told

    def start(self, now_ms: int, topics: Iterable[str] = ()) -> None:
        """Start the member with this subscription."""
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

    def poll(self, now_ms: int) -> None:
        """Note that the application polls. It has then handled all that it was given before."""
        self.advance_to(now_ms)
        if self._shutdown.begun:
            self._shutdown.polled()
        elif self._membership.failed is None:
            self._heartbeats.polled()
            if self._joining.subscription:
                self._joining.poll()
        self._settle()

    def advance_to(self, now_ms: int) -> None:
        """Move the time to `now_ms` and do what is due."""
        membership = self._membership
        membership.now_ms = max(membership.now_ms, now_ms)
        for pending in membership.requests.overdue(membership.now_ms):
            self._on_timeout(pending)
        if self._heartbeats.poll_interval_exceeded():
            membership.notify(PollIntervalExceeded())
            self._leave("consumer poll timeout has expired.")
        self._heartbeats.send_if_due()
        self._commits.fire_due()
        if self._commits.automatic_is_due():
            self._commits.commit_positions(self._positions.to_commit())
        self._positions.fire_due()
        self._joining.fire_due()
        self._leaving.fire_due()
        self._settle()

    def receive(self, envelope: ResponseEnvelope, response: Response, now_ms: int) -> None:
        """Handle an answer. One that no request waits for (late, double, another member's) is ignored."""
        membership = self._membership
        membership.now_ms = max(membership.now_ms, now_ms)
        pending = membership.requests.answered(envelope.request_id)
        if pending is None:
            return
        match response:
            case JoinGroupResponse():
                self._joining.on_join_response(pending, response)
            case SyncGroupResponse():
                self._joining.on_sync_response(pending, response)
            case HeartbeatResponse():
                self._heartbeats.on_response(pending, response)
            case OffsetCommitResponse():
                self._commits.on_response(pending, response)
            case OffsetFetchResponse():
                self._positions.on_response(pending, response)
            case LeaveGroupResponse():
                self._leaving.on_response(pending, response)
            case _:
                pass  # nothing else is ever asked
        self._settle()

    def partitions_changed(self, counts: Mapping[str, int]) -> None:
        """Take the present number of partitions of these topics; 0 for a topic that does not exist."""
        self._joining.partition_counts.update(counts)
        self._joining.counts_changed()
        self._settle()

    def processed(self, partition: TopicPartition, offset: int) -> None:
        """Note that the record at this offset is processed, so that the automatic commit goes beyond it."""
        self._positions.processed(partition, offset)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> int:
        """Commit these offsets, or else all positions.

        `Committed` or `CommitFailed` tells how it ended, by this number.
        """
        return self._commits.commit(self._positions.to_commit() if offsets is None else offsets)

    def log_bounds(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Take the first offset and the end of partitions, as `LogBoundsNeeded` asked."""
        self._positions.log_bounds(bounds)

    def out_of_range(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the log has no record at the positions of these partitions."""
        self._positions.out_of_range(partitions)

    def close(self, now_ms: int, *, leave_group: bool | None = None) -> None:
        """Commit if that is automatic, give up the partitions, leave, and say `Closed`: within `request.timeout.ms`.

        Go on polling until then: the poll after `Revoked` says that the partitions have been given up. A dynamic member
        leaves the group, a static one stays in it until its session expires; `leave_group` says otherwise.
        """
        membership = self._membership
        membership.now_ms = max(membership.now_ms, now_ms)
        self._shutdown.begin(leave_group)
        self._settle()

    # ------------------------------------------------------------------------------------------- what the member is

    @property
    def state(self) -> MemberState:
        return self._membership.state

    @property
    def member_id(self) -> str:
        """The id that the coordinator has given, empty before."""
        return self._membership.generation.member_id

    @property
    def generation_id(self) -> int:
        return self._membership.generation.generation_id

    @property
    def protocol_name(self) -> str | None:
        """The assignor that the group has chosen."""
        return self._membership.generation.protocol_name

    @property
    def is_rejoining(self) -> bool:
        """True if the member will join again."""
        return self._membership.rejoin_needed

    @property
    def is_leader(self) -> bool:
        return self._joining.is_leader

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the application has been told are its own."""
        return self._membership.owned

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset to process of each partition, where it is known."""
        return self._positions.known

    @property
    def may_process(self) -> bool:
        """False while positions are being committed for good, before partitions are given up."""
        return not self._joining.is_revoking and not self._shutdown.begun

    @property
    def committed(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The offsets that the coordinator is known to have, of the member's partitions."""
        return self._commits.committed

    @property
    def subscription(self) -> tuple[str, ...]:
        return self._joining.subscription

    @property
    def topics_of_interest(self) -> tuple[str, ...]:
        """The topics whose partition counts matter: the member's own and, while it leads, the group's."""
        return self._joining.topics_of_interest

    @property
    def failure(self) -> tuple[ErrorCode, str] | None:
        """The reason why the member has ended, if it has."""
        failed = self._membership.failed
        return None if failed is None else (failed.error_code, failed.reason)

    @property
    def is_closed(self) -> bool:
        return self._shutdown.done

    # --------------------------------------------------------------------------------------------------------- inside

    def _on_timeout(self, pending: PendingRequest) -> None:
        match pending.api:
            case "JoinGroup" | "SyncGroup":
                self._joining.on_timeout()
            case "Heartbeat":
                self._heartbeats.on_timeout()
            case "OffsetCommit":
                self._commits.on_timeout(pending)
            case "OffsetFetch":
                self._positions.on_timeout(pending)
            case "LeaveGroup":
                self._leaving.on_timeout(pending)

    def _leave(self, reason: str) -> None:
        """Leave the group on the member's own account; the next poll joins it anew."""
        if not self.config.is_static:
            self._leaving.leave(reason)
        self._membership.reset_and_rejoin("consumer pro-actively leaving the group")

    def _settle(self) -> None:
        """Every input may have effects in each part."""
        failed = self._membership.failed
        if failed is not None:
            self._commits.abandon(failed.error_code)
            self._positions.dropped(tuple(self._positions.known))
            self._leaving.abandon()
        self._shutdown.go_on()
