"""When a coordinator stood still: members that expired together then have that as their common cause.

A broker that stands still reads no heartbeats; when it goes on, its timers fire before it reads what waits. Nothing
says so. It is inferred where all of this holds: the broker's log has no line for a while; the partitions of the offsets
topic that it leads got records before, and none meanwhile; several members expire within a moment of its end; and their
sessions had not all begun at one time, as those of members that died at once right after a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.observed.ahead import DumpEnd

_AFTER_MS = 1_000
"""So soon after the standstill members expire ..."""
_APART_MS = 250
"""... and so soon after each other."""
_SESSION_MS = 600
"""So exact is the end of a session whose beginning is told."""
_SHORTEST_MS = 2_000
_TICK_MS = 100
_ACTIVE_MIN = 2
"""In so many of these before the standstill there were records."""
_KEPT_MAX = 1_024
"""Expiries and silences of each broker, and ticks of each partition that have records: the newest."""

Begin = line_events.GroupLoaded | line_events.JoinPhaseEnded | line_events.AssignmentTaken
"""What begins the sessions of all members of a group."""


class Silence(Struct, frozen=True, order=True):
    """A time without lines in a broker's log."""

    since_ms: int
    until_ms: int


class Expiry(Struct, frozen=True, order=True):
    """A member that expired."""

    at_ms: int
    group_id: str
    member_id: str


class Standstill(Struct, frozen=True):
    """A time in which a broker stood still, and the members that expired by it."""

    broker: int
    silence: Silence
    expiries: tuple[Expiry, ...]

    @property
    def group_ids(self) -> list[str]:
        """The groups of these members."""
        return list(dict.fromkeys(expiry.group_id for expiry in self.expiries))

    def first_line(self, lines: Iterable[BrokerLine]) -> BrokerLine | None:
        """Return the line of the first of its members that expired."""
        members = {(expiry.at_ms, expiry.member_id) for expiry in self.expiries}
        of_members = [
            line for line in lines if line.broker == self.broker and (line.time_ms, expired_member(line)) in members
        ]
        return min(of_members, key=lambda line: (line.time_ms, line.file, line.number), default=None)

    def line_for(self, first: BrokerLine) -> BrokerLine:
        """Return what it tells of a group, before the line of the first of its members that expired."""
        event = line_events.BrokerStoodStill(
            group_id=first.event.group_id,
            since_ms=self.silence.since_ms,
            until_ms=self.silence.until_ms,
            member_ids=tuple(expiry.member_id for expiry in self.expiries if expiry.group_id == first.event.group_id),
            members=len(self.expiries),
            groups=len(self.group_ids),
        )
        return replace(first, event=event)


def expired_member(line: BrokerLine) -> str | None:
    """Return the member that a line says has expired."""
    match line.event:
        case line_events.MemberFailed():
            return line.event.member_id
        case line_events.MemberFencedOut() if line.event.is_expiry:
            return line.event.member_id
        case _:
            return None


class StandstillState(Struct, frozen=True, kw_only=True):
    """What `Standstills` keeps, over a restart."""

    silences: dict[int, list[Silence]]
    """By broker, as the next."""
    expiries: dict[int, list[Expiry]]
    active: dict[int, list[int]]


class Standstills:
    """Those of all brokers."""

    def __init__(self) -> None:
        self._silences: dict[int, dict[Silence, None]] = {}
        self._expiries: dict[int, dict[Expiry, None]] = {}
        self._active: dict[int, dict[int, None]] = {}
        """Partition -> the ticks in which it got records."""
        self._last_ms: dict[int, int] = {}
        """Partition -> the latest time of its records, since the start."""

    def line(self, line: BrokerLine) -> None:
        """Take a line of a broker's log."""
        member_id, broker = expired_member(line), line.broker
        if broker is None:
            return
        if isinstance(line.event, line_events.LogSilent):
            _keep(self._silences.setdefault(broker, {}), Silence(line.event.since_ms, line.event.until_ms))
        elif member_id is not None:
            _keep(self._expiries.setdefault(broker, {}), Expiry(line.time_ms, line.event.group_id, member_id))

    def record(self, partition: int, timestamp_ms: int) -> None:
        """Note when a record was written."""
        _keep(self._active.setdefault(partition, {}), timestamp_ms // _TICK_MS)
        self._last_ms[partition] = max(timestamp_ms, self._last_ms.get(partition, 0))

    def dump_end(self, partition: int, lines_until_ms: int | None) -> DumpEnd | None:
        """Return where the records end, as far as a group of this partition goes; None where more may come."""
        if lines_until_ms is None:
            return None
        return DumpEnd(self._last_ms.get(partition, 0), max(self._last_ms.values(), default=0), lines_until_ms)

    def state(self) -> StandstillState:
        """Return all that is kept."""
        return StandstillState(
            silences={broker: list(silences) for broker, silences in self._silences.items()},
            expiries={broker: list(expiries) for broker, expiries in self._expiries.items()},
            active={partition: list(ticks) for partition, ticks in self._active.items()},
        )

    def restore(self, state: StandstillState) -> None:
        """Take what `state` gave before a restart."""
        self._silences = {broker: dict.fromkeys(silences) for broker, silences in state.silences.items()}
        self._expiries = {broker: dict.fromkeys(expiries) for broker, expiries in state.expiries.items()}
        self._active = {partition: dict.fromkeys(ticks) for partition, ticks in state.active.items()}

    def candidates(self) -> list[Standstill]:
        """Return silences after which several members expired at once."""
        found = []
        for broker, silences in self._silences.items():
            expiries = sorted(self._expiries.get(broker, ()))
            for silence in sorted(silences):
                together: list[Expiry] = []
                for expiry in expiries:
                    last_ms = together[-1].at_ms + _APART_MS if together else silence.until_ms + _AFTER_MS
                    if silence.until_ms <= expiry.at_ms <= last_ms:
                        together.append(expiry)
                if len(together) > 1:
                    found.append(Standstill(broker, silence, tuple(together)))
        return found

    def confirmed(
        self,
        candidate: Standstill,
        partitions: Iterable[int],
        sessions: Mapping[str, int],
        begins_ms: Mapping[str, Sequence[int]],
        written_ms: Iterable[int],
        skew_ms: int,
    ) -> Standstill | None:
        """Return the standstill, if it was one: from the last line or record on. `partitions`: those that the broker
        leads. `sessions`: by member, where they are known. `begins_ms`: by group, when all its sessions began.
        `written_ms`: the times of records of its members' groups, as far as they are kept. `skew_ms`: of the broker's
        log."""
        until_ms = candidate.silence.until_ms
        ticks = {tick for partition in partitions for tick in self._active.get(partition, ())}
        ticks.update(at_ms // _TICK_MS for at_ms in written_ms)
        active = {tick * _TICK_MS + skew_ms for tick in ticks}
        since_ms = max([candidate.silence.since_ms, *(at_ms for at_ms in active if at_ms + _TICK_MS < until_ms)])
        length_ms = until_ms - since_ms
        known = [sessions[expiry.member_id] for expiry in candidate.expiries if expiry.member_id in sessions]
        if length_ms < max(_SHORTEST_MS, min(known, default=0) // 2):
            return None
        began_apart = [
            expiry
            for expiry in candidate.expiries
            if not any(
                abs(expiry.at_ms - begin_ms - sessions.get(expiry.member_id, 0)) <= _SESSION_MS
                for begin_ms in begins_ms.get(expiry.group_id, ())
            )
        ]
        before = [at_ms for at_ms in active if since_ms - 2 * length_ms <= at_ms <= since_ms]
        if len(began_apart) < 2 or len(before) < _ACTIVE_MIN:
            return None
        return Standstill(candidate.broker, Silence(since_ms, until_ms), candidate.expiries)


_Kept = TypeVar("_Kept", Silence, Expiry, int)


def _keep(kept: dict[_Kept, None], item: _Kept) -> None:
    """Add an item. Of too many the oldest are dropped, whatever the order in which they came."""
    kept[item] = None
    if len(kept) > 2 * _KEPT_MAX:
        newest = sorted(kept)[-_KEPT_MAX:]
        kept.clear()
        kept.update(dict.fromkeys(newest))
