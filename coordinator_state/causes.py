"""The cause of a history record: the request, the timer or the other event that led to it."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from coordinator_state import timers
from coordinator_state.group import Group
from coordinator_state.outputs import (
    GroupEvent,
    MetadataEvent,
    RecordedEvent,
    RequestEvent,
    TopicsDeletedEvent,
    TransactionEndedEvent,
)
from coordinator_state.timers import DueTimer
from schemas.history import Cause, Evidence
from schemas.recorded import RecordedDeparture

NO_OFFSET = -1
"""Of what is inferred: it lies in no topic."""
REASON_MAX_CHARACTERS = 255
"""Kafka shortens the reasons of clients to this (KIP-800)."""


class Subject(Struct, frozen=True, gc=False):
    """The member that a timer, or one entry of a batch, is about."""

    member_id: str | None
    group_instance_id: str | None
    reason: str | None = None
    client_id: str | None = None
    client_host: str | None = None


def request_cause(event: RequestEvent, partition: int, subject: Subject | None) -> Cause:
    """Return the cause for a request. Its fields name the member where the history record has none."""
    envelope, request = event.envelope, event.request
    if subject is not None:
        member_id, group_instance_id, reason = subject.member_id, subject.group_instance_id, subject.reason
    else:
        member_id = getattr(request, "member_id", None)
        group_instance_id = getattr(request, "group_instance_id", None)
        reason = getattr(request, "reason", None)
    recorded, is_inferred = envelope.recorded, False
    evidence: tuple[Evidence, ...] = ()
    if recorded is not UNSET:
        is_inferred = recorded.file is None
        if recorded.file is not None:
            evidence = (Evidence(source="request_log", file=recorded.file, line=recorded.line),)
    return Cause(
        kind="request",
        partition=partition,
        offset=NO_OFFSET if is_inferred else event.offset,
        api=envelope.api,
        api_version=envelope.api_version,
        request_id=envelope.request_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=envelope.client_id,
        client_host=envelope.client_host,
        reason=reason[:REASON_MAX_CHARACTERS] if reason else None,
        evidence=evidence,
        certainty="inferred" if is_inferred else "told",
    )


def event_cause(event: GroupEvent, partition: int) -> Cause:
    """Return the cause for an event that is no request."""
    if type(event) is TopicsDeletedEvent:
        return Cause(kind="topics_deleted", partition=partition, offset=event.offset)
    if type(event) is TransactionEndedEvent:
        return Cause(
            kind="transaction_ended", partition=partition, offset=event.offset, producer_id=event.ended.producer_id
        )
    if type(event) is MetadataEvent:
        kind: Any = event.fact.__struct_config__.tag
        return Cause(kind=kind, partition=partition, offset=event.offset)
    if type(event) is RecordedEvent and type(event.fact) is RecordedDeparture:
        member_id = event.fact.member_id
        return Cause(
            kind="recording", partition=partition, offset=NO_OFFSET, member_id=member_id, certainty="not_known"
        )
    return Cause(kind="recording", partition=partition, offset=event.offset)


def timer_cause(due: DueTimer, partition: int, group: Group | None, subject: Subject | None) -> Cause:
    """Return the cause for a timer, with the event that armed it."""
    name, timer = due
    if name == timers.OFFSETS_EXPIRY or group is None:
        fired = timers.TimerCause("offsets_expiry", None)
    else:
        fired = group.body.timer_cause(name)
    about = subject or Subject(fired.member_id, None)
    return Cause(
        kind="timer",
        partition=partition,
        offset=timer.armed_offset,
        timer=fired.timer,
        armed_ms=timer.armed_ms,
        deadline_ms=timer.deadline_ms,
        member_id=about.member_id,
        group_instance_id=about.group_instance_id,
        client_id=about.client_id,
        client_host=about.client_host,
    )
