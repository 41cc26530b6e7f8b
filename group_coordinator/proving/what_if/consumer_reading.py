"""Clients of the consumer protocol (KIP-848), as their heartbeats in a log show them."""

from __future__ import annotations

from coordinator_state import GroupConfig, RequestEvent
from group_coordinator.proving.what_if.recorded_clients import RecordedClient, Roster, Wanted
from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from schemas.error_codes import ErrorCode
from schemas.messages import Request, Response

_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)


class ConsumerRequests:
    """Reads the heartbeats of members of the consumer protocol."""

    def __init__(self, roster: Roster, config: GroupConfig) -> None:
        self._roster = roster
        self._intervals = config.member_intervals

    def heartbeat(self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest) -> RecordedClient | None:
        """Read a heartbeat; return the client whose it is, None where that never joined."""
        time_ms = event.timestamp_ms
        if request.member_epoch == JOIN_EPOCH:
            client: RecordedClient | None = self._join(event, request)
        else:
            client = self._roster.of(request.member_id)
        if client is None:
            return None
        client.sign(time_ms)
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            client.ends_ms, client.leaves = time_ms, True
            client.returns = request.member_epoch == LEAVE_STATIC_EPOCH
            return client
        client.subscribe(time_ms, _wanted(request, client.latest))
        if request.server_assignor is not None:
            client.server_assignor = request.server_assignor
        if request.member_epoch != JOIN_EPOCH:
            client.heartbeats.append(time_ms)
            if request.topic_partitions is not None:
                client.react(time_ms)
        return client

    def answered(self, client: RecordedClient, request: Request, response: Response, time_ms: int) -> None:
        """Read the answer to a heartbeat."""
        if not isinstance(request, ConsumerGroupHeartbeatRequest) or not isinstance(
            response, ConsumerGroupHeartbeatResponse
        ):
            return
        if response.error_code in _LOST:
            client.is_lost = True
        elif response.error_code is ErrorCode.NONE:
            if request.member_epoch == JOIN_EPOCH and response.member_id:
                self._roster.name(client, response.member_id)
            # The member says what it owns as soon as its application has taken in what is new.
            if response.assignment is not None and client.notified_ms is None and client.ends_ms is None:
                client.notified_ms = time_ms

    def _join(self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest) -> RecordedClient:
        time_ms = event.timestamp_ms
        known = self._roster.of(request.member_id) if request.member_id else None
        if known is not None and (known.ends_ms is None or self._was_not_polled(known, time_ms)):
            known.notified_ms = None
            return known
        predecessor = self._roster.of_instance(request.instance_id)
        if predecessor is not None and predecessor.ends_ms is None:
            predecessor.ends_ms = predecessor.last_sign_ms + 1  # another process has its static id now
        client = RecordedClient(
            protocol="consumer",
            client_id=event.envelope.client_id,
            client_host=event.envelope.client_host,
            instance_id=request.instance_id,
            wanted=_wanted(request, Wanted()),
            server_assignor=request.server_assignor,
            rack_id=request.rack_id or "",
            session_timeout_ms=self._intervals.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            begins_ms=time_ms,
            last_sign_ms=time_ms,
            polled_ms=time_ms,
        )
        self._roster.add(client, request.member_id)
        return client

    def _was_not_polled(self, client: RecordedClient, time_ms: int) -> bool:
        """Return whether a client that left and comes back had left because nobody polled it. Its heartbeats do not
        say so; but one that unsubscribed had an application that polled, and is taken for another client."""
        left_ms = client.ends_ms
        if left_ms is None or left_ms - client.polled_ms < client.rebalance_timeout_ms:
            return False
        client.stalls.append((left_ms - client.rebalance_timeout_ms, time_ms))
        client.ends_ms, client.leaves = None, False
        client.last_sign_ms = client.polled_ms = time_ms
        return True


def _wanted(request: ConsumerGroupHeartbeatRequest, before: Wanted) -> Wanted:
    """Return what a member subscribes to; null means: as before."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return Wanted(
        before.topics if names is None else tuple(sorted(set(names))),
        before.regex if regex is None else regex or None,
    )
