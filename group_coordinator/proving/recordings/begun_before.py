"""The replay of a group can start later than its first event: at the end of a join phase that the log shows completely.

A log that was cut from a longer one meets groups with members that joined before it, and one with lines missing loses
track of a group. What the group is becomes known when a join phase ends whose leader's answer is in the log: it lists
all members, and each one's JoinGroup says the rest. What came before cannot be compared.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coordinator_state import GroupConfig, GroupCoordinator, RecordedEvent, encode_group
from group_coordinator.proving.recordings.expectations import LATE_MS
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.proving.recordings.replay_state import START, State
from group_coordinator.watching.observed.offsets_log import CommitRecord, LogRecord
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.messages import (
    NO_OFFSET,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from schemas.recorded import RecordedGroup, RecordedMember, RecordedOffset
from schemas.records import group_metadata

_UNKNOWN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND})
NEW_GROUP_EPOCH = 2
"""The epoch of the first member of a new consumer group that subscribes to something."""


class Beginning(Struct, frozen=True):
    """The point at which the replay of a group starts."""

    from_us: int
    """Requests that were handled before cannot be compared."""
    group: RecordedGroup

    def state(self, group_id: str, config: GroupConfig) -> State:
        """Return the group at this time, from which a replay goes on."""
        coordinator, now_ms = GroupCoordinator(group_id, config), self.from_us // 1000
        coordinator.handle(RecordedEvent(-1, now_ms, now_ms, self.group))
        assert coordinator.group is not None
        return replace(START, blobs=encode_group(coordinator.group), clock_ms=now_ms, state_slack_ms=LATE_MS)


def begun_before(requests: Sequence[GroupRequest], new_group_epoch: int = NEW_GROUP_EPOCH) -> bool:
    """Return whether the group is older than the log: a member is known that never joined, or the first generation is
    not 1, or the first epoch not that of a new group once somebody has joined it (`new_group_epoch`)."""
    first_joins_us: dict[str, int] = {}
    joins: list[tuple[int, int, int]] = []
    for request in requests:
        if not (member_id := _joined(request)):
            continue
        is_classic, ready_us = isinstance(request.request, JoinGroupRequest), request.logged.ready_us
        known_us = ready_us if is_classic else request.logged.handled_us
        first_joins_us[member_id] = min(known_us, first_joins_us.get(member_id, known_us))
        if request.response.get("errorCode") == ErrorCode.NONE:
            generation = request.response["generationId"] if is_classic else 0
            epochs_before = generation - 1 if is_classic else int(request.response["memberEpoch"]) - new_group_epoch
            joins.append((ready_us, request.logged.arrival_us, epochs_before))
    # Of joins that waited together any may be answered first: the lowest of their numbers was the first one's.
    first_ready_us = min(joins, default=(0,))[0]
    if min((before for _, arrival_us, before in joins if arrival_us <= first_ready_us), default=0) > 0:
        return True
    return any(
        request.logged.handled_us < first_joins_us.get(member_id, 2**62) and _was_known(request)
        for request in requests
        if (member_id := getattr(request.request, "member_id", None))
    )


def _joined(request: GroupRequest) -> str | None:
    """Return the member that joins by a request, as far as the answer names it."""
    body = request.request
    if isinstance(body, JoinGroupRequest):
        return request.response.get("memberId")
    if isinstance(body, ConsumerGroupHeartbeatRequest) and body.member_epoch == JOIN_EPOCH:
        return request.response.get("memberId") or body.member_id
    return None


def _was_known(request: GroupRequest) -> bool:
    """Return whether the broker's answer shows that it knew the member."""
    codes = request.error_codes
    return bool(codes) and not codes & _UNKNOWN and not isinstance(request.request, OffsetFetchRequest)


def beginning_after(
    after_us: int, requests: Sequence[GroupRequest], records: Sequence[LoggedRecord]
) -> Beginning | None:
    """Return the end of the first join phase after a time that the log tells completely; None if there is none.

    `records`: those of the offsets log, if it is there.
    """
    joins: dict[str, list[GroupRequest]] = {}
    for request in requests:
        if request.logged.api == "JoinGroup" and (member_id := request.response.get("memberId")):
            joins.setdefault(str(member_id), []).append(request)
    for answer in sorted(_leaders(requests), key=lambda request: request.logged.ready_us):
        listed = {str(member["memberId"]): member for member in answer.response["members"]}
        last_joins = {member_id: _last_join(answer, joins.get(member_id, ())) for member_id in listed}
        if None not in last_joins.values():
            joins_completed = [join for join in last_joins.values() if join is not None]
            from_us = min(join.logged.ready_us for join in joins_completed)
            if from_us <= after_us:
                continue
            members = tuple(
                _member(answer, listed[member_id], join)
                for member_id, join in zip(listed, joins_completed, strict=True)
            )
            group = RecordedGroup(
                generation_id=int(answer.response["generationId"]),
                protocol_type=getattr(joins_completed[0].request, "protocol_type", "") or "",
                protocol_name=str(answer.response["protocolName"]),
                leader_id=str(answer.response["leader"]),
                members=_with_first_clients(members, records),
                offsets=_offsets(requests, records, from_us),
            )
            if group.problem() is None:
                return Beginning(from_us, group)
    return None


def _leaders(requests: Sequence[GroupRequest]) -> Iterator[GroupRequest]:
    """The answers that end a join phase.

    One that says `skipAssignment` tells a static leader of the generation that goes on.
    """
    for request in requests:
        answer = request.response
        if request.logged.api == "JoinGroup" and answer.get("members") and not answer.get("skipAssignment"):
            yield request


def _last_join(answer: GroupRequest, joins: Sequence[GroupRequest]) -> GroupRequest | None:
    """The JoinGroup of a member that was answered as the leader's was: by the end of the same join phase."""
    generation, ready_us = answer.response["generationId"], answer.logged.ready_us
    for join in joins:
        is_same_phase = (
            join.response.get("errorCode") == ErrorCode.NONE and join.response.get("generationId") == generation
        )
        if is_same_phase and abs(join.logged.ready_us - ready_us) <= LATE_MS * 1000:
            return join
    return None


def _member(answer: GroupRequest, listed: Mapping[str, Any], join: GroupRequest) -> RecordedMember:
    join_request, protocol_name = join.request, answer.response["protocolName"]
    assert isinstance(join_request, JoinGroupRequest)
    timeout_ms = join_request.session_timeout_ms
    metadata = b64decode(listed["metadata"])
    return RecordedMember(
        member_id=str(listed["memberId"]),
        group_instance_id=join_request.group_instance_id,
        client_id=join.logged.client_id,
        client_host=join.logged.client_host,
        session_timeout_ms=timeout_ms,
        rebalance_timeout_ms=timeout_ms if join_request.rebalance_timeout_ms < 0 else join_request.rebalance_timeout_ms,
        protocols=tuple(
            replace(protocol, metadata=metadata) if protocol.name == protocol_name else protocol
            for protocol in join_request.protocols
        ),
    )


def _with_first_clients(
    members: tuple[RecordedMember, ...], records: Sequence[LoggedRecord]
) -> tuple[RecordedMember, ...]:
    """A static member has the client id of the first that had its place; only the offsets log still knows it."""
    members_by_id = {
        member.member_id: member
        for record in records
        if isinstance(entry := record.decoded(), LogRecord) and entry.name == "GroupMetadata" and entry.value
        for member in group_metadata(entry.value).members
    }
    return tuple(
        replace(
            member,
            client_id=members_by_id[member.member_id].client_id,
            client_host=members_by_id[member.member_id].client_host,
        )
        if member.member_id in members_by_id
        else member
        for member in members
    )


# -------------------------------------------------------------------------------------------------------------- offsets

_Places = dict[tuple[str, int], RecordedOffset]


def _offsets(
    requests: Sequence[GroupRequest], records: Sequence[LoggedRecord], from_us: int
) -> tuple[RecordedOffset, ...]:
    """Return the offsets committed before: by the offsets log, else by the broker's answers."""
    offsets: _Places = {}
    for record in records:
        if record.timestamp_ms < from_us // 1000:
            entry = record.decoded()
            if isinstance(entry, CommitRecord):
                key, value = entry.key, entry.value
                if value is not None:
                    _put(offsets, key.topic, key.partition, value.offset, value.leader_epoch, value.metadata)
                else:
                    offsets.pop((key.topic, key.partition), None)
    partitions_seen = set(offsets)
    for request in requests:
        if isinstance(request.request, OffsetFetchRequest):
            _learn(offsets, request, partitions_seen)
        elif isinstance(request.request, OffsetCommitRequest):
            accepted = _accepted_partitions(request)
            for topic in request.request.topics:
                for partition in topic.partitions:
                    place = topic.name, partition.partition_index
                    partitions_seen.add(place)
                    if request.logged.handled_us < from_us and not records and place in accepted:
                        _put(
                            offsets,
                            *place,
                            partition.committed_offset,
                            partition.committed_leader_epoch,
                            partition.committed_metadata or "",
                        )
    return tuple(offsets.values())


def _accepted_partitions(commit: GroupRequest) -> set[tuple[str, int]]:
    """The partitions whose commit the broker took."""
    assert isinstance(commit.request, OffsetCommitRequest)
    topics = zip(commit.request.topics, commit.response.get("topics", ()), strict=False)
    return {
        (topic.name, partition["partitionIndex"])
        for topic, answered_topic in topics
        for partition in answered_topic.get("partitions", ())
        if partition.get("errorCode") == ErrorCode.NONE
    }


def _learn(offsets: _Places, request: GroupRequest, partitions_seen: set[tuple[str, int]]) -> None:
    """Take the offset committed before from the first answer about a partition."""
    answer = request.response["groups"][0] if "groups" in request.response else request.response
    for topic in answer.get("topics", ()):
        for partition in topic.get("partitions", ()):
            place = topic.get("name", ""), partition["partitionIndex"]
            if place not in partitions_seen and partition["committedOffset"] != NO_OFFSET:
                partitions_seen.add(place)
                _put(
                    offsets,
                    *place,
                    partition["committedOffset"],
                    partition.get("committedLeaderEpoch", -1),
                    partition.get("metadata") or "",
                )


def _put(offsets: _Places, topic: str, partition: int, offset: int, leader_epoch: int, metadata: str) -> None:
    offsets[topic, partition] = RecordedOffset(
        topic=topic, partition=partition, offset=offset, leader_epoch=leader_epoch, metadata=metadata
    )
