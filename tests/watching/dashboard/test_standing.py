"""Partitions that do not move: each planted fault is found in its time; a week of ordinary lives raises no alarm."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition, Reach
from group_coordinator.watching.commands.observed_source import observed_source
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.committed import PAUSES_KEPT, next_commit
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.settings import HealthSettings
from schemas.events import encode_json
from schemas.history import OffsetsCommitted
from tests.watching.dashboard.lives import (
    DAY,
    HOUR,
    MINUTE,
    POLL_MS,
    SECOND,
    START_MS,
    Life,
    Plan,
    bursts,
    by_day,
    live,
    steady,
)
from tests.watching.observed.recorded import CLUSTERS

SETTINGS = HealthSettings()
FLOOR_MS = SETTINGS.stalled_after_ms
ORDINARY = [
    Plan(name="steady", traffic=steady(20), members=2, deploys_every_ms=9 * HOUR),
    Plan(name="java", traffic=by_day(50), commits_same=True, deploys_every_ms=11 * HOUR, restore_ms=4 * MINUTE),
    Plan(name="night", traffic=by_day(10, 0.002), deploys_every_ms=8 * HOUR, markers=True),
    Plan(name="rare", traffic=steady(0.01), markers=True),
    Plan(name="bursts", traffic=bursts(40_000, HOUR), reads_per_s=100, deploys_every_ms=7 * HOUR),
    Plan(name="behind-by-day", traffic=by_day(300), reads_per_s=100, kept_ms=2 * DAY),
    Plan(name="each-thousand", traffic=by_day(20, 0.01), commits_every_messages=1_000, learns_ms=3 * HOUR),
    Plan(
        name="thousands-in-bursts", traffic=bursts(5_300, 30 * MINUTE, 0.05), commits_every_messages=1_000,
        learns_ms=2 * HOUR,
    ),
    Plan(
        name="each-ten-minutes", traffic=by_day(5, 0.1), commits_every_ms=10 * MINUTE, begins_ms=HOUR,
        learns_ms=20 * MINUTE,
    ),
    Plan(name="each-hour", traffic=bursts(900, 3 * HOUR, 0.02), commits_every_ms=50 * MINUTE, learns_ms=4 * HOUR),
    Plan(name="deployed-often", traffic=steady(5), members=6, deploys_every_ms=HOUR, restore_ms=30 * SECOND),
    Plan(name="short-retention", traffic=steady(50), kept_ms=10 * MINUTE, deploys_every_ms=6 * HOUR),
    Plan(name="skewed", traffic=by_day(2, 0.01), members=4, first_gets=40, deploys_every_ms=9 * HOUR),
    Plan(
        name="skewed-bursts", traffic=bursts(2_000, HOUR, 0.2), members=3, first_gets=20, reads_per_s=100,
        deploys_every_ms=5 * HOUR,
    ),
    Plan(
        name="lazy-each-at-its-time", traffic=steady(20), members=5, commits_every_messages=2_000,
        deploys_every_ms=10 * HOUR, learns_ms=2 * HOUR,
    ),
    Plan(name="overtaken", traffic=steady(30), members=2, overtaken=True, deploys_every_ms=8 * HOUR),
    Plan(name="from-the-beginning", traffic=steady(50), kept_ms=6 * HOUR, begins_ms=20 * HOUR, reads_per_s=400),
]




def alarms(life: Life, until_ms: int, from_ms: int = 0) -> list[tuple[int, Group]]:
    """Return the polls at which something is wrong."""
    polls = live(life, until_ms, SETTINGS, from_ms)
    return [(at_ms, row) for at_ms, row in polls if row.findings]


@pytest.mark.parametrize("plan", ORDINARY, ids=[plan.name for plan in ORDINARY])
def test_a_week_of_an_ordinary_life_raises_no_alarm(plan: Plan) -> None:
    life, learnt_ms = Life(plan, Random(plan.name)), plan.begins_ms + plan.learns_ms
    alarms(life, learnt_ms)
    assert [(at_ms, row.reason) for at_ms, row in alarms(life, 7 * DAY, learnt_ms)] == []


@pytest.mark.parametrize("plan", ORDINARY[:7], ids=[plan.name for plan in ORDINARY[:7]])
@pytest.mark.parametrize("fault", ["stuck_from_ms", "silent_from_ms"])
def test_who_stops_is_found_in_time(plan: Plan, fault: str) -> None:
    """By the floor, or three of its own pauses, and as soon as more waits than it reads for a commit."""
    life = Life(replace(plan, deploys_every_ms=None), Random(plan.name))
    alarms(life, plan.learns_ms)
    stops_ms = 5 * HOUR + 4 * MINUTE
    getattr(life, fault)[0] = stops_ms
    found = alarms(life, stops_ms + (8 if plan.name == "rare" else 2) * FLOOR_MS, plan.learns_ms)
    assert found
    at_ms, row = found[0]
    assert stops_ms < at_ms
    (finding,) = row.findings
    assert (row.verdict, finding.kind, finding.partition) == ("stalled", "stalled", 0)
    assert finding.since_ms is not None
    assert abs(finding.since_ms - START_MS - stops_ms) <= 4 * POLL_MS
    assert row.reason.startswith("m0.1 stands still in t-0 at offset ")
    how = "that same offset again and again" if finding.is_committed_again else "nothing since"
    assert row.reason.endswith(f"; it commits {how}; no rebalance was near")
    assert finding.is_committed_again == (plan.commits_same and fault == "silent_from_ms")


def test_who_never_commits_is_found_when_messages_come() -> None:
    life = Life(Plan(name="polls", traffic=steady(10), begins_ms=HOUR), Random(1))
    life.silent_from_ms[0] = 0
    at_ms, row = alarms(life, HOUR + FLOOR_MS + 4 * POLL_MS)[0]
    assert HOUR + FLOOR_MS < at_ms <= HOUR + FLOOR_MS + 4 * POLL_MS
    assert row.findings[0].committed_offset is None
    assert (row.lag, row.uncommitted_partitions) == (0, 1)
    assert row.uncommitted_messages > row.findings[0].messages
    assert "m0.1 has committed nothing for t-0, where " in row.reason


def test_messages_from_before_the_assignment_say_nothing_of_who_never_commits() -> None:
    """`auto.offset.reset` may have passed over them."""
    life = Life(Plan(name="latest", traffic=lambda at_ms, _: int(at_ms < HOUR), begins_ms=2 * HOUR), Random(1))
    life.silent_from_ms[0] = 0
    assert alarms(life, 5 * HOUR) == []


def test_a_transaction_that_hangs_is_told_apart() -> None:
    life = Life(ORDINARY[0], Random(2))
    alarms(life, HOUR)
    life.stable_ends[1] = life.logs[1].end
    polls = list(live(life, HOUR + 3 * FLOOR_MS, SETTINGS, HOUR))
    assert all(row.found("stalled") == 0 for _, row in polls)
    _, row = polls[-1]
    assert (row.verdict, [finding.kind for finding in row.findings]) == ("stable", ["transaction"])
    assert row.reason.endswith("; t-1 can be read up to a transaction that does not end")


def test_a_standstill_that_begins_with_a_rebalance_says_so() -> None:
    life = Life(replace(ORDINARY[0], deploys_every_ms=HOUR), Random(3))
    life.stuck_from_ms[0] = HOUR
    _, row = alarms(life, HOUR + 30 * MINUTE)[0]
    assert row.findings[0].rebalance_ms is not None
    assert "; it began with the rebalance at 01:0" in row.reason


@pytest.mark.parametrize("dump", sorted(CLUSTERS.glob("*.offsets.jsonl.gz")), ids=lambda dump: dump.name.split(".")[0])
def test_recordings_raise_no_alarm(dump: Path) -> None:
    """Of each log so much is taken to be there as any group has committed so far."""
    history = observed_source([dump], [], None, UTC, UTC).history
    index, bounds, polled_ms, alarms = Index(), dict[Partition, Bounds](), 0, list[tuple[str, str]]()
    for record in sorted(history, key=lambda record: record.timestamp_ms):
        if record.timestamp_ms - polled_ms > 15_000:
            polled_ms = record.timestamp_ms
            reaches = {place: Reach(bounds[place].end, polled_ms - DAY) for place in index.wanted_reaches()}
            index.poll_ends(polled_ms, bounds, reaches=reaches)
            alarms += [(row.group_id, row.reason) for row in index.rows(polled_ms) if row.findings]
        index.add_record(record, encode_json(record))
        if isinstance(record, OffsetsCommitted):
            for change in record.offsets:
                place = change.topic, change.partition
                bounds[place] = Bounds(0, max(change.offset or 0, bounds.get(place, Bounds(0, 0)).end))
    assert polled_ms
    assert {group_id for group_id, _ in alarms} == ({"reset"} if dump.name.startswith("lifecycle-") else set())
    tool = "an admin tool or another client that is no member went back in orders-0 from offset 24 to 0 at "
    assert all(reason.startswith(tool) for _, reason in alarms)


def test_the_past_of_a_partition_is_bounded() -> None:
    committed = None
    for number in range(500):
        committed = next_commit(committed, number, START_MS + number * MINUTE, "", START_MS)
    assert committed is not None
    assert len(list(committed.pauses())) == PAUSES_KEPT
    assert len(committed.past) == 32 * (1 + PAUSES_KEPT)
