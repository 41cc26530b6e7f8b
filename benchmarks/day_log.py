"""The log of a day: groups whose members join, sync, and heartbeat every three seconds from then on.

One partition, as Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.events import encode_request_event, encode_tick
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    Request,
    SyncGroupAssignment,
    SyncGroupRequest,
)
from streaming.event_log import RECORD_ARROW

HEARTBEAT_INTERVAL_MS = 3_000
HEARTBEATS_PER_DAY = 86_400_000 // HEARTBEAT_INTERVAL_MS
_START_MS = 1_700_000_000_000
_TICK_MS = 500
_STABLE_MS = 10_000
"""After the start: the initial rebalance, whose delay is prolonged once, is over."""
_ROWS_AT_ONCE = 50_000
_METADATA = bytes(40)
_REQUEST_ID = "0" * 32
_SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835
"""Odd: its multiples are as many ids, which compress as badly as random ones."""

Event = tuple[int, bytes | None, bytes]
"""(timestamp_ms, key, value)."""


def write_log(file: Path, groups: int, members: int, heartbeats: int) -> int:
    """Write a log with `heartbeats` heartbeats in all; returns the number of its events."""
    offset = 0
    events = _with_ticks(_requests(groups, members, heartbeats))
    with pq.ParquetWriter(file, RECORD_ARROW) as writer:
        while rows := list(islice(events, _ROWS_AT_ONCE)):
            timestamps, keys, values = zip(*rows, strict=True)
            columns = [0] * len(rows), range(offset, offset + len(rows)), timestamps, keys, values
            arrays = [pa.array(column, of.type) for column, of in zip(columns, RECORD_ARROW, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=RECORD_ARROW))
            offset += len(rows)
    return offset


def _with_ticks(requests: Iterator[Event]) -> Iterator[Event]:
    ticked_ms = 0
    for request in requests:
        while ticked_ms + _TICK_MS <= request[0]:
            ticked_ms = max(ticked_ms + _TICK_MS, _START_MS)
            yield ticked_ms, None, encode_tick(ticked_ms)
        yield request


def _requests(groups: int, members: int, heartbeats: int) -> Iterator[Event]:
    members_by_group = [
        (f"group-{group:06d}", [_member_id(group, member) for member in range(members)]) for group in range(groups)
    ]
    for group_id, ids in members_by_group:
        for member_id in ids:
            yield _START_MS, group_id.encode(), _encode("JoinGroup", 3, _join(group_id), member_id)
    for group_id, ids in members_by_group:
        for member_id in ids:
            yield _START_MS + _STABLE_MS, group_id.encode(), _encode("SyncGroup", 3, _sync(group_id, member_id, ids))
    senders = [
        (group_id.encode(), *_heartbeat_around_its_id(group_id, ids[member]))
        for member in range(members)
        for group_id, ids in members_by_group
    ]
    for number, time_ms in zip(
        range(heartbeats),
        (_START_MS + _STABLE_MS + number * HEARTBEAT_INTERVAL_MS // len(senders) for number in count()),
        strict=False,
    ):
        key, before, after = senders[number % len(senders)]
        yield time_ms, key, b"%b%032x%b" % (before, number * _SPREAD % 2**128, after)


def _member_id(group: int, member: int) -> str:
    return f"consumer-{member}-0f5f7b1e-7d64-4d0e-9a3f-{group:012x}"


def _join(group_id: str) -> JoinGroupRequest:
    protocol = JoinGroupProtocol(name="range", metadata=_METADATA)
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        protocol_type="consumer",
        protocols=(protocol,),
    )


def _sync(group_id: str, member_id: str, ids: list[str]) -> SyncGroupRequest:
    """The first to join is the leader and brings the assignments."""
    assignments = (
        tuple(SyncGroupAssignment(member_id=assigned_id, assignment=_METADATA) for assigned_id in ids)
        if member_id == ids[0]
        else ()
    )
    return SyncGroupRequest(group_id=group_id, generation_id=1, member_id=member_id, assignments=assignments)


def _heartbeat_around_its_id(group_id: str, member_id: str) -> tuple[bytes, bytes]:
    """A heartbeat is the same each time, but for its request id."""
    request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id=member_id)
    before, _, after = _encode("Heartbeat", 4, request).partition(_REQUEST_ID.encode())
    return before, after


def _encode(api: str, version: int, request: Request, new_member_id: str | None = None) -> bytes:
    return encode_request_event(
        api,
        version,
        request,
        request_id=_REQUEST_ID,
        reply_partition=0,
        client_id="consumer-1",
        new_member_id=new_member_id,
    )
