"""What must hold of many consumers that come and go:
each rebalance has a known cause, nothing is lost, owners alone read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from schemas.history import History, MemberDropped, MemberExpired, MemberJoined, MemberLeft, RebalanceStarted

_FOLLOW_UPS = frozenset({"leader_rejoined", "member_changed"})
"""What cooperative members do when they have given up partitions (KIP-429), and never else."""
FOLLOW_UP_MS = 60_000
"""So long after another rebalance of their group at most."""


class Doings(Struct):
    """What was done to the members of a group, by client id: every start has one of its own."""

    is_cooperative: bool = False
    started: set[str] = set()
    closed: set[str] = set()
    killed: set[str] = set()
    gave_up: set[str] = set()
    """Clients in Go whose gateway was away: these drop their membership when nobody listens."""
    away: range = range(0)
    """Where in the history that was, until all had come back."""


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
    rebalanced_ms: dict[str, int] = {}
    for position, record in enumerate(history):
        if record.group_id in apart:
            continue
        done = doings.get(record.group_id)
        if done is None:
            result.problems.append(f"{record.group_id} is nobody's group")
            continue
        excused = done.gave_up if position in done.away else set()
        match record:
            case RebalanceStarted():
                result.rebalances[record.trigger] += 1
                since_ms = record.time_ms - rebalanced_ms.get(record.group_id, -FOLLOW_UP_MS)
                rebalanced_ms[record.group_id] = record.time_ms
                if not _is_explained(
                    record, done, excused, is_follow_up=done.is_cooperative and since_ms < FOLLOW_UP_MS
                ):
                    result.problems.append(
                        f"{record.group_id}: a rebalance for no reason that is known: {record.reason}"
                    )
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


def _is_explained(record: RebalanceStarted, done: Doings, excused: set[str], *, is_follow_up: bool) -> bool:
    if record.member is None:
        return False
    if record.member.client_id in excused:
        return True
    if record.trigger in _FOLLOW_UPS:
        return is_follow_up
    causes = {"member_joined": done.started, "member_left": done.closed, "member_expired": done.killed | done.closed}
    return record.member.client_id in causes.get(record.trigger, ())


def lost(produced: int, read: Collection[int]) -> Iterator[str]:
    """Numbers from 0 on that nobody has read."""
    missing = sorted(set(range(produced)).difference(read))
    if missing:
        yield f"{len(missing)} of {produced} records were not read, {missing[:5]} among them"
