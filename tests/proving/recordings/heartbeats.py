"""Heartbeats as request logs have them, made by hand."""

from __future__ import annotations

from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.request_lines import LoggedRequest
from schemas.messages import HeartbeatRequest

SECOND_US = 1_000_000
REFUSED = "the broker answered NOT_COORDINATOR before it asked the group"


def request(
    second: float,
    *,
    broker: int = 1,
    code: int = 0,
    api: str = "Heartbeat",
    waits_s: float = 0.001,
    connection: int = 1,
) -> GroupRequest:
    handled_us = int(second * SECOND_US)
    logged = LoggedRequest(
        arrival_us=handled_us, file_index=broker, line_number=1, handled_us=handled_us, local_us=0,
        ready_us=handled_us + int(waits_s * SECOND_US), logged_us=handled_us, api=api, api_version=4, correlation_id=1,
        client_id="c", client_host="/h", connection=f"b:{9091 + broker}-c:1-0-{connection}",
        request=b"{}", response=b"{}",
    )  # fmt: skip
    return GroupRequest(
        logged=logged,
        group_id="g",
        request_id=str(second),
        request=HeartbeatRequest(group_id="g", member_id="m", generation_id=1),
        response={"errorCode": code},
        new_member_id=None,
        set_aside=REFUSED if code else None,
    )
