"""An answer to a heartbeat may come after the gateway gave it up; it is then given to a newer heartbeat.

librdkafka renews its own session only when it hears NONE or REBALANCE_IN_PROGRESS. After a pause of the coordinator of
a little less than a session it would give up a membership that the coordinator never doubted. So a late answer goes to
the newer heartbeat of the same member in the same generation, if one waits. The answer is true of the log: the member
was current there. Late answers with other codes are dropped: the newer heartbeat gets its own.
"""

from __future__ import annotations

from group_coordinator.ground.digests import digest
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatRequest

_KEPT_S = 120.0
_HEARTBEATS_MAX = 10_000
_VALID_FOR_OTHERS = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat_key(request: HeartbeatRequest) -> bytes:
    """Return the same key for all heartbeats of a member in a generation; all keys have the same length."""
    return digest(request.group_id, str(request.generation_id), request.member_id, request.group_instance_id)


class LateHeartbeats:
    """The heartbeats are kept for a while; the time comes with each call."""

    def __init__(self) -> None:
        self._heartbeats: dict[str, tuple[bytes, float]] = {}
        """By request id, the oldest first: the heartbeat's name, and until when it is kept."""

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._heartbeats

    def keep(self, request_id: str, heartbeat: bytes, now_s: float) -> None:
        """Keep a heartbeat that was answered without the coordinator."""
        self._heartbeats[request_id] = heartbeat, now_s + _KEPT_S
        if len(self._heartbeats) > _HEARTBEATS_MAX:
            del self._heartbeats[next(iter(self._heartbeats))]

    def sweep(self, now_s: float) -> None:
        """Forget the heartbeats whose time is over."""
        while self._heartbeats:
            oldest = next(iter(self._heartbeats))
            if self._heartbeats[oldest][1] > now_s:
                return
            del self._heartbeats[oldest]

    def take(self, request_id: str, error_code: ErrorCode) -> bytes | None:
        """Return the key of the heartbeat that is answered now; None if it is unknown, or its answer is valid for no
        other."""
        heartbeat = self._heartbeats.pop(request_id, None)
        return None if heartbeat is None or error_code not in _VALID_FOR_OTHERS else heartbeat[0]
