"""What lines of brokers' logs tell of groups that have epochs, until the records come that they tell of."""

from __future__ import annotations

from typing import Any, Literal

from group_coordinator.watching.broker_logs import broker_lines as line_events
from schemas.consumer_group_history import EpochReason
from schemas.history import HistoryRecord, MemberDropped, MemberExpired, MemberLeft
from schemas.observed_history import MemberGone

_TOO_SLOW: dict[str, Literal["did_not_revoke", "did_not_rejoin", "did_not_sync"]] = {
    "transition": "did_not_revoke", "join": "did_not_rejoin", "sync": "did_not_sync",
}  # fmt: skip
"""A word of the broker's -> what the member did not do in time."""


Stalled = tuple[int, int]
"""The record of history that says that a coordinator stood still, and its broker."""


class Hints:
    """What lines tell, until the records come that they tell of."""

    def __init__(self) -> None:
        self.departed: dict[str, line_events.LineEvent] = {}
        """How members went."""
        self.assignors: dict[int, str] = {}
        """Epoch -> the assignor of its target assignment."""
        self.stalled: dict[str, Stalled] = {}
        """Members that expired because their coordinator stood still."""

    def forget(self) -> None:
        """Forget what was told of records that were never written: their coordinator was gone before."""
        self.departed.clear()
        self.assignors.clear()

    def line(self, event: line_events.LineEvent) -> None:
        """Take a line of a broker's log."""
        match event:
            case line_events.MemberDeparted() | line_events.MemberFencedOut():
                self.departed[event.member_id] = event
            case line_events.TargetComputed():
                self.assignors[event.epoch] = event.assignor
            case _:
                pass


def how(event: line_events.LineEvent | None) -> tuple[EpochReason, type[HistoryRecord], dict[str, Any], str]:
    """Return how a member went by what a line says of it: the reason, the record with its fields, the words."""
    match event:
        case line_events.MemberDeparted():
            return "member_left", MemberLeft, {"given_reason": event.client_reason}, "left"
        case line_events.MemberFencedOut(is_expiry=True):
            return "member_expired", MemberExpired, {"last_heard_ms": None, "session_timeout_ms": None}, "expired"
        case line_events.MemberFencedOut():
            slow = next((reason for word, reason in _TOO_SLOW.items() if word in event.why), None)
            fields = {"reason": slow or "fenced", "given_reason": event.why}
            return "member_dropped", MemberDropped, fields, "was too slow" if slow else "was fenced"
        case _:
            told = {"certainty": "not_known"}
            return "member_gone", MemberGone, told, "is gone: left or expired, not known which"
