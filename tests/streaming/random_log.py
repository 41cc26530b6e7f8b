"""Logs of events to test on: groups of simulated members whose requests follow from the answers they get, by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from coordinator_state import Answer, Coordinator, Group, GroupConfig, Output, group_event
from coordinator_state.kafka_versions import OF_OLD_LOGS
from schemas.error_codes import ErrorCode
from schemas.events import (
    SESSION_RENEWAL,
    EventError,
    decode_group_event,
    encode_request_event,
    encode_tick,
)
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
from schemas.rules_events import encode_rules
from schemas.ticks import NO_CLOCK, read_tick
from tests.streaming.mixed_groups import SETTINGS, MixedGroups

START_MS = 1_767_225_600_000
RESPONSES_PARTITIONS = 8
TICK_INTERVAL_MS = 500
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


class _Log:
    """A log in the making, with the coordinator whose answers decide what members send next."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.now_ms = self.tick_ms = START_MS
        self.waiting: dict[str, Member] = {}
        self._coordinator = Coordinator(GroupConfig(**SETTINGS, kafka_rules=OF_OLD_LOGS))

    def append(self, key: bytes | None, value: bytes | None) -> int:
        offset = len(self.records)
        self.records.append(Record(partition=0, offset=offset, timestamp_ms=self.now_ms, key=key, value=value))
        return offset

    def tick(self) -> None:
        """Append the ticks that are due."""
        while self.tick_ms + TICK_INTERVAL_MS <= self.now_ms:
            self.tick_ms += TICK_INTERVAL_MS
            self.append(None, encode_tick(self.tick_ms))
            self._hear(self._coordinator.advance_to(self.tick_ms))

    def group(self, group_id: str) -> Group | None:
        return self._coordinator.groups.get(group_id)

    def handle(self, group_id: str, value: bytes) -> None:
        """Append an event of a group, and let the coordinator handle it. Raises `EventError`."""
        offset, clock_ms = self.append(group_id.encode(), value), self.tick_ms if self.tick_ms > START_MS else NO_CLOCK
        event = group_event(decode_group_event(group_id, value), offset, clock_ms, self.now_ms)
        self._hear(self._coordinator.handle(group_id, event))

    def _hear(self, outputs: list[Output]) -> None:
        """Each answer goes to the member that waits for it."""
        for output in outputs:
            if isinstance(output, Answer) and (member := self.waiting.pop(output.request_id, None)) is not None:
                _hear(member, output)


def make_log(
    seed: int, *, groups: int = 4, mixed_groups: int = 0, requests: int = 150, poisons: bool = True,
    renewals: bool = True, request_id_of: Callable[[str], str] = str,
) -> list[Record]:  # fmt: skip
    """A log of one partition: joins, syncs, heartbeats, commits, crashes and leaves of some groups, with ticks,
    renewals and poisons. Besides `groups` of the classic protocol there may be some whose members use both; they take
    their part of the requests, and need a coordinator with `mixed_groups.SETTINGS`. `request_id_of`: what becomes of
    the names of requests."""
    chance, pauses, turns = random.Random(seed), random.Random(f"pauses of {seed}"), random.Random(f"turns of {seed}")
    members = [Member(f"group-{number % groups}", f"client-{number}") for number in range(groups * 3)]
    mixed = MixedGroups(seed, mixed_groups, RESPONSES_PARTITIONS, request_id_of)
    poison = iter(POISONS if poisons else ())
    log = _Log()
    for number in range(requests):
        log.now_ms += chance.randrange(20, 500)
        log.tick()
        if number % 10 == 9 and (key_and_value := next(poison, None)) is not None:
            log.append(*key_and_value)
        if turns.random() * (groups + mixed_groups) < mixed_groups and log.tick_ms > START_MS:
            for group_id, value in mixed.events(log.tick_ms, log.group):
                with suppress(EventError):
                    log.handle(group_id, value)
            continue
        if renewals and pauses.random() < 0.05:
            log.handle(pauses.choice(members).group_id, SESSION_RENEWAL)
        member = chance.choice([m for m in members if m.silent_until_ms <= log.now_ms] or members)
        request = _next_request(member, chance, log.now_ms)
        if request is not None:
            request_id = request_id_of(f"{member.client_id}-{member.sent}")
            member.sent += 1
            log.waiting[request_id] = member
            value = encode_request_event(
                *request, request_id=request_id, reply_partition=chance.randrange(RESPONSES_PARTITIONS),
                client_id=member.client_id,
            )  # fmt: skip
            log.handle(member.group_id, value)
    log.now_ms = log.tick_ms + 4_000
    log.append(None, encode_tick(log.now_ms))
    return log.records


def with_rules(log: list[Record], *rules: str) -> list[Record]:
    """Return the log with changes of its rules: the first at its head, the others spread over it."""
    stretch = len(log) // len(rules)
    records: list[Record] = []
    for number, name in enumerate(rules):
        begin, end = number * stretch, None if number == len(rules) - 1 else (number + 1) * stretch
        changed = Record(partition=0, timestamp_ms=log[begin].timestamp_ms, key=None, value=encode_rules(name))
        records += [changed, *log[begin:end]]
    return [
        msgspec.structs.replace(record, partition=0, offset=offset) for offset, record in enumerate(records)
    ]


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
