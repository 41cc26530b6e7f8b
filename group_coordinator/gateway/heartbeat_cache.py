"""Heartbeats answered at the door: what a member would be told, known before the coordinator has said it.

Every heartbeat goes to the log all the same; only the client need not wait for what comes back. Why it is safe is in
docs/decisions.md; what it stands on:

- A generation has its end once: the group goes from Stable to PreparingRebalance and comes back with the next one. Who
  was told, or published, to be rebalancing in a generation is told so for as long as it speaks of that generation.
- All is well is said only to a member of the group as last published, in its generation, to whose heartbeat the
  coordinator itself has said so in this generation, and only while its answers keep coming.
- Nobody is fenced or refused at the door: whatever else there is to say, the coordinator says it.
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
    """What the coordinator has said to one member, in the generation of which it last spoke."""

    generation_id: int
    error_code: ErrorCode | None = None
    """Its last answer; None: there is none yet."""
    unanswered_ms: list[float] = []
    """When the heartbeats were sent that have no answer yet, the oldest first."""


class HeartbeatCache:
    """What members are told at the door. Pure: time comes with each call."""

    def __init__(self, published: Callable[[str], PublishedGroup | None], patience_ms: float) -> None:
        """`published`: a group as last published. `patience_ms`: how long an answer of the coordinator may take."""
        self._published = published
        self._patience_ms = patience_ms
        self._members: dict[bytes, _Member] = {}
        """By digest of group and member."""

    def answer(self, request: HeartbeatRequest, now_ms: float) -> ErrorCode | None:
        """What to tell a member at once; None: what the coordinator will say."""
        member = self._members.get(digest(request.group_id, request.member_id))
        if member is None or member.generation_id != request.generation_id:
            return None
        if member.error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            return None
        if member.unanswered_ms and now_ms - member.unanswered_ms[0] > self._patience_ms:
            return None
        group = self._published(request.group_id)
        if group is None or group.generation_id != request.generation_id or not _has(group, request):
            return None
        if member.error_code is ErrorCode.REBALANCE_IN_PROGRESS or group.state == _REBALANCING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE if group.state in _SETTLED else None

    def sent(self, request: HeartbeatRequest, now_ms: float) -> None:
        """A heartbeat is on its way to the coordinator."""
        key = digest(request.group_id, request.member_id)
        member = self._members.get(key)
        if member is None or member.generation_id != request.generation_id:
            self._members.pop(key, None)
            member = self._members[key] = _Member(request.generation_id)
            if len(self._members) > _MEMBERS_MAX:
                del self._members[next(iter(self._members))]
        member.unanswered_ms.append(now_ms)

    def answered(self, request: HeartbeatRequest, error_code: ErrorCode) -> None:
        """What the coordinator has said to it."""
        member = self._members.get(digest(request.group_id, request.member_id))
        if member is None or member.generation_id != request.generation_id:
            return
        if member.unanswered_ms:
            del member.unanswered_ms[0]
        if member.error_code is not ErrorCode.REBALANCE_IN_PROGRESS or error_code is not ErrorCode.NONE:
            member.error_code = error_code


def _has(group: PublishedGroup, request: HeartbeatRequest) -> bool:
    return any(
        member.member_id == request.member_id
        and (request.group_instance_id is None or request.group_instance_id == member.group_instance_id)
        for member in group.members
    )
