"""A member's place in a consumer group (KIP-848). It makes its own id; the coordinator says its epoch."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import StrEnum

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.membership import Membership
from group_coordinator.coordinating.members.requests import Generation, PendingRequest
from schemas.consumer_group_messages import JOIN_EPOCH
from schemas.error_codes import ErrorCode
from schemas.messages import NO_GENERATION


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
