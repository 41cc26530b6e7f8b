"""A member tells the coordinator that it leaves, and repeats it if the request did not arrive.

Kafka's Java consumer says it once and lets the error be; then a leave that meets another shard than the group's leaves
the others waiting for a session timeout. Here it is said again, as franz-go does, for as long as a request may take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from group_coordinator.coordinating.members.commits import Commits
from group_coordinator.coordinating.members.effects import Closed, Lost, Revoked
from group_coordinator.coordinating.members.membership import (
    REASON_LENGTH_MAX,
    ClassicMembership,
    Membership,
    MemberState,
)
from group_coordinator.coordinating.members.positions import Positions
from group_coordinator.coordinating.members.requests import PendingRequest
from schemas.error_codes import ErrorCode
from schemas.messages import LeaveGroupMember, LeaveGroupRequest, Request


@dataclass(slots=True)
class _Leave:
    """A request to leave that is not answered for good."""

    api: str
    request: Request
    give_up_ms: int
    attempts: int = 0
    retry_at_ms: int | None = None


class Leaving:
    """One member's leaves: it may leave, join anew and leave again before the first is answered."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._ids = count(1)
        self._open_leaves: dict[int, _Leave] = {}

    def leave(self, api: str, request: Request) -> None:
        """Leave with this request. What the answer says of the member changes nothing: it is gone."""
        membership = self._membership
        number = next(self._ids)
        self._open_leaves[number] = _Leave(api, request, membership.now_ms + membership.config.request_timeout_ms)
        self._send(number)

    @property
    def any_open(self) -> bool:
        return bool(self._open_leaves)

    def on_response(self, pending: PendingRequest, error_code: ErrorCode) -> None:
        membership = self._membership
        leave = self._open_leaves.get(pending.tag)
        if leave is None:
            return
        if not error_code.retriable:
            del self._open_leaves[pending.tag]
            return
        membership.note_error(error_code)
        leave.retry_at_ms = membership.now_ms + membership.config.backoff_ms(leave.attempts)
        leave.attempts += 1
        if leave.retry_at_ms >= leave.give_up_ms:
            del self._open_leaves[pending.tag]

    def on_timeout(self, pending: PendingRequest) -> None:
        """Note that there is no answer. The request may have arrived all the same."""
        self._open_leaves.pop(pending.tag, None)

    def fire_due(self) -> None:
        """Send the request again if it is due."""
        for number, leave in self._open_leaves.items():
            if leave.retry_at_ms is not None and leave.retry_at_ms <= self._membership.now_ms:
                self._send(number)

    def next_deadline_ms(self) -> int | None:
        return min(
            (leave.retry_at_ms for leave in self._open_leaves.values() if leave.retry_at_ms is not None), default=None
        )

    def abandon(self) -> None:
        """Send nothing more: the member has ended, or it has joined again under its id."""
        apis = {leave.api for leave in self._open_leaves.values()}
        self._open_leaves.clear()
        self._membership.requests.cancel(*apis)

    def _send(self, number: int) -> None:
        leave = self._open_leaves[number]
        leave.retry_at_ms = None
        wait_ms = leave.give_up_ms - self._membership.now_ms
        self._membership.send(leave.api, leave.request, timeout_ms=wait_ms, tag=number)


def leave_group(membership: ClassicMembership, leaving: Leaving, reason: str) -> None:
    """Leave with LeaveGroup, if the coordinator knows the member."""
    if membership.state is MemberState.UNJOINED or not membership.generation.member_id:
        return
    leaver = LeaveGroupMember(
        member_id=membership.generation.member_id,
        group_instance_id=membership.config.group_instance_id,
        reason=reason[:REASON_LENGTH_MAX],
    )
    leaving.leave("LeaveGroup", LeaveGroupRequest(group_id=membership.config.group_id, members=(leaver,)))


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
