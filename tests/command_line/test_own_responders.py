"""What `run` waits for at its end: the query decides what its responders have answered."""

from __future__ import annotations

import pytest

from group_coordinator.command_line.own_responders import undecided
from streaming.watcher import ShardProgress


def batch(shard: int, end_offset: int | None) -> ShardProgress:
    return ShardProgress(
        shard=shard, batch_id=1, batch_ms=1, phases_ms={}, events=1, events_per_second=1.0, start_offset=0,
        end_offset=end_offset, groups=1, state_memory_bytes=0, state_disk_bytes=0, clock_ms=0, clock_lag_ms=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("decided", "left"),
    [
        ({}, {0: 10, 1: 4}),
        ({0: batch(0, 7)}, {0: 3, 1: 4}),
        ({0: batch(0, None), 1: batch(1, 4)}, {0: 10}),
        ({0: batch(0, 12), 1: batch(1, 4)}, {}),
    ],
)
def test_what_is_left_to_decide(decided: dict[int, ShardProgress], left: dict[int, int]) -> None:
    assert undecided({0: 10, 1: 4}, decided) == left
