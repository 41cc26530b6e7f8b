"""The records of where rebalances of a watched group begin and end, of whatever kind the group is."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

from group_coordinator.watching.observed.teller import Teller
from schemas.history import Certainty, MemberIdentity, RebalanceCompleted, RebalanceStarted, RebalanceTrigger


class Running(Struct):
    """A rebalance that goes on."""

    seq: int
    started_ms: int
    trigger: RebalanceTrigger
    is_begin_known: bool | UnsetType = UNSET
    join_ms: int | None = None
    """How long its join phase took; None: it goes on, or there is none."""
    dropped: list[str] = field(default_factory=list)


class Rebalances:
    """The rebalance that runs."""

    def __init__(self, teller: Teller) -> None:
        self._tell = teller
        self._running: Running | None = None
        self._interrupted: int | None = None
        """The rebalance that the next one cuts short."""

    def begin(
        self,
        trigger: RebalanceTrigger,
        member: MemberIdentity | None,
        reason: str,
        *,
        certainty: Certainty,
        initial: bool,
        caused_by: int | None,
        given_reason: str | None = None,
        at_ms: int | None = None,
    ) -> None:
        """Begin a rebalance. One that runs is interrupted by it."""
        self.complete("interrupted", at_ms)
        seq = self._tell.say(
            RebalanceStarted,
            at_ms=at_ms,
            certainty=certainty,
            caused_by=caused_by,
            given_reason=given_reason,
            trigger=trigger,
            member=member,
            reason=reason,
            initial=initial,
            waiting_for=(),
            deadline_ms=None,
            interrupts=self._interrupted,
        )
        self._running, self._interrupted = Running(seq, self._moment_ms(at_ms), trigger), None

    def complete(self, outcome: str, at_ms: int | None = None) -> bool:
        """End the rebalance that runs. Returns whether one did."""
        running = self._running
        if running is None:
            return False
        self._running = None
        self._tell.say(
            RebalanceCompleted,
            at_ms=at_ms,
            rebalance=running.seq,
            outcome=outcome,
            trigger=running.trigger,
            started_ms=running.started_ms,
            duration_ms=max(self._moment_ms(at_ms) - running.started_ms, 0),
            is_begin_known=running.is_begin_known,
            join_ms=running.join_ms,
            waited_for=(),
            slowest=None,
            dropped=tuple(running.dropped),
        )
        self._interrupted = running.seq if outcome == "interrupted" else None
        return True

    def _moment_ms(self, at_ms: int | None) -> int:
        return self._tell.at_ms if at_ms is None else at_ms
