"""Records of our topics, as the coordinator itself writes them for a few requests."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.consumer_protocol import Subscription, encode_subscription
from schemas.events import encode_request_event, encode_tick
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    Request,
    SyncGroupAssignment,
    SyncGroupRequest,
)
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.replay import replay_in_process

CONFIG = StreamingConfig(responses_partitions=1, offsets_partitions=1, group_initial_rebalance_delay_ms=0)
START_MS = 1_700_000_000_000
APPEND_MS = 40
"""How long after its event the answer is appended, in these tests."""


def log(group_id: str = "g", client_id: str = "c") -> list[Record]:
    """A member joins, commits, sends a heartbeat with a wrong generation, leaves; another joins and falls silent."""
    join = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(JoinGroupProtocol(name="range", metadata=encode_subscription(Subscription(topics=("t",)))),),
    )
    partitions = tuple(OffsetCommitRequestPartition(partition_index=index, committed_offset=9) for index in range(3))
    commit = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=1,
        member_id="m",
        topics=(OffsetCommitRequestTopic(name="t", partitions=partitions),),
    )
    assignments = (SyncGroupAssignment(member_id="m", assignment=b""),)
    requests: list[tuple[str, int, Request]] = [
        ("JoinGroup", 3, join),
        ("SyncGroup", 3, SyncGroupRequest(group_id=group_id, generation_id=1, member_id="m", assignments=assignments)),
        ("OffsetCommit", 7, commit),
        ("Heartbeat", 3, HeartbeatRequest(group_id=group_id, generation_id=5, member_id="m")),
        ("LeaveGroup", 3, LeaveGroupRequest(group_id=group_id, members=(LeaveGroupMember(member_id="m"),))),
        ("JoinGroup", 3, join),
    ]
    values = [
        (
            group_id.encode(),
            encode_request_event(
                api,
                version,
                request,
                request_id=f"{group_id}-{number}",
                reply_partition=0,
                client_id=client_id,
                new_member_id="m" if number == 0 else "m2",
            ),
        )
        for number, (api, version, request) in enumerate(requests)
    ]
    pairs: list[tuple[bytes | None, bytes]] = [
        (None, encode_tick(START_MS)),
        *values,
        (group_id.encode(), b"garbage"),
        (None, encode_tick(START_MS + 60_000)),
    ]
    return [
        Record(partition=0, offset=offset, timestamp_ms=START_MS + offset, key=key, value=value)
        for offset, (key, value) in enumerate(pairs)
    ]


def outputs(records: Iterable[Record]) -> list[OutputRecord]:
    """What the coordinator writes for them."""
    return [output for _, group_outputs in replay_in_process(records, CONFIG) for output in group_outputs]
