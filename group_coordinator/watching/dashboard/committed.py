"""The committed offset of a partition, and the pace at which it moved: what its own past explains. Pure.

The past takes a few bytes: two moments, from which the speed follows, and the latest pauses. Shorter pauses than half a
minute are none, so a partition whose offset moves every few seconds has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import NamedTuple

from group_coordinator.ground.kafka_topics.bounds import Partition

PAUSES_KEPT = 8
PAUSE_MIN_MS = 30_000
PAUSE_EXPLAINS_MS = 86_400_000
"""An older pause explains nothing."""
FIRST_PAUSE_MAX_MS = 3_600_000
"""A first commit that comes so long after the assignment hardly is the first one: the topic is compacted."""
MOMENTS_APART_MS = 600_000
OVERTAKEN_MS = 2_000
"""Commits that went out together may come in another order: within so long the later one makes up for it."""
_MOMENT, _MOMENTS = Struct("=2q"), Struct("=4q")
_PAUSE = Struct("=4q")


class Pause(NamedTuple):
    """A time in which the offset did not move."""

    since_ms: int
    offset: int
    """Where it stood; -1: there was none yet."""
    until_ms: int
    next_offset: int
    """Where it went then."""


class Jump(NamedTuple):
    """A commit that went back; or one of nobody in the group that went on."""

    at_ms: int
    before: int
    """The offset that was committed before: of several that went back, the furthest."""
    offset: int
    who: str
    """Who did it, as the beginning of a sentence."""


class NearBegin(NamedTuple):
    """An offset in the older half of a log, from poll to poll: whether the begin of the log passes it."""

    offset: int
    """The committed one at the last poll."""
    polled_ms: int
    per_ms: float
    """So fast it went on between the last two polls."""
    lost: int = 0
    """Messages that were deleted before they were read, though it has gone on since."""
    since_ms: int = 0
    last_ms: int = 0
    """When they were first and last lost."""


class Growing(NamedTuple):
    """Lag that does not become less, from poll to poll."""

    since_ms: int
    lag: int
    lag_ms: int
    """It was so much at this time, and has not been less since."""
    polled_ms: int
    position: int
    """The committed offset at the last poll; of a member, all of its together."""
    moves: int = 0
    """So often that was another one."""


class ShareOffset(NamedTuple):
    """Where a share group stands in one partition."""

    start_offset: int
    """Of the first message that it is not done with; -1: nobody has begun to read there."""
    lag: int | None
    """Messages from there on that it is not done with; None: the broker does not count them."""


class Committed(NamedTuple):
    """The offset of one partition. A share group commits none: it has its start offset, as it was asked for."""

    offset: int
    committed_ms: int
    """0: nobody has committed it."""
    metadata: str
    moved_ms: int = 0
    """When the offset last became another one. Many clients commit the same again and again."""
    step: int = 0
    """By how much it last moved forward; 0: it is not known at which pace it moves."""
    past: bytes = b""
    share_lag: int | None = None
    """Of a share group, its lag, where its coordinator counts it."""

    def pauses(self) -> Iterator[Pause]:
        """Yield the latest pauses, the oldest first."""
        return map(Pause._make, _PAUSE.iter_unpack(self.past[_MOMENTS.size :]))

    def moment_before(self) -> tuple[int, int]:
        """Return when the offset stood where, before the last two times that ten minutes of the clock were over."""
        before_ms, before_offset = _MOMENT.unpack_from(self.past)
        return before_ms, before_offset


def of_share_group(
    offsets: Mapping[Partition, ShareOffset],
) -> tuple[dict[Partition, Committed], tuple[Partition, ...]]:
    """Return what a share group has in place of commits, and the partitions where it has not begun to read."""
    begun = {place: each for place, each in offsets.items() if each.start_offset >= 0}
    committed = {place: Committed(each.start_offset, 0, "", share_lag=each.lag) for place, each in begun.items()}
    return committed, tuple(place for place in offsets if place not in begun)


def next_commit(before: Committed | None, offset: int, at_ms: int, metadata: str, assigned_ms: int) -> Committed:
    """Return what is committed from now on. `assigned_ms`: when the group's partitions were last assigned; 0: not
    known."""
    if before is None:
        past, is_first = _MOMENTS.pack(at_ms, offset, at_ms, offset), 0 <= at_ms - assigned_ms <= FIRST_PAUSE_MAX_MS
        if is_first and at_ms - assigned_ms >= PAUSE_MIN_MS:
            past = _paused(past, Pause(assigned_ms, -1, at_ms, offset))
        return Committed(offset, at_ms, metadata, at_ms, int(is_first), past)
    if offset == before.offset:
        return Committed(offset, at_ms, metadata, before.moved_ms, before.step, before.past)
    past = before.past
    if offset < before.offset:
        past = _MOMENTS.pack(at_ms, offset, at_ms, offset) + past[_MOMENTS.size :]
        return Committed(offset, at_ms, metadata, at_ms, before.step, past)
    moved_ms = before.moved_ms
    if at_ms // MOMENTS_APART_MS > moved_ms // MOMENTS_APART_MS:
        past = past[_MOMENT.size : _MOMENTS.size] + _MOMENT.pack(at_ms, offset) + past[_MOMENTS.size :]
    if at_ms - moved_ms >= PAUSE_MIN_MS:
        past = _paused(past, Pause(moved_ms, before.offset, at_ms, offset))
    return Committed(offset, at_ms, metadata, at_ms, offset - before.offset, past)


def next_jump(jump: Jump | None, before: int, offset: int, at_ms: int, who: Callable[[], str]) -> Jump | None:
    """Return what is known of jumps after a commit that follows one of `before`. `who`: who did it."""
    is_open = jump is not None and jump.offset < jump.before and before < jump.before
    if offset < before:
        return Jump(at_ms, jump.before if jump is not None and is_open else before, offset, who())
    if jump is not None and is_open and offset >= jump.before and at_ms - jump.at_ms <= OVERTAKEN_MS:
        return None
    return jump


def _paused(past: bytes, pause: Pause) -> bytes:
    if len(past) >= _MOMENTS.size + PAUSES_KEPT * _PAUSE.size:
        past = past[: _MOMENTS.size] + past[_MOMENTS.size + _PAUSE.size :]
    return past + _PAUSE.pack(*pause)
