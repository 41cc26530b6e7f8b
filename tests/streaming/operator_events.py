"""Events and states for tests of the operator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
from msgspec.structs import replace
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BinaryType, StructField, StructType

from coordinator_state import GroupConfig
from group_coordinator.ground.settings.topic_names import Topics
from schemas.events import encode_request_event
from schemas.messages import HeartbeatRequest, JoinGroupProtocol, JoinGroupRequest, Request
from streaming.operator_config import OperatorConfig
from streaming.reply_partitions import ReplyPartitions

CONFIG = OperatorConfig(
    group=GroupConfig(group_initial_rebalance_delay_ms=0),
    topics=Topics.of_prefix("c"),
    partition=0,
    reply_partitions=ReplyPartitions("responses", 8),
    offsets_partitions=50,
    output_max_bytes=4_194_304,
)

JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=6_000,
    protocol_type="consumer",
    protocols=(JoinGroupProtocol(name="range", metadata=b""),),
)

JOIN_MS = 100_000

EventRow = tuple[bytes | None, int, int, bytes | None]
"""Key, offset, clock_ms, value."""


def group_state(
    value: tuple[bytes, bytes] | None = None,
    *,
    watermark_ms: int = 0,
    has_timed_out: bool = False,
    timeout_ms: int = -1,
) -> GroupState:
    schema = StructType([StructField("membership", BinaryType()), StructField("offsets", BinaryType())])
    return GroupState(
        optionalValue=value,  # type: ignore[arg-type]
        batchProcessingTimeMs=0,
        eventTimeWatermarkMs=watermark_ms,
        timeoutConf=GroupStateTimeout.EventTimeTimeout,
        hasTimedOut=has_timed_out,
        watermarkPresent=True,
        defined=value is not None,
        updated=False,
        removed=False,
        timeoutTimestamp=timeout_ms,
        keyAsUnsafe=b"",
        valueSchema=schema,
    )


def event(api: str, version: int, request: Request, request_id: str = "r", **fields: Any) -> bytes:
    fields = {"request_id": request_id, "reply_partition": 1, "client_id": "c", **fields}
    return encode_request_event(api, version, request, **fields)


def join(key: bytes, offset: int, clock_ms: int = JOIN_MS) -> tuple[bytes, int, int, bytes]:
    request = replace(JOIN, group_id=key.decode())
    return key, offset, clock_ms, event("JoinGroup", 3, request, f"join-{offset}", new_member_id="m")


def heartbeat(key: bytes, offset: int) -> tuple[bytes, int, int, bytes]:
    request = HeartbeatRequest(group_id=key.decode(), generation_id=1, member_id="m")
    return key, offset, JOIN_MS, event("Heartbeat", 4, request, f"beat-{offset}")


def rows_of(outputs: Iterable[pd.DataFrame]) -> list[dict[str, Any]]:
    """The rows of an operator's frames, by the names of the columns."""
    return [
        {str(name): value for name, value in row.items()} for output in outputs for row in output.to_dict("records")
    ]


def timeout_ms(state: GroupState) -> int:
    """The timeout that was set; Spark offers no way to read it back."""
    return int(state._timeout_timestamp)


def is_updated(state: GroupState) -> bool:
    """Whether a new value was set."""
    return bool(state._updated)


def is_removed(state: GroupState) -> bool:
    """Whether the key leaves the state."""
    return bool(state._removed)
