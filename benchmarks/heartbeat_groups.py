"""Events of groups whose members join, sync, and heartbeat from then on: what most traffic looks like."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.events import encode_request_event
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    Request,
    SyncGroupAssignment,
    SyncGroupRequest,
)
from streaming.config import StreamingConfig

SETTINGS = {"group_initial_rebalance_delay_ms": 0}
"""A join is complete at once, so that the log can be written without waiting for answers."""
_SESSION_TIMEOUT_MS = 1_800_000
_MEMBER_ID = "consumer-{}-0f5f7b1e-7d64-4d0e-9a3f-6a35cb6b8f11"
_METADATA = bytes(40)

Event = tuple[bytes, bytes]
"""(key, value)."""


def config(**settings: object) -> StreamingConfig:
    """The app's settings for such a log."""
    return StreamingConfig.load({**SETTINGS, **settings})


def flags(settings: StreamingConfig, **more: object) -> list[str]:
    """The flags of a command that works for an app with these settings, and more of them."""
    names = ("bootstrap_servers", "topic_prefix", "checkpoint", "responses_partitions", "group_buckets", *SETTINGS)
    values = {name: getattr(settings, name) for name in names} | more
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


def group_id(number: int) -> str:
    return f"group-{number:06d}"


def member_id(place: int) -> str:
    """The member of a group that joined as this one, from 0 on."""
    return _MEMBER_ID.format(place + 1)


def beginnings(groups: int) -> Iterator[Event]:
    """Every group of one joins and syncs: afterwards it is Stable in generation 1."""
    for number in range(groups):
        yield from joins(number, 1)
        yield from syncs(number, 1)


def joins(group: int, members: int) -> Iterator[Event]:
    """All members of a group join."""
    name, protocol = group_id(group), JoinGroupProtocol(name="range", metadata=_METADATA)
    request = JoinGroupRequest(
        group_id=name, session_timeout_ms=_SESSION_TIMEOUT_MS, protocol_type="consumer", protocols=(protocol,)
    )
    for place in range(members):
        yield name.encode(), _encode("JoinGroup", 3, request, _request_id("join", name, place), member_id(place))


def syncs(group: int, members: int) -> Iterator[Event]:
    """All members of a group that is in generation 1 sync; the first one leads."""
    name, ids = group_id(group), [member_id(place) for place in range(members)]
    plan = tuple(SyncGroupAssignment(member_id=one, assignment=_METADATA) for one in ids)
    for place, one in enumerate(ids):
        request = SyncGroupRequest(
            group_id=name, generation_id=1, member_id=one, assignments=() if place else plan
        )
        yield name.encode(), _encode("SyncGroup", 3, request, _request_id("sync", name, place))


def _request_id(what: str, name: str, place: int) -> str:
    return f"{what}-{name}" + (f"-{place}" if place else "")


def heartbeat(number: int, request_id: str, reply_partition: int = 0, group_members: int = 1) -> Event:
    """One heartbeat of a member; the first `group_members` are in the first group, and so on."""
    name = group_id(number // group_members)
    request = HeartbeatRequest(group_id=name, generation_id=1, member_id=member_id(number % group_members))
    return name.encode(), _encode("Heartbeat", 4, request, request_id, reply_partition=reply_partition)


def member_commit(number: int, request_id: str, offset: int, group_members: int = 1) -> Event:
    """A member commits an offset of one partition."""
    name, place = group_id(number // group_members), number % group_members
    partition = OffsetCommitRequestPartition(partition_index=place, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=name, generation_id_or_member_epoch=1, member_id=member_id(place),
        topics=(OffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
    )  # fmt: skip
    return name.encode(), _encode("OffsetCommit", 9, request, request_id)


def _encode(
    api: str, version: int, request: Request, request_id: str, member_id: str | None = None, reply_partition: int = 0
) -> bytes:
    return encode_request_event(
        api,
        version,
        request,
        request_id=request_id,
        reply_partition=reply_partition,
        client_id="consumer-1",
        new_member_id=member_id,
    )
