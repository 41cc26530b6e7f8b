"""What a recording tells of the order of Kafka's hash maps."""

from __future__ import annotations

from coordinator_state.classic import timers
from coordinator_state.timers import PUBLICATION, Timer
from group_coordinator.proving.recordings.coordinator_log import LogEntry
from group_coordinator.proving.recordings.hash_order import put_expiration_first
from tests.coordinator_state.harness import GroupHarness


def test_the_member_that_expired_first_is_first_also_in_a_group_that_waits_to_be_published() -> None:
    harness = GroupHarness()
    harness.stable("m0", "m1")
    group = harness.group
    assert group is not None
    deadline_ms = group.timers[timers.session("m1")].deadline_ms
    group.timers[PUBLICATION] = Timer(deadline_ms - 5_000, group.now_ms, 1)
    entry = LogEntry(time_ms=deadline_ms, kind="member expired", member_ids=frozenset({"m1"}))
    put_expiration_first(group, entry, deadline_ms)
    assert next(iter(group.timers)) == timers.session("m1")
    assert group.timers[PUBLICATION].deadline_ms == deadline_ms - 5_000
