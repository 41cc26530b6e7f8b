"""When the sessions of members really ended: brokers' logs tell it, and answers show of some that they had not.

A broker that stands still counts no session, and a log may have lost the lines in which a member was heard. So where a
session seems to be over, a line that tells of the member's expiry, or a later answer that all is well, is right.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from coordinator_state import ClassicGroup, Group
from coordinator_state.classic import timers
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.timers import Timer
from group_coordinator.proving.recordings.coordinator_log import EMPTY, LogEntry
from group_coordinator.proving.recordings.group_requests import GroupRequest
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.messages import LeaveGroupRequest

WELL_MS = 250
"""So long after the answer that shows it a session goes on, should the answer have been decided late."""
JOIN_PHASE_LATE_MS = 5_000
"""How late a broker may come to the end of a join phase: its thread writes records of other groups before."""
_ENDS_OF_PHASES = frozenset({"join phase ends", EMPTY})
_OF_MEMBERS = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat"})
_OF_A_MEMBER = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
"""Only one that is in the group is answered so."""


class Heard(Struct, frozen=True):
    """A member was answered."""

    at_ms: int
    is_well: bool
    """The answer shows that it was in the group before the request."""


class SessionEnds:
    """Those of one group."""

    def __init__(
        self,
        requests: Iterable[GroupRequest] = (),
        entries: Iterable[LogEntry] | None = None,
        standstills_ms: Sequence[tuple[int, int]] = (),
        undone_ms: Sequence[tuple[int, int]] = (),
    ) -> None:
        """`entries`: of brokers' logs. `standstills_ms`: from when until when the brokers counted no time. `undone_ms`:
        since when loads of the group undid what had happened, and when they did: no session ended there."""
        self._heard: dict[str, list[Heard]] = {}
        for request in requests:
            for member_id, heard in answers_of(request):
                self._heard.setdefault(member_id, []).append(heard)
        for answers in self._heard.values():
            answers.sort(key=lambda heard: heard.at_ms)
        self._expiries: dict[str, list[int]] = {}
        self._told: list[tuple[int, str]] = []
        for entry in entries or ():
            for member_id in entry.member_ids if entry.kind == "member expired" else ():
                self._expiries.setdefault(member_id, []).append(entry.time_ms)
                self._told.append((entry.time_ms, member_id))
        self._standstills_ms = standstills_ms
        self._undone_ms = undone_ms

    def end_ms(self, member_id: str, timer: Timer) -> int:
        """Return when a member's session ends that is over by its timer."""
        end_ms = self._end_ms(member_id, timer)
        return next((loaded_ms for from_ms, loaded_ms in self._undone_ms if from_ms <= end_ms <= loaded_ms), end_ms)

    def _end_ms(self, member_id: str, timer: Timer) -> int:
        expiries = self._expiries.get(member_id, ())
        place = bisect_left(expiries, timer.armed_ms)
        if place < len(expiries):
            return expiries[place]
        answers = self._heard.get(member_id, [])
        place = bisect_right(answers, timer.deadline_ms, key=lambda heard: heard.at_ms)
        if place < len(answers) and answers[place].is_well:
            return answers[place].at_ms + WELL_MS
        for from_ms, until_ms in self._standstills_ms:
            if from_ms < timer.deadline_ms < until_ms:
                return until_ms
        return timer.deadline_ms

    def is_told(self, member_id: str, timer: Timer) -> bool:
        """Return whether a broker's log tells that the member expired in this session."""
        expiries = self._expiries.get(member_id, ())
        return bisect_left(expiries, timer.armed_ms) < len(expiries)

    def moved(self, group: Group, after_ms: int, until_ms: int, due_ms: int | None) -> dict[str, int]:
        """Return whose sessions end at another time than here, and when, of those that are over by a time here or
        there. `due_ms`: when the group's next timer fires."""
        ends_ms = {member_id: told_ms for told_ms, member_id in self.told_until(after_ms, until_ms)}
        if due_ms is not None and due_ms <= until_ms:
            for name, timer in group.timers.items():
                member_id = timers.member_of(name)
                if member_id is not None and timer.deadline_ms <= until_ms:
                    ends_ms[member_id] = self.end_ms(member_id, timer)
        return {
            member_id: end_ms
            for member_id, end_ms in ends_ms.items()
            if (armed := group.timers.get(timers.session(member_id))) is not None
            and armed.deadline_ms != end_ms
            and is_bound(group, member_id)
        }

    def told_until(self, after_ms: int, until_ms: int) -> Iterator[tuple[int, str]]:
        """Yield when members expired after a time and until another, as brokers' logs tell it."""
        place = bisect_right(self._told, after_ms, key=lambda told: told[0])
        for time_ms, member_id in self._told[place:]:
            if time_ms > until_ms:
                return
            yield time_ms, member_id


def join_phase_timer(group: Group, until_ms: int) -> Timer | None:
    """Return the timer of a join phase that is over by a time."""
    timer = group.timers.get(timers.JOIN) if type(group.body) is ClassicGroup else None
    return timer if timer is not None and timer.deadline_ms <= until_ms else None


def join_phase_end_ms(group: Group, timer: Timer, entries: Iterable[LogEntry]) -> int:
    """Return when the broker fired the timer of a join phase, as its log tells it."""
    body, deadline_ms = group.body, timer.deadline_ms
    assert type(body) is ClassicGroup
    if body.initial_join is not None and body.initial_join[0] and body.new_member_added:
        return deadline_ms  # the phase is prolonged
    number, until_ms = body.generation_id + 1, deadline_ms + JOIN_PHASE_LATE_MS
    told = (entry.time_ms for entry in entries if entry.kind in _ENDS_OF_PHASES and entry.generation == number)
    return next((at_ms for at_ms in told if deadline_ms <= at_ms <= until_ms), deadline_ms)


def answers_of(request: GroupRequest) -> Iterator[tuple[str, Heard]]:
    """Yield what the answer to a request shows of members."""
    body, logged = request.request, request.logged
    at_ms = logged.ready_us // 1000
    if request.set_aside is not None:
        return
    if isinstance(body, LeaveGroupRequest):
        results = request.response.get("members") or [request.response] * len(body.members)
        for member, result in zip(body.members, results, strict=False):
            if member.member_id:
                is_well = ErrorCode.NONE in (request.response.get("errorCode"), result.get("errorCode"))
                yield member.member_id, Heard(at_ms, is_well and result.get("errorCode") == ErrorCode.NONE)
    elif logged.api in _OF_MEMBERS and (member_id := getattr(body, "member_id", "")):
        joins_anew = isinstance(body, ConsumerGroupHeartbeatRequest) and body.member_epoch == JOIN_EPOCH
        codes = request.error_codes
        yield member_id, Heard(at_ms, bool(codes) and not joins_anew and codes <= _OF_A_MEMBER)


def is_bound(group: Group, member_id: str) -> bool:
    """Return whether the end of its session would put the member out: not while it waits for an answer."""
    body = group.body
    member = body.members.get(member_id) if type(body) is ClassicGroup else None
    return member is None or not member.satisfies_heartbeat


def assumed_sessions(group: Group | None, deadline_ms: int) -> list[tuple[str, Timer]]:
    """Return which sessions end at a time, of those whose length no request tells: it is a setting of the broker."""
    if group is None or type(group.body) is not ConsumerGroup:
        return []
    if group.configuration is not None and group.configuration.consumer_session_timeout_ms is not None:
        return []
    sessions = []
    for member_id, member in group.body.members.items():
        timer = group.timers.get(timers.session(member_id))
        told_ms = None if member.classic is None else member.classic.session_timeout_ms
        if timer is not None and timer.deadline_ms == deadline_ms and deadline_ms - timer.armed_ms != told_ms:
            sessions.append((member_id, timer))
    return sessions
