"""What must hold of many consumers that come and go:
each rebalance has a known cause, nothing is lost, owners alone read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from schemas.history import (
    History,
    JoinPhaseCompleted,
    LeaderElected,
    MemberDropped,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    RebalanceCompleted,
    RebalanceStarted,
)

_REJOINS = frozenset({"leader_rejoined", "member_changed"})
"""What a member begins that is there already."""
FOLLOW_UP_MS = 60_000
"""Cooperative members do it when they have given up partitions (KIP-429): so long after the end of the rebalance that
took them at most."""
SYNC_TIMEOUT_MS = 30_000
"""Clients in Java do it when their SyncGroup has had no answer for so long, since the leader died after its JoinGroup.
"""


class Doings(Struct):
    """What was done to the members of a group, by client id: every start has one of its own."""

    is_cooperative: bool = False
    started: set[str] = set()
    closed: set[str] = set()
    killed: set[str] = set()
    gave_up: set[str] = set()
    """Clients in Go whose gateway was away: these drop their membership when nobody listens."""
    looked_anew: set[str] = set()
    """Clients in Java 4 whose gateway was away: where no address answers they forget what topics there are, and one
    that leads joins again."""
    away: range = range(0)
    """Where in the history that was, until all had come back."""


class _Course(Struct):
    """How far the last rebalance of a group has come, by the times at which that was written."""

    leader: str | None = None
    """Its client id."""
    completed_ms: int | None = None
    joined_ms: int | None = None

    def note(self, record: History) -> None:
        """Take what a record of the group says of it."""
        match record:
            case RebalanceCompleted():
                self.completed_ms = record.timestamp_ms
            case JoinPhaseCompleted():
                self.joined_ms = record.timestamp_ms
            case LeaderElected():
                self.leader = record.leader.client_id
            case _:
                pass


class Audit(Struct):
    """Of one run."""

    rebalances: Counter[str]
    """By trigger, of all groups."""
    problems: list[str]


def audit(doings: dict[str, Doings], history: Iterable[History], apart: Collection[str] = ()) -> Audit:
    """Hold what the coordinator wrote against what was done. `apart`: groups that are not held against anything; their
    records count in positions."""
    result = Audit(Counter(), [])
    joined: Counter[str] = Counter()
    courses: dict[str, _Course] = {}
    for position, record in enumerate(history):
        if record.group_id in apart:
            continue
        done = doings.get(record.group_id)
        if done is None:
            result.problems.append(f"{record.group_id} is nobody's group")
            continue
        is_away = position in done.away
        excused = done.gave_up if is_away else set()
        course = courses.setdefault(record.group_id, _Course())
        course.note(record)
        match record:
            case RebalanceStarted():
                result.rebalances[record.trigger] += 1
                if not (_is_explained(record, done, excused) or _is_rejoin(record, done, course, is_away=is_away)):
                    when = f"{record.group_id} at {_clock(record)}"
                    result.problems.append(f"{when}: a rebalance for no reason that is known: {record.reason}")
            case MemberJoined() if record.member.client_id not in excused:
                joined[record.member.client_id] += 1
            # Clients that are closed in the middle of a rebalance may go without a word.
            case MemberExpired() if record.member.client_id not in done.killed | done.closed:
                result.problems.append(
                    f"{record.group_id}: {record.member.client_id} expired, but nobody killed or closed it"
                )
            case MemberDropped() if record.member.client_id not in done.killed | done.closed:
                result.problems.append(f"{record.group_id}: {record.member.client_id} was dropped: it {record.reason}")
            case MemberLeft() if record.member.client_id not in done.closed | excused:
                result.problems.append(f"{record.group_id}: {record.member.client_id} left, but nobody closed it")
            case _:
                pass
    result.problems += [
        f"{client_id} joined {count} times: it lost its place" for client_id, count in joined.items() if count > 1
    ]
    return result


def _clock(record: History) -> str:
    """Return when it was, as the run's own lines tell the time."""
    return time.strftime("%H:%M:%S", time.localtime(record.timestamp_ms / 1_000))


def _is_explained(record: RebalanceStarted, done: Doings, excused: set[str]) -> bool:
    if record.member is None:
        return False
    if record.member.client_id in excused:
        return True
    causes = {"member_joined": done.started, "member_left": done.closed, "member_expired": done.killed | done.closed}
    return record.member.client_id in causes.get(record.trigger, ())


def _is_rejoin(record: RebalanceStarted, done: Doings, course: _Course, *, is_away: bool) -> bool:
    """Whether a member that is there already has cause to join again."""
    if record.trigger not in _REJOINS or record.member is None:
        return False
    if is_away and record.member.client_id == course.leader and course.leader in done.looked_anew:
        return True
    if record.interrupts is not None:  # nobody has an assignment yet
        waited_ms = record.timestamp_ms - (course.joined_ms or record.timestamp_ms)
        return course.leader in done.killed | done.closed and waited_ms >= SYNC_TIMEOUT_MS
    if not done.is_cooperative or course.completed_ms is None:
        return False
    return record.timestamp_ms - course.completed_ms < FOLLOW_UP_MS


def lost(produced: int, read: Collection[int]) -> Iterator[str]:
    """Numbers from 0 on that nobody has read."""
    missing = sorted(set(range(produced)).difference(read))
    if missing:
        yield f"{len(missing)} of {produced} records were not read, {missing[:5]} among them"
