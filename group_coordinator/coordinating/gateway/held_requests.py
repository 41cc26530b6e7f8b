"""The number of one member's requests under way is bounded, where its answers may be far longer than they are.

JoinGroups and SyncGroups take no room of what may be under way, since others of the group may wait for them; and each
can be answered with all that a group's members have said about themselves. A ConsumerGroupHeartbeat can be answered
with all that the member owns. An honest member has one of them under way, and few more where its connections break.
"""

from __future__ import annotations

from group_coordinator.ground.digests import digest
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.messages import JoinGroupRequest, SyncGroupRequest

EACH_MAX = 8
HeldRequest = JoinGroupRequest | SyncGroupRequest | ConsumerGroupHeartbeatRequest


class HeldRequests:
    """One for a gateway. It keeps nothing about members without a request under way."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, int] = {}
        """By digest of group and member."""

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, key: bytes | None) -> bool:
        """Return whether one more may be sent; `end` is due after its answer."""
        if key is None:
            return True
        count = self._under_way.get(key, 0)
        if count >= EACH_MAX:
            return False
        self._under_way[key] = count + 1
        return True

    def end(self, key: bytes | None) -> None:
        """Stop counting a request that has its answer."""
        if key is None:
            return
        count = self._under_way[key] - 1
        if count:
            self._under_way[key] = count
        else:
            del self._under_way[key]


def key_of(request: HeldRequest) -> bytes | None:
    """Return a key of the member that sent the request; None for a member without an id."""
    if request.member_id:
        return digest(request.group_id, request.member_id)
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        instance_id = request.instance_id
    else:
        instance_id = request.group_instance_id
    if instance_id is not None:
        return digest(request.group_id, None, instance_id)
    return None
