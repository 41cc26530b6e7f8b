"""Histories of Kafka's own classes as what a broker leaves: records of its offsets topic, and requests of its log."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.proving.recordings.request_lines import LoggedRequest
from schemas.messages import Request


def records_in(history: dict[str, Any]) -> dict[str, list[LoggedRecord]]:
    """The records of a history, by group."""
    groups: dict[str, list[LoggedRecord]] = {}
    for offset, record in enumerate(record for step in history["steps"] for record in step.get("records", ())):
        group_id = record["key"].get("group") or record["key"]["groupId"]
        value = record.get("value_b64")
        logged = LoggedRecord(
            partition=0, offset=offset, timestamp_ms=record["at_ms"], group_id=group_id,
            key=b64decode(record["key_b64"]), value=None if value is None else b64decode(value),
            producer_id=record.get("producer_id"),
        )  # fmt: skip
        groups.setdefault(group_id, []).append(logged)
    return groups


def group_request(request: Request, response: dict[str, Any], second: int) -> GroupRequest:
    """A request to group `g`, answered in a second of the log."""
    us = second * 1_000_000
    api = type(request).__name__.removesuffix("Request")
    logged = LoggedRequest(us, 0, second + 1, us, 0, us, us, api, 1, second, "c", "/127.0.0.1", "", b"{}", b"{}")
    return GroupRequest(
        logged=logged, group_id="g", request_id=str(second), request=request, response=response, new_member_id=None
    )
