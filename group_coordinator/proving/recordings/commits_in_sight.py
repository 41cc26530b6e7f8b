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
from schemas.messages import (
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

_NEVER_US = 2**62
_ROUNDING_US = 1_000
_STORE = frozenset({"JoinGroup", "SyncGroup", "OffsetCommit", "ConsumerGroupHeartbeat"})
DESCRIBE = frozenset({"DescribeGroups", "ConsumerGroupDescribe"})
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
        self._assigning_us: list[tuple[int, int]] = []
        self._rebalancing_us: list[int] = []
        self._static_joins_us: dict[str, list[int]] = {}
        for request in requests:
            body, logged = request.request, request.logged
            if isinstance(body, SyncGroupRequest) and body.assignments:
                self._assigning_us.append((logged.arrival_us, logged.ready_us))
            if isinstance(body, JoinGroupRequest | LeaveGroupRequest) and request.set_aside is None:
                self._rebalancing_us.append(logged.handled_us)
            if isinstance(body, JoinGroupRequest) and body.group_instance_id is not None:
                self._static_joins_us.setdefault(body.group_instance_id, []).append(logged.arrival_us)
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
        return describe.logged.handled_us < self._stored_us and tells_no_group(broker)

    def may_be_assigning(self, describe: GroupRequest, broker: Json, here: Json) -> bool:
        """Return whether the broker described the group while replicas did not have its assignment yet: all is as here,
        but that the group is not stable yet."""
        logged = describe.logged
        is_assigning = any(
            us <= logged.ready_us and logged.arrival_us <= until_us for us, until_us in self._assigning_us
        )
        return is_assigning and _assigned(broker) == _assigned(here)

    def _is_overtaken(self, sync: GroupRequest) -> bool:
        """Return whether a rebalance began while the assignment that a leader sent was being stored: it is refused."""
        body, logged = sync.request, sync.logged
        return (
            isinstance(body, SyncGroupRequest)
            and sync.error_codes == {ErrorCode.REBALANCE_IN_PROGRESS}
            and any(
                us <= logged.ready_us and logged.arrival_us <= until_us and us < began_us <= until_us + _ROUNDING_US
                for us, until_us in self._assigning_us
                for began_us in self._rebalancing_us
            )
        )

    def is_refused_meanwhile(self, request: GroupRequest) -> bool:
        """Return whether a request was refused for what came while replicas did not have yet what it led to."""
        return self._is_fenced(request) or self._is_overtaken(request)

    def explains(self, request: GroupRequest, broker: Json, here: Json) -> bool:
        """Return whether two answers to a fetch or a describe differ only in what may not have been seen yet."""
        if isinstance(request.request, OffsetFetchRequest):
            return self.may_be_seen(request, broker, here)
        if request.logged.api not in DESCRIBE:
            return False
        may_be_assigning = request.logged.api == "DescribeGroups" and self.may_be_assigning(request, broker, here)
        return may_be_assigning or self.may_be_absent(request, broker)

    def _is_fenced(self, join: GroupRequest) -> bool:
        """Return whether a static member was fenced by its own next JoinGroup while its place was being stored: the
        broker answers the first one only after that."""
        body, logged = join.request, join.logged
        return (
            isinstance(body, JoinGroupRequest)
            and join.error_codes == {ErrorCode.FENCED_INSTANCE_ID}
            and join.new_member_id is not None
            and any(
                logged.arrival_us < us <= logged.ready_us
                for us in self._static_joins_us.get(body.group_instance_id or "", ())
            )
        )

    def _is_in_sight(self, fetch: GroupRequest, place: Place, partition: Json) -> bool:
        if partition.get("errorCode"):
            return False
        commits = self._commits.get(place, ())
        seen = [commit for commit in commits if commit.until_us <= fetch.logged.arrival_us]
        in_sight = [commit for commit in commits if commit.from_us <= fetch.logged.ready_us and commit not in seen]
        return bool(in_sight) and partition["committedOffset"] in {commit.offset for commit in (*seen[-1:], *in_sight)}


def tells_no_group(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer to a describe tells of groups that are not there."""
    return all(
        group.get("groupState") == "Dead" or group.get("errorCode") == ErrorCode.GROUP_ID_NOT_FOUND
        for group in answer["groups"]
    )


def _assigned(answer: Json) -> list[Json]:
    """Return groups as a broker describes them that have no assignment yet."""
    return [
        group | {
            "groupState": "CompletingRebalance" if group.get("groupState") == "Stable" else group.get("groupState"),
            "protocolData": "",
            "members": [member | {"memberMetadata": "", "memberAssignment": ""} for member in group["members"]],
        }
        for group in answer["groups"]
    ]  # fmt: skip


def partitions_of(answer: Mapping[str, Any]) -> Iterator[tuple[Place, Json]]:
    """Yield the partitions of an answer to a fetch of offsets."""
    for group in answer.get("groups", (answer,)):
        for topic in group.get("topics", ()):
            for partition in topic.get("partitions", ()):
                yield (topic.get("name", ""), partition["partitionIndex"]), partition
