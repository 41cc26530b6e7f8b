"""A member gets its partitions in steps: it prepares, joins, assigns if it is the leader, syncs, and takes its
partitions.

The application takes part only by polling: before JoinGroup it releases the partitions that it must not keep, after
SyncGroup it takes the new ones. Between the two the member goes on by itself, with all repetitions. Source:
`joinGroupIfNeeded` of Kafka's `AbstractCoordinator`, `onJoinPrepare` and `onJoinComplete` of its `ConsumerCoordinator`.
"""

from __future__ import annotations

from collections.abc import Sequence

from group_coordinator.coordinating.assignors import Assignor, MemberSubscription, RebalanceProtocol
from group_coordinator.coordinating.members.commits import Commits
from group_coordinator.coordinating.members.effects import Assigned, Lost, PartitionCountsNeeded, Revoked
from group_coordinator.coordinating.members.heartbeats import Heartbeats
from group_coordinator.coordinating.members.leader_assignment import (
    PROTOCOL_TYPE,
    LastAssignment,
    assign,
    common_rebalance_protocol,
    group_subscriptions,
    group_topics,
    offered_protocols,
)
from group_coordinator.coordinating.members.membership import ClassicMembership, MemberState
from group_coordinator.coordinating.members.positions import Positions
from group_coordinator.coordinating.members.requests import Generation, PendingRequest
from schemas.consumer_protocol import TopicPartition, decode_assignment
from schemas.error_codes import ErrorCode
from schemas.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from schemas.wire import DecodeError

_CLIENT_EXCEPTIONS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "CoordinatorLoadInProgressException",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "CoordinatorNotAvailableException",
    ErrorCode.NOT_COORDINATOR: "NotCoordinatorException",
    ErrorCode.ILLEGAL_GENERATION: "IllegalGenerationException",
    ErrorCode.UNKNOWN_MEMBER_ID: "UnknownMemberIdException",
    ErrorCode.REBALANCE_IN_PROGRESS: "RebalanceInProgressException",
}
"""What Kafka's client calls the errors that do not end a member: the words of its reasons (KIP-800)."""


class Joining:
    """One member's rebalances."""

    def __init__(
        self,
        membership: ClassicMembership,
        assignors: Sequence[Assignor],
        heartbeats: Heartbeats,
        commits: Commits,
        positions: Positions,
    ) -> None:
        self.subscription: tuple[str, ...] = ()
        self.partition_counts: dict[str, int] = {}
        membership.on_reset = self._forget
        self._membership = membership
        self._config = membership.config
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = common_rebalance_protocol(assignors) is RebalanceProtocol.COOPERATIVE
        self._heartbeats = heartbeats
        self._commits = commits
        self._positions = positions
        self._last = LastAssignment()
        self._joined_subscription: tuple[str, ...] | None = None
        self._watched: dict[str, int] | None = None
        """Of a leader: the partition counts on which it decided, of all topics of the group."""
        self._to_assign: tuple[MemberSubscription, ...] | None = None
        """Of a leader that still has to learn partition counts: the members to decide for."""
        self._decide_at_ms = 0
        self._join_at_ms: int | None = None
        """When to repeat JoinGroup without waiting for a poll."""
        self._attempts = 0
        self._final_commit: int | None = None
        """The automatic commit that comes before the next JoinGroup."""
        self._final_commit_until_ms = 0

    # ------------------------------------------------------------------------------------------------ what moves it

    def poll(self) -> None:
        """Go on with the rebalance: the application has handled all earlier callbacks and can get more."""
        if self._membership.assignment_waiting is not None:
            self._complete(self._membership.assignment_waiting)
        self._watch()
        if self._membership.rejoin_needed and not self._under_way() and self._join_at_ms is None:
            if self._membership.needs_prepare and not self._prepare():
                return
            self._join()

    def fire_due(self) -> None:
        now_ms = self._membership.now_ms
        if self._join_at_ms is not None and self._join_at_ms <= now_ms:
            self._join()
        if self._to_assign is not None and self._decide_at_ms <= now_ms:
            self._decide()

    def next_deadline_ms(self) -> int | None:
        deadlines = [self._join_at_ms, self._decide_at_ms if self._to_assign is not None else None]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def counts_changed(self) -> None:
        """Go on as a leader that waited for these partition counts."""
        if self._to_assign is not None and not self._unknown_topics(self._to_assign):
            self._decide()

    def _forget(self) -> None:
        """The place in the group is gone: so is what was under way in it."""
        self._to_assign = None
        self._join_at_ms = None
        self._final_commit = None

    @property
    def is_leader(self) -> bool:
        """True if the member has decided, or will decide, the assignment of this generation."""
        return self._watched is not None or self._to_assign is not None

    @property
    def is_revoking(self) -> bool:
        """True while the commit before a rebalance is under way: records processed now might not be in it."""
        return self._final_commit is not None

    @property
    def topics_of_interest(self) -> tuple[str, ...]:
        """The topics whose partition counts matter to this member: its own and, while it leads, the group's."""
        return tuple(sorted({*self.subscription, *(self._watched or {}), *self._topics_to_decide()}))

    # ------------------------------------------------------------------------------------------------------- prepare

    def _watch(self) -> None:
        """Rejoin when the subscription is another, or when a leader's topics have grown."""
        membership = self._membership
        if membership.rejoin_needed:
            return
        if self._watched is not None and self._watched != self._counts_of(tuple(self._watched)):
            membership.request_rejoin("cached metadata has changed")
        elif self._joined_subscription is not None and self._joined_subscription != self.subscription:
            membership.request_rejoin("subscription has changed")

    def _prepare(self) -> bool:
        """Commit, then give up what must not be kept.

        True when nothing was given up, so that JoinGroup can go at once.
        """
        membership = self._membership
        if not self._final_commit_is_over():
            return False
        membership.needs_prepare = False
        self._watched = None
        if membership.generation.is_lost:
            return not self._revoke(membership.owned, lost=True)
        if self._cooperative:
            unsubscribed = tuple(
                partition for partition in membership.owned if partition.topic not in self.subscription
            )
            return not self._revoke(unsubscribed)
        return not self._revoke(membership.owned)

    def _final_commit_is_over(self) -> bool:
        """Return whether the automatic commit before a rebalance is answered, or has timed out."""
        if self._final_commit is None:
            self._begin_final_commit()
        waiting = self._final_commit is not None and self._commits.is_open(self._final_commit)
        if waiting and self._membership.now_ms < self._final_commit_until_ms:
            return False
        self._final_commit = None
        return True

    def _begin_final_commit(self) -> None:
        self._final_commit = self._commits.commit_positions(self._positions.to_commit())
        self._final_commit_until_ms = self._membership.now_ms + self._config.max_poll_interval_ms

    def _revoke(self, partitions: tuple[TopicPartition, ...], *, lost: bool = False) -> bool:
        """Drop partitions and say so; False when there are none."""
        if not partitions:
            return False
        membership = self._membership
        membership.owned = membership.without(partitions)
        self._positions.dropped(partitions)
        membership.notify(Lost(partitions=partitions) if lost else Revoked(partitions=partitions))
        return True

    # ---------------------------------------------------------------------------------------------------------- join

    def _under_way(self) -> bool:
        return self._to_assign is not None or self._membership.requests.in_flight("JoinGroup", "SyncGroup")

    def _join(self) -> None:
        membership, config = self._membership, self._config
        self._join_at_ms = None
        self._joined_subscription = self.subscription
        membership.state = MemberState.PREPARING_REBALANCE
        request = JoinGroupRequest(
            group_id=config.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=membership.generation.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=offered_protocols(
                tuple(self._assignors.values()),
                self.subscription,
                membership.owned,
                membership.generation.generation_id,
                self._last,
                config.client_rack,
            ),
            reason=membership.rejoin_reason,
        )
        membership.send("JoinGroup", request, timeout_ms=config.join_timeout_ms)

    def on_join_response(self, pending: PendingRequest, response: JoinGroupResponse) -> None:
        membership = self._membership
        match response.error_code:
            case ErrorCode.NONE:
                self._joined(response)
            case ErrorCode.MEMBER_ID_REQUIRED:
                membership.generation = Generation(member_id=response.member_id)
                membership.request_rejoin(f"need to re-join with the given member-id: {response.member_id}")
                self._repeat(delay_ms=0)
            case ErrorCode.UNKNOWN_MEMBER_ID if membership.is_current(pending):
                membership.reset_on_error("JOIN_GROUP", response.error_code)
                self._failed_with(response.error_code)
            case error_code if error_code in _CLIENT_EXCEPTIONS:
                self._failed_with(error_code)
            case error_code:
                membership.fail(error_code, f"JoinGroup was refused: {error_code.meaning}")

    def _joined(self, response: JoinGroupResponse) -> None:
        membership = self._membership
        if response.protocol_type not in (None, PROTOCOL_TYPE) or response.protocol_name not in self._assignors:
            membership.fail(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group has chosen {response.protocol_type}/{response.protocol_name}, which was not offered",
            )
            return
        membership.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        membership.state = MemberState.COMPLETING_REBALANCE
        self._heartbeats.restart()
        if response.leader != response.member_id:
            self._sync(())
            return
        self._to_assign = group_subscriptions(response.members)
        if response.skip_assignment:
            self._lead_on()
            return
        unknown = self._unknown_topics(self._to_assign)
        if unknown:
            self._decide_at_ms = membership.now_ms + self._config.request_timeout_ms
            membership.notify(PartitionCountsNeeded(topics=unknown))
        else:
            self._decide()

    # ---------------------------------------------------------------------------------------------------------- lead

    def _topics_to_decide(self) -> tuple[str, ...]:
        return group_topics(self._to_assign or ())

    def _unknown_topics(self, subscriptions: Sequence[MemberSubscription]) -> tuple[str, ...]:
        return tuple(topic for topic in group_topics(subscriptions) if topic not in self.partition_counts)

    def _counts_of(self, topics: Sequence[str]) -> dict[str, int]:
        return {topic: self.partition_counts.get(topic, 0) for topic in topics}

    def _lead_on(self) -> None:
        """The group keeps its assignment, but the leader watches its topics."""
        self._watched = self._counts_of(self._topics_to_decide())
        self._to_assign = None
        self._sync(())

    def _decide(self) -> None:
        """Share the partitions of the group's topics; one that is still unknown counts as not existing."""
        membership = self._membership
        subscriptions, self._to_assign = self._to_assign or (), None
        self._watched = self._counts_of(group_topics(subscriptions))
        assignor = self._assignors[membership.generation.protocol_name or ""]
        try:
            assignments = assign(assignor, subscriptions, self._watched)
        except Exception as error:  # an assignor may be anybody's code; the group goes on without this leader
            membership.fail(ErrorCode.UNKNOWN_SERVER_ERROR, f"assignor {assignor.name!r} failed: {error!r}")
            return
        self._sync(assignments)

    # ---------------------------------------------------------------------------------------------------------- sync

    def _sync(self, assignments: tuple[SyncGroupAssignment, ...]) -> None:
        generation = self._membership.generation
        request = SyncGroupRequest(
            group_id=self._config.group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=generation.protocol_name,
            assignments=assignments,
        )
        self._membership.send("SyncGroup", request)

    def on_sync_response(self, pending: PendingRequest, response: SyncGroupResponse) -> None:
        membership = self._membership
        match response.error_code:
            case ErrorCode.NONE:
                self._synced(response)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION if membership.is_current(pending):
                membership.reset_on_error("SYNC_GROUP", response.error_code)
                self._failed_with(response.error_code)
            case error_code if error_code in _CLIENT_EXCEPTIONS:
                self._failed_with(error_code)
            case error_code:
                membership.fail(error_code, f"SyncGroup was refused: {error_code.meaning}")

    def _synced(self, response: SyncGroupResponse) -> None:
        membership = self._membership
        if response.protocol_name not in (None, membership.generation.protocol_name):
            membership.fail(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group has chosen {membership.generation.protocol_name}, but SyncGroup says "
                f"{response.protocol_name}",
            )
            return
        membership.state = MemberState.STABLE
        membership.rejoin_needed = False
        membership.rejoin_reason = ""
        membership.assignment_waiting = response.assignment
        self._attempts = 0

    # -------------------------------------------------------------------------------------------------------- repeat

    def on_timeout(self) -> None:
        """Handle a JoinGroup or SyncGroup that was not answered in time."""
        self._membership.coordinator_unknown("no answer in time")
        self._failed_because("DisconnectException", self._backoff_ms())

    def _failed_with(self, error_code: ErrorCode) -> None:
        self._membership.note_error(error_code)
        self._failed_because(_CLIENT_EXCEPTIONS[error_code], self._backoff_ms() if error_code.retriable else 0)

    def _failed_because(self, exception: str, delay_ms: int) -> None:
        self._membership.request_rejoin(f"rebalance failed due to {exception}")
        self._repeat(delay_ms)

    def _repeat(self, delay_ms: int) -> None:
        """Join again without waiting for a poll, unless the application must first give something up."""
        membership = self._membership
        membership.state = MemberState.PREPARING_REBALANCE
        if membership.needs_prepare and membership.owned:
            return
        membership.needs_prepare = False
        if delay_ms:
            self._join_at_ms = membership.now_ms + delay_ms
        else:
            self._join()

    def _backoff_ms(self) -> int:
        self._attempts += 1
        return self._config.backoff_ms(self._attempts - 1)

    # ------------------------------------------------------------------------------------------------------ complete

    def _complete(self, data: bytes) -> None:
        """Take the assignment that SyncGroup brought."""
        membership = self._membership
        membership.assignment_waiting = None
        membership.needs_prepare = True
        try:
            assigned = decode_assignment(data).partitions if data else ()
        except DecodeError as error:
            membership.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the leader's assignment cannot be read: {error}")
            return
        if any(partition.topic not in self.subscription for partition in assigned):
            membership.request_rejoin("received assignment does not match the current subscription")
            return
        owned = frozenset(membership.owned)
        added = tuple(partition for partition in assigned if partition not in owned)
        revoked = membership.without(assigned)
        if revoked:
            self._begin_final_commit()
            self._revoke(revoked)
            membership.request_rejoin("need to revoke partitions and re-join")
        membership.owned = assigned
        self._last.remember(assigned, membership.generation.generation_id)
        self._commits.restart_interval()
        membership.notify(Assigned(partitions=added, generation_id=membership.generation.generation_id))
        self._positions.assigned(added)
