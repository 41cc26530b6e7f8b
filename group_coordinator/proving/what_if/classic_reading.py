"""Clients of the classic protocol, as their requests in a log show them."""

from __future__ import annotations

from coordinator_state import RequestEvent
from group_coordinator.proving.what_if.group_log import WhatIfError
from group_coordinator.proving.what_if.recorded_clients import RecordedClient, Roster, Wanted
from group_coordinator.proving.what_if.recorded_topics import RecordedTopics
from schemas.consumer_protocol import decode_assignment, decode_subscription
from schemas.error_codes import ErrorCode
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    Request,
    Response,
    SyncGroupRequest,
)
from schemas.wire import DecodeError

CONSUMER = "consumer"
_POLL_TIMEOUT = "poll timeout"
"""What Kafka's clients say when they leave because nobody polls them."""
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class ClassicRequests:
    """Reads the requests of members of the classic protocol."""

    def __init__(self, roster: Roster, topics: RecordedTopics) -> None:
        self._roster = roster
        self._topics = topics

    def request(
        self, event: RequestEvent, request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest
    ) -> RecordedClient | None:
        """Read a request; return the client whose it is. Raises WhatIfError for members that are no consumers."""
        time_ms = event.timestamp_ms
        if isinstance(request, JoinGroupRequest):
            client: RecordedClient | None = self._join(event, request)
        else:
            client = self._roster.of(request.member_id)
        if isinstance(request, SyncGroupRequest):
            self._share_out(time_ms, request)
        if client is None:
            return None
        if isinstance(request, HeartbeatRequest):
            client.heartbeats.append(time_ms)
        client.sign(time_ms)
        if not isinstance(request, HeartbeatRequest):
            client.waiting += 1
        return client

    def leave(self, event: RequestEvent, request: LeaveGroupRequest) -> bool:
        """Read a leave. False: no member left; somebody else, a tool, removes one."""
        others = [member for member in request.members if not self._leave(member, event.timestamp_ms)]
        return not others

    def answered(self, client: RecordedClient, request: Request, response: Response, time_ms: int) -> None:
        """Read the answer to one of these requests."""
        if isinstance(request, JoinGroupRequest | SyncGroupRequest):
            client.waiting = max(client.waiting - 1, 0)
            client.last_sign_ms = max(client.last_sign_ms, time_ms)
        elif not isinstance(request, HeartbeatRequest):
            return
        error = getattr(response, "error_code", ErrorCode.NONE)
        if isinstance(request, JoinGroupRequest):
            member_id = getattr(response, "member_id", "")
            if error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED) and member_id:
                self._roster.name(client, member_id)
        if error is ErrorCode.REBALANCE_IN_PROGRESS and client.notified_ms is None:
            client.notified_ms = time_ms
        elif error in _LOST:
            client.is_lost = True

    def _join(self, event: RequestEvent, request: JoinGroupRequest) -> RecordedClient:
        if request.protocol_type != CONSUMER:
            raise WhatIfError(
                f"Only groups of consumers can be played again; this one is of type {request.protocol_type!r}."
            )
        time_ms = event.timestamp_ms
        wanted, rack_id = _subscription(request)
        client = self._roster.of(request.member_id) if request.member_id else self._returned(event, request)
        if client is None:
            client = RecordedClient(
                protocol="classic",
                client_id=event.envelope.client_id,
                client_host=event.envelope.client_host,
                instance_id=request.group_instance_id,
                wanted=wanted,
                assignors=tuple(protocol.name for protocol in request.protocols),
                rack_id=rack_id,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms
                if request.rebalance_timeout_ms >= 0
                else request.session_timeout_ms,
                begins_ms=time_ms,
                last_sign_ms=time_ms,
                polled_ms=time_ms,
            )
            self._roster.add(client, request.member_id)
        client.subscribe(time_ms, wanted)
        client.react(time_ms)
        if client.stalled_since_ms is not None:
            client.stalls.append((client.stalled_since_ms, time_ms))
            client.last_sign_ms, client.stalled_since_ms = time_ms, None
        return client

    def _returned(self, event: RequestEvent, request: JoinGroupRequest) -> RecordedClient | None:
        """Return the client that joins without an id after it lost its own; None for a new client."""
        envelope, instance_id = event.envelope, request.group_instance_id
        for client in self._roster.newest_first():
            is_same_client = (client.client_id, client.client_host, client.instance_id) == (
                envelope.client_id,
                envelope.client_host,
                instance_id,
            )
            if not is_same_client or client.ends_ms is not None:
                continue
            if client.is_lost or client.stalled_since_ms is not None:
                return client
            if instance_id is not None:
                client.ends_ms = client.last_sign_ms + 1  # another process has its static id now
        return None

    def _leave(self, leaver: LeaveGroupMember, time_ms: int) -> bool:
        client = self._roster.of(leaver.member_id) or self._roster.of_instance(leaver.group_instance_id)
        # Without a member id, somebody else removes it by its static id.
        if client is None or client.ends_ms is not None or not leaver.member_id:
            return False
        client.sign(time_ms)
        if leaver.reason is not None and _POLL_TIMEOUT in leaver.reason:
            client.stalled_since_ms = max(time_ms - client.rebalance_timeout_ms, client.begins_ms)
        else:
            client.ends_ms, client.leaves = time_ms, True
        return True

    def _share_out(self, time_ms: int, request: SyncGroupRequest) -> None:
        for share in request.assignments:
            try:
                partitions = decode_assignment(share.assignment).partitions if share.assignment else ()
            except DecodeError:
                continue
            self._topics.share_out(time_ms, partitions)


def _subscription(request: JoinGroupRequest) -> tuple[Wanted, str]:
    for protocol in request.protocols:
        try:
            subscription = decode_subscription(protocol.metadata)
        except DecodeError:
            continue
        return Wanted(tuple(sorted(set(subscription.topics)))), subscription.rack_id or ""
    return Wanted(), ""
