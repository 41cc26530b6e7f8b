"""Messages that are deleted before they are read: how many are gone, and when the next ones will be."""

from __future__ import annotations

from random import Random

import pytest

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.rows import group_row
from group_coordinator.watching.dashboard.settings import HealthSettings
from tests.watching.dashboard.lives import HOUR, MINUTE, START_MS, Life, Plan, live, steady

SETTINGS = HealthSettings()
P = ("t", 0)


def test_who_reads_slower_than_retention_deletes_is_told_so_before_it_loses() -> None:
    life = Life(Plan(name="slow", traffic=steady(100), reads_per_s=50, kept_ms=2 * HOUR), Random(1))
    warned_ms = lost_ms = None
    for at_ms, row in live(life, 8 * HOUR, SETTINGS):
        kinds = {finding.kind for finding in row.findings}
        assert "stalled" not in kinds
        if "will_lose" in kinds and warned_ms is None:
            warned_ms = at_ms
            assert row.verdict == "losing"
            assert row.reason.startswith("m0.1 will lose messages of t-0 in about ")
            (finding,) = row.findings
            assert finding.in_ms is not None
            foretold_ms = at_ms + finding.in_ms
        if "lost" in kinds and lost_ms is None:
            lost_ms = at_ms
            assert "will_lose" not in kinds
        assert lost_ms is None or "lost" in kinds
        assert lost_ms is not None or row.findings or at_ms < 3 * HOUR
    assert warned_ms is not None
    assert lost_ms is not None
    assert abs(lost_ms - foretold_ms) < 45 * MINUTE
    # It reads half of what comes, and is thrown to the begin of the log again and again.
    (finding,) = row.findings
    assert finding.messages == pytest.approx(50 * (8 * HOUR - lost_ms) / 1_000, rel=0.2)
    assert row.lost == finding.messages


def test_who_reads_the_log_from_its_beginning_loses_nothing_as_that_is_deleted() -> None:
    plan = Plan(name="replay", traffic=steady(100), reads_per_s=900, kept_ms=2 * HOUR, begins_ms=3 * HOUR)
    life = Life(plan, Random(1))
    assert all(row.verdict != "losing" for _, row in live(life, 6 * HOUR, SETTINGS))


def test_who_stands_still_until_all_is_deleted_has_lost_it_since_then() -> None:
    life = Life(Plan(name="paused", traffic=lambda at_ms, _: 100 * (at_ms < 2 * HOUR), kept_ms=HOUR), Random(1))
    life.stuck_from_ms[0] = HOUR
    polls = [(at_ms, row) for at_ms, row in live(life, 5 * HOUR, SETTINGS)]
    first_ms = next(at_ms for at_ms, row in polls if row.lost)
    _, row = polls[-1]
    log, (finding,) = life.logs[0], row.findings
    assert finding.committed_offset is not None
    assert (log.begin, row.lag, row.lost) == (log.end, 0, log.end - finding.committed_offset)
    assert (finding.kind, finding.messages, finding.since_ms) == ("lost", row.lost, START_MS + first_ms)
    assert row.verdict == "losing"
    assert row.reason.startswith(f"m0.1 has lost {row.lost:,} messages of t-0, since 0")


def facts_with(offset: int) -> GroupFacts:
    facts = GroupFacts("g")
    facts.state, facts.had_members = "Empty", True
    facts.offsets = {P: Committed(offset, 1, "", 1)}
    return facts


@pytest.mark.parametrize(("offset", "verdict"), [(90, "losing"), (995, "empty"), (1_000, "empty")])
def test_ends_of_transactions_that_are_deleted_are_no_loss(offset: int, verdict: str) -> None:
    ends = EndOffsets()
    ends.poll(5, {P: Bounds(1_000, 1_000)})
    row = group_row(facts_with(offset), ends, 10, SETTINGS)
    assert (row.verdict, row.lost, row.lag) == (verdict, 1_000 - offset, 0)
    if verdict == "losing":
        reason = "nobody is there, and the group has lost 910 messages of t-0: they were deleted before they were read"
        assert row.reason == reason
