"""Logs of events to test on: groups of simulated members whose requests follow from the answers they get, by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from coordinator_state import Answer, Coordinator, GroupConfig, Output, RenewalEvent, RequestEvent
from schemas.error_codes import ErrorCode
from schemas.events import SESSION_RENEWAL, EventError, decode_request_event, encode_request_event, encode_tick
from schemas.java_hash import group_partition
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    Request,
    SyncGroupAssignment,
    SyncGroupRequest,
)
from schemas.records_file import Record
from schemas.ticks import NO_CLOCK, read_tick

START_MS = 1_767_225_600_000
RESPONSES_PARTITIONS = 8
POISONS: tuple[tuple[bytes | None, bytes | None], ...] = (
    (b"\xff\xfe", b"{}"),
    (None, b"{}"),
    (None, None),
    (None, b'{"type":"tick","clock_ms":"soon"}'),
    (None, b'{"type":"tick","clock_ms":-5}'),
    (None, b'{"type":"tick","clock_ms":4611686018427387904}'),
    (None, b'{"type":"tick","clock_ms":1000}'),
    (b"", b"{}"),
    (b"group-0", None),
    (b"group-0", b"no json"),
    (b"group-0", b"\xff\xfe\xfd"),
    (b"group-1", b'{"type":"tick","clock_ms":1}'),
    (b"__tick", b"[]"),
    (b"null", b"[" * 100_000),
)
"""(key, value) of what must not be understood; one of them is a tick that goes back, which is ignored."""


@dataclass
class Member:
    """One member: what it knows, and when it will be heard again."""

    group_id: str
    client_id: str
    member_id: str = ""
    generation_id: int = -1
    assignments: tuple[SyncGroupAssignment, ...] = ()
    must_sync: bool = False
    waiting: bool = False
    silent_until_ms: int = 0
    sent: int = field(default=0)


def make_log(
    seed: int, *, groups: int = 4, requests: int = 150, poisons: bool = True, renewals: bool = True
) -> list[Record]:
    """A log of one partition: joins, syncs, heartbeats, commits, crashes and leaves of some groups, with ticks,
    renewals and poisons."""
    chance, pauses = random.Random(seed), random.Random(f"pauses of {seed}")
    members = [Member(f"group-{number % groups}", f"client-{number}") for number in range(groups * 3)]
    coordinator = Coordinator(GroupConfig(group_initial_rebalance_delay_ms=1_000))
    records: list[Record] = []
    waiting: dict[str, Member] = {}
    now_ms = tick_ms = START_MS
    poison = iter(POISONS if poisons else ())

    def append(key: bytes | None, value: bytes | None) -> int:
        records.append(Record(partition=0, offset=len(records), timestamp_ms=now_ms, key=key, value=value))
        return len(records) - 1

    hear = partial(_hear_all, waiting)
    for number in range(requests):
        now_ms += chance.randrange(20, 500)
        while tick_ms + 500 <= now_ms:
            tick_ms += 500
            append(None, encode_tick(tick_ms))
            hear(coordinator.advance_to(tick_ms))
        if number % 10 == 9 and (key_and_value := next(poison, None)) is not None:
            append(*key_and_value)
        if renewals and pauses.random() < 0.05:
            group_id = pauses.choice(members).group_id
            clock_ms = tick_ms if tick_ms > START_MS else NO_CLOCK
            offset = append(group_id.encode(), SESSION_RENEWAL)
            hear(coordinator.handle(group_id, RenewalEvent(offset, clock_ms, now_ms)))
        member = chance.choice([m for m in members if m.silent_until_ms <= now_ms] or members)
        request = _next_request(member, chance, now_ms)
        if request is None:
            continue
        request_id = f"{member.client_id}-{member.sent}"
        member.sent += 1
        partition = chance.randrange(RESPONSES_PARTITIONS)
        value = encode_request_event(
            *request, request_id=request_id, reply_partition=partition, client_id=member.client_id
        )
        offset = append(member.group_id.encode(), value)
        envelope, decoded = decode_request_event(member.group_id, value)
        clock_ms = tick_ms if tick_ms > START_MS else NO_CLOCK
        waiting[request_id] = member
        hear(coordinator.handle(member.group_id, RequestEvent(offset, clock_ms, now_ms, envelope, decoded)))
    now_ms = tick_ms + 4_000
    append(None, encode_tick(now_ms))
    return records


def _hear_all(waiting: dict[str, Member], outputs: list[Output]) -> None:
    """Each answer goes to the member that waits for it."""
    for output in outputs:
        if isinstance(output, Answer) and (member := waiting.pop(output.request_id, None)) is not None:
            _hear(member, output)


def _next_request(member: Member, chance: random.Random, now_ms: int) -> tuple[str, int, Request] | None:
    if member.waiting:
        return None
    if not member.member_id or member.generation_id < 0:
        member.waiting = True
        protocols = tuple(JoinGroupProtocol(name=name, metadata=b"\x00\x01") for name in ("range", "roundrobin"))
        body = JoinGroupRequest(
            group_id=member.group_id,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=10_000,
            member_id=member.member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        return "JoinGroup", 9, body
    identity: dict[str, Any] = {"group_id": member.group_id, "member_id": member.member_id}
    identity["generation_id"] = member.generation_id
    if member.must_sync:
        member.must_sync, member.waiting = False, True
        return "SyncGroup", 3, SyncGroupRequest(**identity, assignments=member.assignments)
    draw = chance.random()
    if draw < 0.06:
        member.silent_until_ms = now_ms + 15_000
        return None
    if draw < 0.12:
        leaver = LeaveGroupMember(member_id=member.member_id, reason="enough")
        member.member_id, member.generation_id = "", -1
        return "LeaveGroup", 5, LeaveGroupRequest(group_id=member.group_id, members=(leaver,))
    if draw < 0.3:
        partition = OffsetCommitRequestPartition(
            partition_index=chance.randrange(3), committed_offset=chance.randrange(1_000)
        )
        topics = (OffsetCommitRequestTopic(name="orders", partitions=(partition,)),)
        identity["generation_id_or_member_epoch"] = identity.pop("generation_id")
        return "OffsetCommit", 8, OffsetCommitRequest(**identity, topics=topics)
    if draw < 0.36:
        return "OffsetFetch", 8, OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=member.group_id),))
    return "Heartbeat", 4, HeartbeatRequest(**identity)


def _hear(member: Member, answer: Answer) -> None:
    member.waiting = False
    response = answer.response
    code = getattr(response, "error_code", ErrorCode.NONE)
    if isinstance(response, JoinGroupResponse):
        if code is ErrorCode.NONE:
            member.member_id, member.generation_id, member.must_sync = response.member_id, response.generation_id, True
            member.assignments = tuple(
                SyncGroupAssignment(member_id=member.member_id, assignment=b"\x00\x01") for member in response.members
            )
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = response.member_id
        else:
            member.member_id, member.generation_id = "", -1
    elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
        member.generation_id = -1
    elif code is ErrorCode.UNKNOWN_MEMBER_ID:
        member.member_id, member.generation_id = "", -1


def resharded(records: list[Record], shards: int) -> list[Record]:
    """The same log over several partitions: requests where Kafka's hash puts their group, ticks in all of them."""
    records_moved: list[Record] = []
    counts = [0] * shards
    for record in records:
        for partition in _homes(record, shards):
            records_moved.append(
                Record(
                    partition=partition,
                    offset=counts[partition],
                    timestamp_ms=record.timestamp_ms,
                    key=record.key,
                    value=record.value,
                )
            )
            counts[partition] += 1
    return records_moved


def _homes(record: Record, shards: int) -> Iterator[int]:
    if record.key is not None:
        yield group_partition(record.key.decode(errors="replace"), shards)
        return
    try:
        read_tick(record.value, record.timestamp_ms, 3_000)
    except EventError:
        yield 0
    else:
        yield from range(shards)
