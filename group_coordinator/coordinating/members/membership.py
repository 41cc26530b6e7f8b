"""The parts of a member share its place in the group, its partitions, its requests and its time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import StrEnum

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import CoordinatorUnknown, Failed, Lost, Notification, Output
from group_coordinator.coordinating.members.requests import Generation, PendingRequest, Requests
from schemas.consumer_group_messages import JOIN_EPOCH
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.messages import NO_GENERATION, Request

REASON_LENGTH_MAX = 255
"""Longest reason that the wire takes (KIP-800)."""


class MemberState(StrEnum):
    """The state of a member of the classic protocol, under the names of Kafka's client."""

    UNJOINED = "unjoined"
    """It has no place in the group."""
    PREPARING_REBALANCE = "preparing_rebalance"
    """It has sent JoinGroup, or has to send it again; no heartbeats."""
    COMPLETING_REBALANCE = "completing_rebalance"
    """It has joined and waits for its assignment."""
    STABLE = "stable"
    """It has its assignment."""


class Membership(ABC):
    """A member's place in its group, as far as it is the same with both protocols."""

    def __init__(self, config: MemberConfig, ids: Iterator[str], shard_count: int) -> None:
        self.config = config
        self.now_ms = 0
        self.outputs: list[Output] = []
        self.requests = Requests(ids, self.outputs, group_partition(config.group_id, shard_count))
        self.generation = Generation()
        self.owned: tuple[TopicPartition, ...] = ()
        self.failed: Failed | None = None

    def notify(self, notification: Notification) -> None:
        self.outputs.append(notification)

    def send(self, api: str, request: Request, *, timeout_ms: int | None = None, tag: int = 0) -> PendingRequest:
        """Send a request; without an answer it is given up after `timeout_ms` (default: `request.timeout.ms`)."""
        wait_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        return self.requests.send(api, request, sent_as=self.generation, deadline_ms=self.now_ms + wait_ms, tag=tag)

    def coordinator_unknown(self, reason: str) -> None:
        self.notify(CoordinatorUnknown(reason=reason))

    def note_error(self, error_code: ErrorCode) -> None:
        """Look for the coordinator again if the error says that it is not where the request went."""
        if error_code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            self.coordinator_unknown(f"error response {error_code.name}")

    def lose_partitions(self) -> None:
        """Lose all partitions: this member may not commit their offsets any more."""
        if self.owned:
            lost, self.owned = self.owned, ()
            self.notify(Lost(partitions=lost))

    def fail(self, error_code: ErrorCode, reason: str) -> None:
        """End for good: what is on its way does not matter any more."""
        self.generation = Generation()
        self.requests.cancel_all()
        self._end()
        self.lose_partitions()
        self.failed = Failed(error_code=error_code, reason=reason)
        self.notify(self.failed)

    def without(self, partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Return the owned partitions without these, in the same order."""
        excluded = frozenset(partitions)
        return tuple(partition for partition in self.owned if partition not in excluded)

    # ---------------------------------------------------------------------------------- in what the protocols differ

    @property
    @abstractmethod
    def has_place(self) -> bool:
        """True while the member may commit as a member of the group."""

    @property
    @abstractmethod
    def place(self) -> Hashable:
        """What a commit is made in; it is repeated only while this is the same."""

    @property
    @abstractmethod
    def no_place(self) -> ErrorCode:
        """Why a commit cannot be sent while the member has no place."""

    @abstractmethod
    def may_repeat_commit(self, error_code: ErrorCode, *, automatic: bool) -> bool:
        """Return whether the same commit may succeed later."""

    @abstractmethod
    def commit_refused(self, pending: PendingRequest, error_code: ErrorCode) -> None:
        """Do what follows for the member when a commit is refused for good."""

    @property
    def fetches_as(self) -> tuple[str | None, int]:
        """The member id and the epoch of an OffsetFetch."""
        return None, NO_GENERATION

    def may_repeat_fetch(self, error_code: ErrorCode) -> bool:
        """Return whether an OffsetFetch that was refused may succeed later."""
        return error_code.retriable

    @abstractmethod
    def _end(self) -> None:
        """Forget the place in the group, after a failure."""


class ClassicMembership(Membership):
    """The place in a group with the classic protocol. Changed by what the coordinator answers, and by giving up."""

    _PLACE_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_ID_NOT_FOUND)

    def __init__(self, config: MemberConfig, ids: Iterator[str], shard_count: int) -> None:
        super().__init__(config, ids, shard_count)
        self.state = MemberState.UNJOINED
        self.rejoin_needed = False
        self.rejoin_reason = ""
        self.needs_prepare = True
        """Before the next JoinGroup, what the member must not keep has to be committed and given up."""
        self.assignment_waiting: bytes | None = None
        """What SyncGroup brought and the application, which has not polled since, does not know yet."""
        self.on_reset: Callable[[], None] = lambda: None
        """Called when the place in the group is gone, for whoever has something under way in it."""

    def is_current(self, pending: PendingRequest) -> bool:
        """Return whether the member's generation is still the one that the request was sent in."""
        return pending.sent_as == self.generation

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next opportunity, and tell the coordinator why."""
        self.rejoin_needed = True
        self.rejoin_reason = reason[:REASON_LENGTH_MAX]

    def reset_and_rejoin(self, reason: str, *, keep_member_id: bool = False) -> None:
        """Give up the place in the group and rejoin. After ILLEGAL_GENERATION the member id may still be good."""
        self.state = MemberState.UNJOINED
        self.generation = Generation(NO_GENERATION, self.generation.member_id if keep_member_id else "", None)
        self.assignment_waiting = None
        self.requests.cancel("JoinGroup", "SyncGroup", "Heartbeat")
        self.needs_prepare = True
        self.on_reset()
        self.request_rejoin(reason)

    def reset_on_error(self, api: str, error_code: ErrorCode) -> None:
        reason = f"encountered {error_code.name} from {api} response"
        self.reset_and_rejoin(reason, keep_member_id=error_code is ErrorCode.ILLEGAL_GENERATION)

    @property
    def has_place(self) -> bool:
        return self.state is MemberState.STABLE

    @property
    def place(self) -> Hashable:
        return self.generation

    @property
    def no_place(self) -> ErrorCode:
        unjoined = self.state is MemberState.UNJOINED
        return ErrorCode.UNKNOWN_MEMBER_ID if unjoined else ErrorCode.REBALANCE_IN_PROGRESS

    def may_repeat_commit(self, error_code: ErrorCode, *, automatic: bool) -> bool:
        return error_code.retriable

    def commit_refused(self, pending: PendingRequest, error_code: ErrorCode) -> None:
        if error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            self.fail(error_code, error_code.meaning)
        if not self.is_current(pending):
            return
        if error_code is ErrorCode.REBALANCE_IN_PROGRESS and self.state is MemberState.STABLE:
            self.request_rejoin("offset commit failed since group is already rebalancing")
        elif error_code in self._PLACE_LOST:
            self.reset_on_error("OFFSET_COMMIT", error_code)
        elif error_code is ErrorCode.FENCED_INSTANCE_ID:
            self.fail(error_code, "another member has taken this group.instance.id")

    def _end(self) -> None:
        self.state = MemberState.UNJOINED
        self.rejoin_needed = False
        self.assignment_waiting = None
        self.on_reset()


class ConsumerMemberState(StrEnum):
    """The state of a member of the consumer protocol, under the names of Kafka's client (`MemberState`).

    Kafka's LEAVING is missing: here the request to leave is sent at once.
    """

    UNSUBSCRIBED = "unsubscribed"
    """It is in no group and does not want to be: it has no subscription, or has left."""
    JOINING = "joining"
    """It has sent a heartbeat with epoch 0, or has to send it again."""
    RECONCILING = "reconciling"
    """It has been told another assignment than it has, and works on it."""
    ACKNOWLEDGING = "acknowledging"
    """It has what it was told to have, and will say so as soon as the last heartbeat is answered."""
    STABLE = "stable"
    """It has what it was told to have."""
    FENCED = "fenced"
    """The coordinator has put it out: it has lost its partitions and joins again at the next poll."""
    STALE = "stale"
    """It has left because its application did not poll; it joins again at the next poll."""
    PREPARE_LEAVING = "prepare_leaving"
    """It closes: it commits and gives up its partitions, with heartbeats meanwhile."""
    FATAL = "fatal"
    """It has ended because of an error."""


IN_GROUP = (
    ConsumerMemberState.JOINING,
    ConsumerMemberState.RECONCILING,
    ConsumerMemberState.ACKNOWLEDGING,
    ConsumerMemberState.STABLE,
    ConsumerMemberState.PREPARE_LEAVING,
)
"""The states with heartbeats: the coordinator may know the member."""


class ConsumerMembership(Membership):
    """The place in a consumer group; its generation is the member's epoch."""

    def __init__(self, config: MemberConfig, ids: Iterator[str], shard_count: int) -> None:
        super().__init__(config, ids, shard_count)
        self.state = ConsumerMemberState.UNSUBSCRIBED
        self._member_id = next(ids)
        self._joins = 0
        self.set_epoch(NO_GENERATION)

    def set_epoch(self, epoch: int) -> None:
        self.generation = Generation(epoch, self._member_id)

    def join(self) -> None:
        """Begin anew with epoch 0."""
        self._joins += 1
        self.state = ConsumerMemberState.JOINING
        self.set_epoch(JOIN_EPOCH)

    def leave(self, state: ConsumerMemberState) -> None:
        """Have no place in the group any more."""
        self.state = state
        self.set_epoch(NO_GENERATION)

    @property
    def has_place(self) -> bool:
        return self.generation.generation_id > JOIN_EPOCH

    @property
    def place(self) -> Hashable:
        """The same for all epochs between joining and leaving: the coordinator changes them under a commit."""
        return self._joins

    @property
    def no_place(self) -> ErrorCode:
        return ErrorCode.UNKNOWN_MEMBER_ID

    def may_repeat_commit(self, error_code: ErrorCode, *, automatic: bool) -> bool:
        """Return whether the same commit may succeed later.

        An automatic one also after STALE_MEMBER_EPOCH, with the epoch of then; whoever commits by hand is told, as by
        Kafka's client.
        """
        return error_code.retriable or (automatic and error_code is ErrorCode.STALE_MEMBER_EPOCH)

    def commit_refused(self, pending: PendingRequest, error_code: ErrorCode) -> None:
        """Nothing follows: heartbeats tell whether the member still has its place."""

    @property
    def fetches_as(self) -> tuple[str | None, int]:
        epoch = self.generation.generation_id
        return (self._member_id, epoch) if self.has_place else (None, NO_GENERATION)

    def may_repeat_fetch(self, error_code: ErrorCode) -> bool:
        """Return whether an OffsetFetch that was refused may succeed later: the next heartbeat brings the epoch, or
        the loss of the place and with it of the partitions."""
        return error_code.retriable or error_code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)

    def _end(self) -> None:
        self.leave(ConsumerMemberState.FATAL)
