"""The small words that all sentences share: times, durations, names, counts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo

from schemas.history import AssignedTopic, Cause, MemberIdentity, OffsetChange

NAMES_SHOWN = 5
CONNECTOR = -1
"""In place of a partition: a connector of Kafka Connect itself, beside its tasks."""
_KIP_848_ID = re.compile(r"[A-Za-z0-9_/+-]{22}")
_UUID_TAIL = re.compile(r"-([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


def clock(time_ms: int, zone: tzinfo = UTC) -> str:
    """Return the time of day: `02:14:07`."""
    return _datetime(time_ms, zone).strftime("%H:%M:%S")


def precise_clock(time_ms: int, zone: tzinfo = UTC) -> str:
    """Return the time of day to the millisecond: `02:14:07.250`."""
    return f"{clock(time_ms, zone)}.{time_ms % 1000:03}"


def day(time_ms: int, zone: tzinfo = UTC) -> str:
    """Return the date: `2026-11-21`."""
    return _datetime(time_ms, zone).strftime("%Y-%m-%d")


def duration(duration_ms: int) -> str:
    """Return a length of time in words: `850 ms`, `10.2 s`, `2 min 5 s`, `3 h 10 min`, `8 days 2 h`."""
    seconds = abs(duration_ms) // 1000
    if seconds < 60:
        text = f"{abs(duration_ms)} ms" if seconds == 0 else f"{abs(duration_ms) // 100 / 10:g} s"
    elif seconds < 3_600:
        text = _two(seconds // 60, "min", seconds % 60, "s")
    elif seconds < 86_400:
        text = _two(seconds // 3_600, "h", seconds % 3_600 // 60, "min")
    else:
        days = seconds // 86_400
        text = _two(days, "day" if days == 1 else "days", seconds % 86_400 // 3_600, "h")
    return f"-{text}" if duration_ms < 0 else text


def name(member_id: str) -> str:
    """Return a readable member id: eight characters are left of the UUID that it ends with, or is (KIP-848)."""
    if _KIP_848_ID.fullmatch(member_id):
        return member_id[:8]
    return _UUID_TAIL.sub(r"-\1", member_id) or "a client without a member id"


def member(identity: MemberIdentity) -> str:
    """Return a recognizable name of a member: member ids of KIP-848 have nothing of the client's name in them."""
    if identity.client_id and _KIP_848_ID.fullmatch(identity.member_id):
        return f"{identity.client_id} ({name(identity.member_id)})"
    return name(identity.member_id)


def client(cause: Cause) -> str:
    """Return who sent a request, as a client; the coordinator, where it was no request."""
    if cause.client_id is None:
        return "a client" if cause.kind == "observed" else "the coordinator"
    return f"client {cause.client_id or '(no id)'} ({cause.client_host})"


def names(member_ids: Iterable[str]) -> str:
    """Return members as a list in a sentence; of many members the first ones and how many more."""
    return listed([name(member_id) for member_id in member_ids])


def listed(texts: Sequence[str], shown_max: int = NAMES_SHOWN) -> str:
    """Return `a, b and c`, or `a, b and 7 more`."""
    if len(texts) > shown_max:
        return f"{', '.join(texts[:shown_max])} and {len(texts) - shown_max} more"
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)


def patterns_wait(patterns: Sequence[str]) -> str:
    """Return that subscriptions by these patterns give nothing yet (KIP-848: the coordinator resolves them)."""
    if len(patterns) == 1:
        return f"the pattern {patterns[0]} waits for its resolution: nothing is assigned by it"
    return f"the patterns {listed(patterns)} wait for their resolution: nothing is assigned by them"


def count(number: int, noun: str) -> str:
    """Return `1 member`, `3 members`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ranges(partitions: Iterable[int]) -> str:
    """Return partition numbers with neighbours together: `0-2, 5`. Of Kafka Connect they are tasks, and `connector`."""
    runs: list[list[int]] = []
    numbers = sorted(partitions)
    for partition in numbers:
        if partition == CONNECTOR:
            continue
        if runs and partition == runs[-1][1] + 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    texts = ["connector"] if CONNECTOR in numbers else []
    return ", ".join(texts + [str(first) if first == last else f"{first}-{last}" for first, last in runs])


def owned(topics: tuple[AssignedTopic, ...] | None) -> str:
    """Return a member's partitions: `payments 0-2, 5; refunds 1`."""
    if topics is None:
        return "something that is no consumer assignment"
    return "; ".join(f"{topic.topic} {ranges(topic.partitions)}" for topic in topics if topic.partitions) or "nothing"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit}" + (f" {small} {small_unit}" if small else "")


def _datetime(time_ms: int, zone: tzinfo) -> datetime:
    """Milliseconds since 1970 as a date; what lies beyond the calendar is shown at its end."""
    return datetime.fromtimestamp(min(max(time_ms, 0) // 1000, 253_402_300_799 - 86_400), zone)


def committed(changes: Iterable[OffsetChange]) -> str:
    """Return partitions with their new offsets: `t-0 at 5, t-1 at 3 (back from 7)`."""
    return listed([_committed(change) for change in changes])


def _committed(change: OffsetChange) -> str:
    text = f"{change.topic}-{change.partition} at {change.offset}"
    if change.previous_offset is not None and change.offset is not None and change.offset < change.previous_offset:
        return f"{text} (back from {change.previous_offset})"
    return text


def removed(changes: Iterable[OffsetChange]) -> str:
    """Return partitions with the offsets that they had: `t-0 (was 5), t-1 (was pending)`."""
    return listed([f"{change.topic}-{change.partition} (was {_previous(change)})" for change in changes])


def _previous(change: OffsetChange) -> str:
    return "pending" if change.previous_offset is None else str(change.previous_offset)
