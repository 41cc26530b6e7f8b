"""What is uneven: a partition that gets most, a member that reads too slowly, a member with most of the partitions."""

from __future__ import annotations

from random import Random

import pytest

from group_coordinator.coordinating.assignors import ASSIGNORS
from group_coordinator.watching.dashboard.rows import GroupRow, group_row
from group_coordinator.watching.dashboard.settings import HealthSettings
from tests.watching.dashboard.lives import HOUR, MINUTE, POLL_MS, START_MS, Life, Plan, live, steady

SETTINGS = HealthSettings()


def rows(life: Life, until_ms: int, from_ms: int = 0) -> list[tuple[int, GroupRow]]:
    return [(at_ms, row) for at_ms, row in live(life, until_ms, SETTINGS, from_ms) if row.findings]


def test_a_partition_that_gets_more_than_is_read_is_found_within_two_minutes() -> None:
    plan = Plan(name="hot", traffic=steady(3), members=4, reads_per_s=30)
    life = Life(plan, Random(1))
    assert rows(life, HOUR) == []
    life.first_gets = 20
    found = rows(life, HOUR + 5 * MINUTE, HOUR)
    at_ms, row = found[0]
    assert at_ms <= HOUR + 2 * MINUTE + POLL_MS
    (finding,) = row.findings
    assert (row.verdict, finding.kind, finding.partition, finding.member) == ("uneven", "hot_partition", 0, "m0.1")
    assert finding.since is not None
    assert START_MS + HOUR <= finding.since <= START_MS + at_ms - MINUTE
    assert row.reason.startswith(f"{finding.messages:,} of ")
    assert " messages that wait in t wait in partition 0, one of 4, and it is m0.1's" in row.reason
    assert len(found) >= (5 * MINUTE - (at_ms - HOUR)) // POLL_MS - 1
