"""The size of an answer is expected to be that of the last answer to such a request about the same group."""

from __future__ import annotations

from group_coordinator.ground.digests import digest
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest
from schemas.messages import DescribeGroupsRequest, OffsetFetchRequest

SIZED = (DescribeGroupsRequest, ConsumerGroupDescribeRequest, OffsetFetchRequest)
"""Requests whose answers may be long. Other answers are about as long as their requests."""

_SIZES_MAX = 20_000
UNKNOWN_BYTES = 16_384
"""The size that is expected of a group of which nothing is known."""
_ASKED_BYTES = 1_048_576
"""The size that is expected while the first answer is awaited: a thousand requests before it must not seem cheap."""


class AnswerSizes:
    """The sizes are in bytes, as the coordinator wrote the answers."""

    def __init__(self) -> None:
        self._sizes: dict[bytes, int | None] = {}
        """By digest of API and group, the least lately used first. None: the first answer is awaited."""

    def expect(self, api: str, group_id: str) -> int:
        """Return the expected size for one more request, and count the request."""
        key = digest(api, group_id)
        is_new = key not in self._sizes
        last_size = self._sizes.pop(key, None)
        self._keep(key, last_size)
        return last_size if last_size is not None else UNKNOWN_BYTES if is_new else _ASKED_BYTES

    def learn(self, api: str, group_id: str, size: int) -> None:
        """Learn from the size of an answer."""
        key = digest(api, group_id)
        self._sizes.pop(key, None)
        self._keep(key, size)

    def last(self, api: str, group_id: str) -> int | None:
        """Return the size of the last answer; None if it is unknown."""
        return self._sizes.get(digest(api, group_id))

    def _keep(self, key: bytes, size: int | None) -> None:
        self._sizes[key] = size
        if len(self._sizes) > _SIZES_MAX:
            del self._sizes[next(iter(self._sizes))]
