"""Groups that lived before their log began: where a replay of them can start.

A log that was cut from a longer one meets groups with members that joined before it. What they were is not known until a
join phase ends whose leader's answer is in the log: it lists all members, and each one's JoinGroup says the rest. The
replay starts there; what came before cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from coordinator_state import Group, GroupConfig, GroupCoordinator, GroupState, RequestEvent, encode_group
from coordinator_state.group import Member
from coordinator_state.offsets import CommittedOffset
from recordings.expectations import LATE_MS
from recordings.group_replay import START, State
from recordings.group_requests import GroupRequest
from recordings.offsets_log import LoggedRecord
from schemas.error_codes import ErrorCode
from schemas.messages import (
    NO_OFFSET,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Request,
)
from schemas.records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, decode_record

_UNKNOWN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class Beginning(Struct, frozen=True):
    """Where the replay of a group starts."""

    from_us: int
    """Requests that were handled before cannot be compared."""
    state: State
    generation: int


def begun_before(requests: Sequence[GroupRequest]) -> bool:
    """Whether the group had a life before the log: a member speaks that nobody saw join, or the first generation is not 1."""
    joined: dict[str, int] = {}
    first_generation: tuple[int, int] | None = None
    for request in requests:
        if isinstance(request.request, JoinGroupRequest) and (member_id := request.response.get("memberId")):
            ready_us = request.logged.ready_us
            joined[member_id] = min(ready_us, joined.get(member_id, ready_us))
            if request.response.get("errorCode") == ErrorCode.NONE:
                generation = ready_us, int(request.response["generationId"])
                first_generation = min(first_generation or generation, generation)
    if first_generation is not None and first_generation[1] > 1:
        return True
    return any(
        request.logged.handled_us < joined.get(member_id, 2**62) and _was_known(request)
        for request in requests
        if (member_id := _speaker(request.request))
    )


def _speaker(request: Request) -> str:
    return getattr(request, "member_id", None) or ""


def _was_known(request: GroupRequest) -> bool:
    """Whether the broker's answer shows that it knew the member."""
    answer = request.response
    partitions = [partition for topic in answer.get("topics", ()) for partition in topic.get("partitions", ())]
    codes = {answer.get("errorCode"), *(partition.get("errorCode") for partition in partitions)} - {None}
    return bool(codes) and not codes & _UNKNOWN and not isinstance(request.request, OffsetFetchRequest)


def beginning_of(
    group_id: str, config: GroupConfig, requests: Sequence[GroupRequest], records: Sequence[LoggedRecord]
) -> Beginning | None:
    """The end of the first join phase that the log tells completely; None if there is none."""
    for answer in sorted(_leaders(requests), key=lambda request: request.logged.ready_us):
        generation = int(answer.response["generationId"])
        joins = _joins(requests, generation)
        listed = [str(each["memberId"]) for each in answer.response["members"]]
        if all(member_id in joins for member_id in listed):
            ordered = [joins[member_id] for member_id in listed]
            from_us = min(join.logged.ready_us for join in ordered)
            group = _group(group_id, answer, ordered, from_us // 1000)
            _name_clients(group, records)
            _put_offsets(group, requests, records, from_us)
            return Beginning(from_us, _completed(group, config, ordered, from_us // 1000), generation)
    return None


def _leaders(requests: Sequence[GroupRequest]) -> Iterator[GroupRequest]:
    for request in requests:
        if request.logged.api == "JoinGroup" and request.response.get("members"):
            yield request


def _joins(requests: Sequence[GroupRequest], generation: int) -> dict[str, GroupRequest]:
    """The joins that were answered with a generation, by member."""
    return {
        str(request.response["memberId"]): request
        for request in requests
        if request.logged.api == "JoinGroup"
        and request.response.get("errorCode") == ErrorCode.NONE
        and request.response["generationId"] == generation
    }


def _group(group_id: str, answer: GroupRequest, joins: Sequence[GroupRequest], now_ms: int) -> Group:
    """The group as if it had been stable with these members one generation before: their joins then make the next."""
    request = answer.request
    assert isinstance(request, JoinGroupRequest)
    group = Group(
        group_id=group_id,
        epoch=0,
        now_ms=now_ms,
        timestamp_ms=now_ms,
        state=GroupState.STABLE,
        previous_state=GroupState.COMPLETING_REBALANCE,
        state_since_ms=now_ms,
        protocol_name=answer.response["protocolName"],
        generation_id=int(answer.response["generationId"]) - 1,
        leader_id=str(answer.response["leader"]),
        elected_leader_id=str(answer.response["leader"]),
    )
    for join in joins:
        asked = join.request
        assert isinstance(asked, JoinGroupRequest)
        timeout_ms = asked.session_timeout_ms
        member = Member(
            member_id=str(join.response["memberId"]),
            group_instance_id=asked.group_instance_id,
            client_id=join.logged.client_id,
            client_host=join.logged.client_host,
            session_timeout_ms=timeout_ms,
            rebalance_timeout_ms=timeout_ms if asked.rebalance_timeout_ms < 0 else asked.rebalance_timeout_ms,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in asked.protocols),
            is_new=False,
        )
        group.add_member(member, asked.protocol_type)
    group.leader_id = str(answer.response["leader"])
    return group


def _name_clients(group: Group, records: Sequence[LoggedRecord]) -> None:
    """A static member has the client id of the first that had its place; only the offsets log still knows it."""
    for record in records:
        _, value = decode_record(record.key, record.value)
        for stored in value.members if isinstance(value, GroupMetadataValue) else ():
            member = group.members.get(stored.member_id)
            if member is not None:
                member.client_id, member.client_host = stored.client_id, stored.client_host


def _completed(group: Group, config: GroupConfig, joins: Sequence[GroupRequest], now_ms: int) -> State:
    """Let all members rejoin, the leader first: the join phase ends, as it did on the broker at this time."""
    coordinator = GroupCoordinator(group.group_id, config, group=group)
    leader_first = sorted(joins, key=lambda join: join.response["memberId"] != join.response["leader"])
    for join in leader_first:
        assert isinstance(join.request, JoinGroupRequest)
        coordinator.handle(
            RequestEvent(
                offset=-1,
                clock_ms=now_ms,
                timestamp_ms=now_ms,
                envelope=join.envelope,
                request=replace(join.request, member_id=str(join.response["memberId"])),
            )
        )
    completed = coordinator.group
    assert completed is not None
    return replace(START, blobs=encode_group(completed), clock_ms=now_ms, state_slack_ms=LATE_MS)


# -------------------------------------------------------------------------------------------------------------- offsets


def _put_offsets(
    group: Group, requests: Sequence[GroupRequest], records: Sequence[LoggedRecord], from_us: int
) -> None:
    """What was committed before: by the offsets log, else by the first answer that tells it."""
    for record in records:
        if record.timestamp_ms < from_us // 1000:
            key, value = decode_record(record.key, record.value)
            if isinstance(key, OffsetCommitKey):
                if isinstance(value, OffsetCommitValue):
                    _put(group, key.topic, key.partition, value.offset, value.leader_epoch, value.metadata, from_us)
                else:
                    group.offsets.remove(key.topic, key.partition)
    told: set[tuple[str, int]] = {(topic, partition) for topic, partition, _ in group.offsets}
    for request in requests:
        if isinstance(request.request, OffsetFetchRequest):
            _learn(group, request, told, from_us)
        elif isinstance(request.request, OffsetCommitRequest):
            before = request.logged.handled_us < from_us and not records
            for topic in request.request.topics:
                for each in topic.partitions:
                    place = topic.name, each.partition_index
                    told.add(place)
                    if before:
                        metadata = each.committed_metadata or ""
                        _put(group, *place, each.committed_offset, each.committed_leader_epoch, metadata, from_us)


def _learn(group: Group, request: GroupRequest, told: set[tuple[str, int]], from_us: int) -> None:
    answer = request.response["groups"][0] if "groups" in request.response else request.response
    for topic in answer.get("topics", ()):
        for each in topic.get("partitions", ()):
            place = topic.get("name", ""), each["partitionIndex"]
            if place not in told and each["committedOffset"] != NO_OFFSET:
                told.add(place)
                epoch = each.get("committedLeaderEpoch", -1)
                _put(group, *place, each["committedOffset"], epoch, each.get("metadata") or "", from_us)


def _put(group: Group, topic: str, partition: int, offset: int, epoch: int, metadata: str, from_us: int) -> None:
    now_ms = from_us // 1000
    group.offsets.put(topic, partition, CommittedOffset(offset, epoch, metadata, now_ms, now_ms))
