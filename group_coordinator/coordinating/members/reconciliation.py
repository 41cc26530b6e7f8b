"""A member of a consumer group makes its own what the coordinator assigns: it commits, gives up, takes, acknowledges.

The application takes part by polling, as in a rebalance of the classic protocol: the poll after `Revoked` says that the
partitions have been given up. Kafka's client goes on without a poll where it has nothing to commit or to revoke and
nobody listens; otherwise this is `maybeReconcile` of its `AbstractMembershipManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from group_coordinator.coordinating.members.commits import Commits
from group_coordinator.coordinating.members.effects import Assigned, Revoked, TopicNamesNeeded
from group_coordinator.coordinating.members.membership import ConsumerMembership, ConsumerMemberState
from group_coordinator.coordinating.members.positions import Positions
from schemas.consumer_group_messages import ConsumerGroupAssignment
from schemas.consumer_protocol import TopicPartition


class LocalAssignment(NamedTuple):
    """An assignment by topic ids, and its number: each that the coordinator sends is another, even if it is equal."""

    number: int
    partitions: Mapping[str, tuple[int, ...]]


NOTHING = LocalAssignment(-1, {})
"""What a member has that was told no assignment since it joined; it is not the same as an empty one."""


class Reconciliation:
    """One member's assignment: what it was told to have, what it has, and the way from one to the other."""

    def __init__(self, membership: ConsumerMembership, commits: Commits, positions: Positions) -> None:
        self.current = NOTHING
        """What the member has; the next heartbeat tells the coordinator if it is another than before."""
        self._membership = membership
        self._commits = commits
        self._positions = positions
        self._target = NOTHING
        self._names: dict[str, str] = {}
        """Names of topics by their ids, of those that matter."""
        self._ask_at_ms = 0
        """When to ask again for names that are missing."""
        self._next: LocalAssignment | None = None
        """What the member is about to have, as far as it knows the names."""
        self._final_commit: int | None = None
        self._final_commit_until_ms = 0

    # ------------------------------------------------------------------------------------------------ what moves it

    def take_target(self, assignment: ConsumerGroupAssignment) -> None:
        """Take what the coordinator wants the member to have."""
        membership = self._membership
        partitions = {item.topic_id: tuple(sorted(item.partitions)) for item in assignment.topic_partitions}
        if self._target is NOTHING or partitions != self._target.partitions:
            self._target = LocalAssignment(self._target.number + 1, partitions)
        if self.current == self._target:
            if membership.state is ConsumerMemberState.RECONCILING:
                membership.state = ConsumerMemberState.STABLE
            return
        membership.state = ConsumerMemberState.RECONCILING
        self._ask_for_names()

    def take_names(self, names: Mapping[str, str]) -> None:
        """Take names of topics, by their ids."""
        self._names.update((topic_id, name) for topic_id, name in names.items() if topic_id in self._target.partitions)

    def poll(self) -> None:
        """Go on: the application has handled all earlier callbacks and can get more."""
        if self._membership.state is not ConsumerMemberState.RECONCILING:
            return
        if self._next is None and not self._begin():
            return
        if self._final_commit_is_over() and not self._revoke():
            self._assign()

    def acknowledged(self) -> None:
        """Note that a heartbeat tells the coordinator what the member has."""
        complete = self.current == self._target
        self._membership.state = ConsumerMemberState.STABLE if complete else ConsumerMemberState.RECONCILING

    def reset(self) -> None:
        """Have nothing: the place in the group is gone, and the partitions with it."""
        self.current = self._target = NOTHING
        self._names.clear()
        self.interrupt()

    def interrupt(self) -> None:
        """Stop on the way to another assignment: the member leaves."""
        self._next = self._final_commit = None

    @property
    def is_revoking(self) -> bool:
        """True while the commit before a revocation is under way: records processed now might not be in it."""
        return self._final_commit is not None and bool(self._to_revoke())

    # -------------------------------------------------------------------------------------------------- names of topics

    def fire_due(self) -> None:
        if self._waits_for_names() and self._ask_at_ms <= self._membership.now_ms:
            self._ask_for_names()

    def next_deadline_ms(self) -> int | None:
        return self._ask_at_ms if self._waits_for_names() else None

    def _missing(self) -> tuple[str, ...]:
        return tuple(sorted(topic_id for topic_id in self._target.partitions if topic_id not in self._names))

    def _waits_for_names(self) -> bool:
        return self._membership.state is ConsumerMemberState.RECONCILING and bool(self._missing())

    def _ask_for_names(self) -> None:
        missing = self._missing()
        if missing:
            self._ask_at_ms = self._membership.now_ms + self._membership.config.retry_backoff_max_ms
            self._membership.notify(TopicNamesNeeded(topic_ids=missing))

    # --------------------------------------------------------------------------------------------------------- the way

    def _begin(self) -> bool:
        """Set out for the target as far as names are known; False when that is where the member is already."""
        known = {key: partitions for key, partitions in self._target.partitions.items() if key in self._names}
        resolved = LocalAssignment(self._target.number, known)
        if self.current is not NOTHING and known == self.current.partitions:
            if resolved != self.current:
                self.current = resolved
                self._membership.state = ConsumerMemberState.ACKNOWLEDGING
            return False
        self._next = resolved
        self._final_commit = self._commits.commit_positions(self._positions.to_commit())
        self._final_commit_until_ms = self._membership.now_ms + self._membership.config.max_poll_interval_ms
        return True

    def _final_commit_is_over(self) -> bool:
        """Return whether the automatic commit before a reconciliation is answered, or has timed out."""
        waiting = self._final_commit is not None and self._commits.is_open(self._final_commit)
        if waiting and self._membership.now_ms < self._final_commit_until_ms:
            return False
        self._final_commit = None
        return True

    def _next_partitions(self) -> tuple[TopicPartition, ...]:
        partitions = {} if self._next is None else self._next.partitions
        return tuple(
            sorted(TopicPartition(self._names[key], number) for key, items in partitions.items() for number in items)
        )

    def _to_revoke(self) -> tuple[TopicPartition, ...]:
        return self._membership.without(self._next_partitions())

    def _revoke(self) -> bool:
        """Give up what the member must not have any more; False when there is nothing."""
        revoked = self._to_revoke()
        if revoked:
            self._membership.owned = self._membership.without(revoked)
            self._positions.dropped(revoked)
            self._membership.notify(Revoked(partitions=revoked))
        return bool(revoked)

    def _assign(self) -> None:
        membership = self._membership
        assert self._next is not None
        assigned, owned = self._next_partitions(), frozenset(membership.owned)
        added = tuple(partition for partition in assigned if partition not in owned)
        membership.owned = assigned
        self.current, self._next = self._next, None
        wanted = {*self.current.partitions, *self._target.partitions}
        self._names = {topic_id: name for topic_id, name in self._names.items() if topic_id in wanted}
        membership.state = ConsumerMemberState.ACKNOWLEDGING
        self._commits.restart_interval()
        membership.notify(Assigned(partitions=added, generation_id=membership.generation.generation_id))
        self._positions.assigned(added)
