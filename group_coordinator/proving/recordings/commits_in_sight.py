"""A committed offset is seen as soon as replicas have its record: until then a fetch is answered with the one before.

A request log has both ends of that time: when the broker took a commit, and when it answered it. One whose replicas did
not follow in time was answered with an error; it is seen later, or (before Kafka 4) when the group is loaded again.
So it is with the group itself: a broker describes what replicas have of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from group_coordinator.proving.recordings.group_requests import GroupRequest
from schemas.error_codes import ErrorCode
from schemas.messages import OffsetCommitRequest

_NEVER_US = 2**62
_STORE = frozenset({"JoinGroup", "SyncGroup", "OffsetCommit", "ConsumerGroupHeartbeat"})
Json = dict[str, Any]
Place = tuple[str, int]


class _Commit(Struct, frozen=True):
    """An offset that was committed."""

    from_us: int
    """The broker may have had it since then."""
    until_us: int
    """It was seen by then."""
    offset: int


class CommitsInSight:
    """The commits of one group, and which of them a fetch may be answered with."""

    def __init__(self, requests: Iterable[GroupRequest] = ()) -> None:
        self._commits: dict[Place, list[_Commit]] = {}
        self._stored_us = _NEVER_US
        for request in requests:
            body, logged = request.request, request.logged
            if logged.api in _STORE and request.error_codes == {ErrorCode.NONE}:
                self._stored_us = min(self._stored_us, logged.ready_us)
            if isinstance(body, OffsetCommitRequest) and request.set_aside is None:
                until_us = _NEVER_US if request.write_timed_out else logged.ready_us
                for topic in body.topics:
                    for partition in topic.partitions:
                        commit = _Commit(logged.arrival_us, until_us, partition.committed_offset)
                        self._commits.setdefault((topic.name, partition.partition_index), []).append(commit)
        for commits in self._commits.values():
            commits.sort(key=lambda commit: commit.from_us)

    def may_be_seen(self, fetch: GroupRequest, broker: Json, here: Json) -> bool:
        """Return whether two answers to a fetch differ only in commits that may not have been seen yet."""
        told, own = dict(partitions_of(broker)), dict(partitions_of(here))
        return told.keys() == own.keys() and all(
            partition == own[place] or self._is_in_sight(fetch, place, partition) for place, partition in told.items()
        )

    def may_be_absent(self, describe: GroupRequest, broker: Json) -> bool:
        """Return whether the broker did not describe the group because replicas had nothing of it yet: no answer shows
        that they had."""
        return describe.logged.handled_us < self._stored_us and all(
            group.get("groupState") == "Dead" or group.get("errorCode") == ErrorCode.GROUP_ID_NOT_FOUND
            for group in broker["groups"]
        )

    def _is_in_sight(self, fetch: GroupRequest, place: Place, partition: Json) -> bool:
        if partition.get("errorCode"):
            return False
        commits = self._commits.get(place, ())
        seen = [commit for commit in commits if commit.until_us <= fetch.logged.arrival_us]
        in_sight = [commit for commit in commits if commit.from_us <= fetch.logged.ready_us and commit not in seen]
        return bool(in_sight) and partition["committedOffset"] in {commit.offset for commit in (*seen[-1:], *in_sight)}


def partitions_of(answer: Mapping[str, Any]) -> Iterator[tuple[Place, Json]]:
    """Yield the partitions of an answer to a fetch of offsets."""
    for group in answer.get("groups", (answer,)):
        for topic in group.get("topics", ()):
            for partition in topic.get("partitions", ()):
                yield (topic.get("name", ""), partition["partitionIndex"]), partition
