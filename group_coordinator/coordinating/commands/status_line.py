"""One line that says how the coordinator is doing."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection
from typing import TYPE_CHECKING

from group_coordinator.coordinating.commands.live_groups import GroupSize
from group_coordinator.watching.narrative import words

if TYPE_CHECKING:
    from streaming.application import ShardProgress

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
