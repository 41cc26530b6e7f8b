"""The cache answers heartbeats with what the coordinator would say, before the coordinator has said it.

Every heartbeat goes to the log all the same; only the client need not wait for its answer. The reasons are in
docs/decisions.md. These rules make it safe:

- A generation ends once: the group goes from Stable to PreparingRebalance and comes back with the next one. A member
  that was told to rejoin, or whose group was published as rebalancing, is told so while it speaks of that generation.
- NONE is answered only to a member of the group as last published, in its generation, if the coordinator itself has
  answered NONE to its heartbeats in this generation, and only while its answers keep coming.
- The cache fences and refuses nobody: the coordinator gives all other answers.
- Members of the classic protocol in a consumer group are the coordinator's to answer: there a member that was told to
  rejoin may come back in the generation that it had.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from group_coordinator.gateway.digests import digest
from group_coordinator.gateway.published_groups import PublishedGroup
from schemas.error_codes import ErrorCode
from schemas.group_states import GroupState
from schemas.messages import HeartbeatRequest

_MEMBERS_MAX = 100_000
_REBALANCING = GroupState.PREPARING_REBALANCE.value
_SETTLED = frozenset({GroupState.COMPLETING_REBALANCE.value, GroupState.STABLE.value})


class _Member(Struct):
    """The coordinator's answers to one member, in its latest generation."""

    generation_id: int
    error_code: ErrorCode | None = None
    """Its last answer; None: there is none yet."""
    unanswered_ms: list[float] = []
    """When the heartbeats were sent that have no answer yet, the oldest first."""


class HeartbeatCache:
    """The cache is pure: the time comes with each call."""

    def __init__(self, published: Callable[[str], PublishedGroup | None], patience_ms: float) -> None:
        """`published` returns a group as last published. `patience_ms` is how long an answer of the coordinator may
        take."""
        self._published = published
        self._patience_ms = patience_ms
        self._members: dict[bytes, _Member] = {}
        """By digest of group and member."""

    def answer(self, request: HeartbeatRequest, now_ms: float) -> ErrorCode | None:
        """Return the answer for a member; None if only the coordinator knows it."""
        member = self._members.get(digest(request.group_id, request.member_id))
        if member is None or member.generation_id != request.generation_id:
            return None
        if member.error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            return None
        if member.unanswered_ms and now_ms - member.unanswered_ms[0] > self._patience_ms:
            return None
        group = self._published(request.group_id)
        if group is None or group.is_consumer_group or group.generation_id != request.generation_id:
            return None
        if not _has(group, request):
            return None
        if member.error_code is ErrorCode.REBALANCE_IN_PROGRESS or group.state == _REBALANCING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE if group.state in _SETTLED else None

    def sent(self, request: HeartbeatRequest, now_ms: float) -> None:
        """Note that a heartbeat has been sent to the coordinator."""
        key = digest(request.group_id, request.member_id)
        member = self._members.get(key)
        if member is None or member.generation_id != request.generation_id:
            self._members.pop(key, None)
            member = self._members[key] = _Member(request.generation_id)
            if len(self._members) > _MEMBERS_MAX:
                del self._members[next(iter(self._members))]
        member.unanswered_ms.append(now_ms)

    def answered(self, request: HeartbeatRequest, error_code: ErrorCode) -> None:
        """Note the coordinator's answer to a heartbeat."""
        member = self._members.get(digest(request.group_id, request.member_id))
        if member is None or member.generation_id != request.generation_id:
            return
        if member.unanswered_ms:
            del member.unanswered_ms[0]
        stays_told = member.error_code is ErrorCode.REBALANCE_IN_PROGRESS and error_code is ErrorCode.NONE
        group = self._published(request.group_id) if stays_told else None
        if not stays_told or (group is not None and group.is_consumer_group):
            member.error_code = error_code


def _has(group: PublishedGroup, request: HeartbeatRequest) -> bool:
    return any(
        member.member_id == request.member_id
        and (request.group_instance_id is None or request.group_instance_id == member.group_instance_id)
        for member in group.members
    )
