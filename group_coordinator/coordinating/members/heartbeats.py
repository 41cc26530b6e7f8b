"""Heartbeats are due, sessions expire without an answer, and the application must poll in time.

The timers run only while the member has a place in the group and its JoinGroup is answered (while that is parked, the
coordinator knows that the member lives). Source: Kafka's `Heartbeat` and `AbstractCoordinator.HeartbeatThread`.
"""

from __future__ import annotations

from group_coordinator.coordinating.members.membership import ClassicMembership, MemberState
from group_coordinator.coordinating.members.requests import PendingRequest
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatRequest, HeartbeatResponse

SESSION_SILENT = "session timed out without receiving a heartbeat response"
_HEARTBEAT_STATES = (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)


class Heartbeats:
    """The member's three timers and its heartbeats."""

    def __init__(self, membership: ClassicMembership) -> None:
        self._membership = membership
        self._config = membership.config
        self._heartbeat_at_ms = 0
        self._session_ends_ms = 0
        self._poll_ends_ms = 0

    def restart(self) -> None:
        """Restart all timers, now that JoinGroup has been answered."""
        now_ms = self._membership.now_ms
        self._heartbeat_at_ms = now_ms + self._config.heartbeat_interval_ms
        self._session_ends_ms = now_ms + self._config.session_timeout_ms
        self._poll_ends_ms = now_ms + self._config.max_poll_interval_ms

    def polled(self) -> None:
        """Note that the application has polled."""
        self._poll_ends_ms = self._membership.now_ms + self._config.max_poll_interval_ms

    def next_deadline_ms(self) -> int | None:
        if self._membership.state not in _HEARTBEAT_STATES:
            return None
        deadline_ms = min(self._session_ends_ms, self._poll_ends_ms)
        return deadline_ms if self._in_flight() else min(deadline_ms, self._heartbeat_at_ms)

    def poll_interval_exceeded(self) -> bool:
        return self._membership.state in _HEARTBEAT_STATES and self._poll_ends_ms <= self._membership.now_ms

    def send_if_due(self) -> None:
        """Send a heartbeat if it is time and none is unanswered; notice a session of silence."""
        membership = self._membership
        if membership.state not in _HEARTBEAT_STATES:
            return
        if self._session_ends_ms <= membership.now_ms:
            self._session_ends_ms = membership.now_ms + self._config.session_timeout_ms
            membership.coordinator_unknown(SESSION_SILENT)
        if self._heartbeat_at_ms <= membership.now_ms and not self._in_flight():
            self._heartbeat_at_ms = membership.now_ms + self._config.heartbeat_interval_ms
            self._send()

    def on_response(self, pending: PendingRequest, response: HeartbeatResponse) -> None:
        membership = self._membership
        match response.error_code:
            case ErrorCode.NONE:
                self._restart_session()
            case ErrorCode.REBALANCE_IN_PROGRESS:
                # Sent before the member joined again, it may be answered after: then it is no news.
                self._restart_session()
                if membership.state is MemberState.STABLE:
                    membership.request_rejoin("group is already rebalancing")
            case ErrorCode.FENCED_INSTANCE_ID if membership.is_current(pending):
                membership.fail(response.error_code, "another member has taken this group.instance.id")
            case ErrorCode.ILLEGAL_GENERATION | ErrorCode.UNKNOWN_MEMBER_ID if membership.is_current(pending):
                membership.reset_on_error("HEARTBEAT", response.error_code)
            case ErrorCode.ILLEGAL_GENERATION | ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                pass  # about a generation that is over
            case error_code:
                membership.note_error(error_code)
                self._heartbeat_at_ms = membership.now_ms + self._config.retry_backoff_ms

    def on_timeout(self) -> None:
        """Send the next heartbeat without waiting longer: the last one got no answer."""
        self._heartbeat_at_ms = min(self._heartbeat_at_ms, self._membership.now_ms)

    def _restart_session(self) -> None:
        self._session_ends_ms = self._membership.now_ms + self._config.session_timeout_ms

    def _in_flight(self) -> bool:
        return self._membership.requests.in_flight("Heartbeat")

    def _send(self) -> None:
        membership = self._membership
        request = HeartbeatRequest(
            group_id=self._config.group_id,
            generation_id=membership.generation.generation_id,
            member_id=membership.generation.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        membership.send("Heartbeat", request, timeout_ms=self._config.heartbeat_timeout_ms)
