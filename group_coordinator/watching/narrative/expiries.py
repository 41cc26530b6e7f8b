"""The sentence of a member that expires. Pure."""

from __future__ import annotations

from msgspec import UNSET

from group_coordinator.watching.narrative.words import duration, name
from schemas.history import MemberExpired


def expires(record: MemberExpired) -> str:
    """Return what happened, without time and group."""
    who, host = name(record.member.member_id), record.member.client_host
    if record.last_heard_ms is None or record.session_timeout_ms is None:
        return (
            f"{who}{f' ({host})' if host else ''} expires: nothing was heard of it for its session timeout"
            f"{_stalled(record)}"
        )
    deadline_ms = record.cause.deadline_ms
    renewed = deadline_ms is not None and deadline_ms - record.session_timeout_ms > record.last_heard_ms
    return (
        f"{who} ({host}) expires: last heard {duration(record.time_ms - record.last_heard_ms)} "
        f"ago, its time was {duration(record.session_timeout_ms)}"
        f"{', begun anew after a pause of the clock' if renewed else ''}"
    )


def _stalled(record: MemberExpired) -> str:
    broker_id = record.stalled_broker_id
    return "" if broker_id is UNSET else f", because broker {broker_id} seems to have stood still"
