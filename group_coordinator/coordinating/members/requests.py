"""Requests on their way: their ids, how long their answers may take, and which answers are still wanted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple
from uuid import UUID, uuid5

from msgspec import Struct

from group_coordinator.coordinating.members.effects import GaveUp, Output, Send
from schemas.messages import NO_GENERATION, Request

API_VERSIONS = {
    "JoinGroup": 9,
    "SyncGroup": 5,
    "Heartbeat": 4,
    "LeaveGroup": 5,
    "ConsumerGroupHeartbeat": 1,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
}
"""The newest versions that name topics by name."""


class Generation(NamedTuple):
    """The member's identity in its requests to the group."""

    generation_id: int = NO_GENERATION
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_lost(self) -> bool:
        """The member has no valid place in the group, so its partitions may belong to others."""
        return self.generation_id == NO_GENERATION or not self.member_id


class PendingRequest(Struct, frozen=True, kw_only=True):
    """A request that has been sent and not been answered."""

    request_id: str
    api: str
    sent_as: Generation
    deadline_ms: int
    tag: int = 0
    """What the sender wants to find again, for example the number of a commit."""


def request_ids(namespace: UUID) -> Iterator[str]:
    """Return unique ids, the same in every run: version 5 UUIDs of 0, 1, 2 ... in a namespace of the member's own."""
    return (str(uuid5(namespace, str(number))) for number in count())


class Requests:
    """Sends requests and matches answers. Each answer is accepted once; a late, double or foreign one is not."""

    def __init__(self, ids: Iterator[str], outputs: list[Output], shard: int) -> None:
        self.shard = shard
        self._ids = ids
        self._outputs = outputs
        self._pending: dict[str, PendingRequest] = {}

    def send(
        self, api: str, request: Request, *, sent_as: Generation, deadline_ms: int, tag: int = 0
    ) -> PendingRequest:
        pending = PendingRequest(request_id=next(self._ids), api=api, sent_as=sent_as, deadline_ms=deadline_ms, tag=tag)
        self._pending[pending.request_id] = pending
        self._outputs.append(
            Send(
                request_id=pending.request_id,
                shard=self.shard,
                api=api,
                api_version=API_VERSIONS[api],
                request=request,
            )
        )
        return pending

    def awaits(self, request_id: str) -> bool:
        return request_id in self._pending

    def answered(self, request_id: str) -> PendingRequest | None:
        """Return the request that this answer is for; None if no request waits for it."""
        return self._pending.pop(request_id, None)

    def overdue(self, now_ms: int) -> list[PendingRequest]:
        """Give up the requests whose answers have not come in time, oldest first."""
        timed_out = [pending for pending in self._pending.values() if pending.deadline_ms <= now_ms]
        for pending in timed_out:
            self._time_out(pending)
        return timed_out

    def cancel_all(self) -> None:
        """Give up all requests."""
        for pending in list(self._pending.values()):
            self._time_out(pending)

    def give_up(self, pending: PendingRequest) -> None:
        """Give up this request, if it waits for its answer."""
        if pending.request_id in self._pending:
            self._time_out(pending)

    def cancel(self, *apis: str) -> None:
        """Give up the requests of these APIs."""
        for pending in [pending for pending in self._pending.values() if pending.api in apis]:
            self._time_out(pending)

    def in_flight(self, *apis: str) -> bool:
        return any(pending.api in apis for pending in self._pending.values())

    def next_deadline_ms(self) -> int | None:
        return min((pending.deadline_ms for pending in self._pending.values()), default=None)

    def _time_out(self, pending: PendingRequest) -> None:
        del self._pending[pending.request_id]
        self._outputs.append(GaveUp(request_id=pending.request_id, api=pending.api))
