"""Rows that never change, each made of one record: events, commits, refusals, expiries."""

from __future__ import annotations

from typing import Any

from group_coordinator.watching.tables.rows import Commit, Event, Expiry, Refusal
from schemas.consumer_group_history import ConsumerMemberAway, MemberReconciled
from schemas.history import (
    GroupDead,
    History,
    HistoryRecord,
    LeaderElected,
    MemberDropped,
    MemberExpired,
    MemberFenced,
    MemberIdAssigned,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    PendingMemberRemoved,
    RebalanceStarted,
    RequestRefused,
)
from schemas.observed_history import MemberGone, OffsetsRemoved

_OF_CAUSE = tuple(
    (column, name)
    for column in Event.__struct_fields__
    if (name := column.removeprefix("cause_")) != column and name != "member_id"
)
"""Columns of an event that a field of its cause has as it is."""


def event_row(record: History, record_json: str) -> Event:
    """Return any record as a flat row. `record_json` is its JSON on the history topic."""
    cause = record.cause
    return Event(
        group_id=record.group_id,
        events_partition=cause.partition,
        epoch=record.epoch,
        seq=record.seq,
        type=type(record).__struct_config__.tag,  # type: ignore[arg-type]
        time_ms=record.time_ms,
        timestamp_ms=record.timestamp_ms,
        generation_id=record.generation_id,
        caused_by=record.caused_by,
        member_id=_member_id(record),
        cause_member_id=cause.member_id or None,
        record=record_json,
        **{column: getattr(cause, name) for column, name in _OF_CAUSE},
    )


def _member_id(record: History) -> str | None:
    """The member that a record is about."""
    match record:
        case OffsetsCommitted() | PendingMemberRemoved() | MemberFenced():
            return record.member_id or None
        case RequestRefused():
            return record.cause.member_id or None
        case (
            MemberIdAssigned() | MemberJoined() | MemberRejoined() | MemberReplaced() | MemberLeft() | MemberExpired()
            | MemberDropped() | MemberGone() | ConsumerMemberAway() | MemberReconciled()
        ):  # fmt: skip
            return record.member.member_id
        case RebalanceStarted():
            return None if record.member is None else record.member.member_id
        case LeaderElected():
            return record.leader.member_id
        case _:
            return None


def commit_rows(record: OffsetsCommitted) -> list[Commit]:
    """Return one row for each partition of a commit."""
    cause = record.cause
    rows = []
    for position, change in enumerate(record.offsets):
        offset, previous = change.offset, change.previous_offset
        distance = offset - previous if offset is not None and previous is not None else None
        rows.append(
            Commit(
                group_id=record.group_id,
                epoch=record.epoch,
                seq=record.seq,
                position=position,
                committed_ms=record.timestamp_ms,
                topic=change.topic,
                partition=change.partition,
                offset=offset,
                previous_offset=previous,
                moved=distance,
                rewind=distance is not None and distance < 0,
                leader_epoch=change.leader_epoch,
                metadata=change.metadata,
                member_id=record.member_id,
                client_id=cause.client_id,
                client_host=cause.client_host,
                generation_id=record.generation_id,
                request_offset=cause.offset,
            )
        )
    return rows


def refusal_row(record: RequestRefused) -> Refusal:
    cause = record.cause
    return Refusal(
        group_id=record.group_id,
        events_partition=cause.partition,
        epoch=record.epoch,
        seq=record.seq,
        refused_ms=record.timestamp_ms,
        api=record.api,
        api_version=cause.api_version,
        error_code=record.error_code,
        error=record.error,
        rule=record.rule,
        detail=record.detail,
        state=record.state,
        generation_id=record.generation_id,
        member_id=cause.member_id or None,
        group_instance_id=cause.group_instance_id,
        client_id=cause.client_id,
        client_host=cause.client_host,
        request_id=cause.request_id,
        request_offset=cause.offset,
    )


def expiry_rows(record: HistoryRecord) -> list[Expiry]:
    """Return the rows about what a record says has expired or was deleted; most records give none."""
    match record:
        case OffsetsExpired() | OffsetsDeleted() | OffsetsRemoved():
            reason = _REMOVED[type(record)]
            client = _client(record) if reason == "deleted" else {}
            return [
                _expiry(record, position=position, kind="offset", reason=reason, topic=change.topic,
                        partition=change.partition, offset=change.previous_offset, **client)
                for position, change in enumerate(record.offsets)
            ]  # fmt: skip
        case MemberExpired():
            member = _named(record.member, "member_id", "group_instance_id", "client_id", "client_host")
            member |= {"last_heard_ms": record.last_heard_ms, "timeout_ms": record.session_timeout_ms}
            return [_expiry(record, kind="member", reason="expired", **member)]
        case PendingMemberRemoved() if record.reason == "expired":
            return [_expiry(record, kind="pending_member", reason="expired", member_id=record.member_id)]
        case GroupDead():
            client = _client(record) if record.reason == "deleted" else {}
            return [_expiry(record, kind="group", reason=record.reason, **client)]
        case _:
            return []


_REMOVED: dict[type[HistoryRecord], str] = {
    OffsetsExpired: "expired",
    OffsetsDeleted: "deleted",
    OffsetsRemoved: "not_known",
}


def _named(of: object, *names: str) -> dict[str, Any]:
    """Return columns that are called as what they are in a record."""
    return {name: getattr(of, name) for name in names}


def _client(record: HistoryRecord) -> dict[str, Any]:
    return {"member_id": record.cause.member_id or None, **_named(record.cause, "client_id", "client_host")}


def _expiry(record: HistoryRecord, *, position: int = 0, **fields: Any) -> Expiry:
    return Expiry(
        group_id=record.group_id,
        epoch=record.epoch,
        seq=record.seq,
        position=position,
        expired_ms=record.timestamp_ms,
        **fields,
    )
