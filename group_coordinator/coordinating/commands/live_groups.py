"""The groups as they change, followed on the assignments topic."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from sys import intern
from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar

import msgspec
from confluent_kafka import Message

from group_coordinator.ground.kafka_topics.errors import explaining
from group_coordinator.ground.kafka_topics.reader import TopicReader
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.watching.group_metrics.names import kept_name
from group_coordinator.watching.narrative import words
from schemas.history import GroupSnapshot, decode_snapshot

if TYPE_CHECKING:
    from streaming.application import ShardProgress


class GroupSize(NamedTuple):
    """What a status line needs of a group. Whole groups may have a megabyte each."""

    state: str
    members: int


def group_size(snapshot: GroupSnapshot) -> GroupSize:
    """Return what is needed of a group."""
    return GroupSize(intern(snapshot.state), len(snapshot.members))


_Kept = TypeVar("_Kept")


class LiveGroups(Generic[_Kept]):
    """`poll` it; `groups` has what is kept of the groups as they are now."""

    def __init__(self, config: ReaderSettings, keep: Callable[[GroupSnapshot], _Kept]) -> None:
        """`keep`: what is kept of a group."""
        self.groups: dict[str, _Kept] = {}
        """By `kept_name`."""
        self._keep = keep
        properties = config.client_properties
        self._reader = TopicReader(properties, "reader", reports_ends=False, waits_at_the_end=True)
        with explaining(properties):
            partitions = self._reader.partitions(config.topics.assignments)
            self._reader.assign({partition: self._reader.bounds(*partition).begin for partition in partitions})

    def poll(self, timeout_s: float) -> None:
        """Take in what is new, waiting for it at most this long."""
        messages = self._reader.poll(timeout_s)
        while messages:
            for message in messages:
                if message.error() is None:
                    self._take(message)
            messages = self._reader.poll(0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def _take(self, message: Message) -> None:
        value = message.value()
        try:
            snapshot = None if value is None else decode_snapshot(value)
            if snapshot is None or not snapshot.exists:
                self.groups.pop(kept_name((message.key() or b"").decode(errors="replace")), None)
            else:
                self.groups[kept_name(snapshot.group_id)] = self._keep(snapshot)
        except msgspec.DecodeError:
            return  # somebody else's record; it is no business of a display


WINDOW_S = 10.0


class StatusLine:
    """Puts the last batches of the shards and the groups into words; events per second are a mean over ten seconds."""

    def __init__(self) -> None:
        self._totals: deque[tuple[float, int]] = deque()

    def text(
        self,
        shards: Collection[ShardProgress],
        events: int,
        groups: Collection[GroupSize],
        now_s: float | None = None,
    ) -> str:
        """Return the status line. `shards` has the last batch of each shard, `events` the number of events since the
        start."""
        rate = self._rate(events, time.monotonic() if now_s is None else now_s)
        if not shards:
            return "waiting for the first batch"
        slowest_ms = max(shard.batch_ms for shard in shards)
        lag_ms = max(shard.clock_lag_ms for shard in shards)
        return (
            f"{words.count(len(groups), 'group')}{_states(groups)}, "
            f"{words.count(sum(group.members for group in groups), 'member')}, "
            f"{rate:.0f} events/s, batch {slowest_ms} ms, watermark lag {words.duration(lag_ms)}"
        )

    def _rate(self, events: int, now_s: float) -> float:
        totals = self._totals
        totals.append((now_s, events))
        while totals[0][0] < now_s - WINDOW_S and len(totals) > 1:
            totals.popleft()
        (since_s, before), elapsed_s = totals[0], now_s - totals[0][0]
        return (events - before) / elapsed_s if since_s < now_s else 0.0


def _states(groups: Collection[GroupSize]) -> str:
    counts = Counter(group.state for group in groups)
    return f" ({', '.join(f'{number} {state}' for state, number in sorted(counts.items()))})" if counts else ""
