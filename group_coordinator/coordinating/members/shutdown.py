"""A member that closes commits, releases its partitions and leaves.

Source: `close` of Kafka's `ConsumerCoordinator` and `AsyncKafkaConsumer`.
"""

from __future__ import annotations

from collections.abc import Callable

from group_coordinator.coordinating.members.commits import Commits
from group_coordinator.coordinating.members.effects import Closed, Lost, Revoked
from group_coordinator.coordinating.members.leaving import Leaving
from group_coordinator.coordinating.members.membership import Membership
from group_coordinator.coordinating.members.positions import Positions


class Shutdown:
    """The last steps of a member; together they wait for no longer than `request.timeout.ms`.

    `leave`: leaves the group, as far as that is asked for (None: as is usual), and forgets the place in it.
    """

    def __init__(
        self,
        membership: Membership,
        commits: Commits,
        positions: Positions,
        leaving: Leaving,
        leave: Callable[[bool | None], None],
    ) -> None:
        self.begun = False
        self.done = False
        self._membership = membership
        self._commits = commits
        self._positions = positions
        self._leaving = leaving
        self._leave = leave
        self._leave_group: bool | None = None
        self._has_released = False
        self._release_processed = False
        self._has_left = False
        self._until_ms = 0

    def begin(self, leave_group: bool | None) -> None:
        """Commit automatically if that is configured, then go on."""
        if self.begun:
            return
        membership = self._membership
        self.begun = True
        self._leave_group = leave_group
        self._until_ms = membership.now_ms + membership.config.request_timeout_ms
        self._commits.commit_positions(self._positions.to_commit())

    def go_on(self) -> None:
        """Take the next step if the last one has been answered or waited for long enough."""
        if not self.begun or self.done:
            return
        membership = self._membership
        out_of_time = self._until_ms <= membership.now_ms
        if self._commits.any_open and not out_of_time:
            return
        if not self._has_released:
            self._has_released = True
            self._release_processed = not self.release_all()
        if not self._has_left:
            if not self._release_processed and not out_of_time:
                return
            self._has_left = True
            self._leave(self._leave_group)
        if self._leaving.any_open and not out_of_time:
            return
        self._leaving.abandon()
        membership.requests.cancel("OffsetCommit", "OffsetFetch")
        self.done = True
        membership.notify(Closed())

    def polled(self) -> None:
        """Go on closing: the application has handled its callbacks and has let go of revoked partitions."""
        self._release_processed = self._has_released

    def next_deadline_ms(self) -> int | None:
        return self._until_ms if self.begun and not self.done else None

    def release_all(self) -> bool:
        """Release all partitions: revoked, or lost if the member has lost its place. False if there were none."""
        membership = self._membership
        partitions, membership.owned = membership.owned, ()
        self._positions.dropped(partitions)
        if partitions:
            lost = membership.generation.is_lost
            membership.notify(Lost(partitions=partitions) if lost else Revoked(partitions=partitions))
        return bool(partitions)
