"""Producers with transactions: what they are told holds, whatever dies."""

from __future__ import annotations

import pytest

from coordinator_state import GroupConfig
from simulation.run import Outcome, run_world
from simulation.scenario import DriverCrash, ProducerPlan, RelayAway, Scenario
from simulation.transaction_log import Gateway

MINUTE_MS = 60_000


def world_of(seed: int, *faults: DriverCrash | RelayAway, for_ms: int = 20_000) -> Outcome:
    producers = tuple(ProducerPlan(name=f"tx-{number}", group_id=f"loops-{number}") for number in range(3))
    return run_world(
        Scenario(
            seed=seed, config=GroupConfig(group_min_session_timeout_ms=6_000), topics={"orders": 1}, members=(),
            producers=producers, faults=faults, faults_end_ms=for_ms, tick_ms=1_500,
            batch_every_ms=(200, 900) if for_ms > MINUTE_MS else (50, 400),
        )
    )  # fmt: skip


def said(outcome: Outcome, words: str) -> int:
    return sum(words in line.text for line in outcome.trace)


def test_a_relay_is_away_for_ten_minutes() -> None:
    """Nobody commits meanwhile, and nothing that was committed is lost."""
    away = RelayAway(shard=0, at_ms=20_000, for_ms=10 * MINUTE_MS)
    outcome = world_of(1, away, for_ms=20_000 + 11 * MINUTE_MS)
    assert outcome.violations == []
    since_ms = next(line.time_ms for line in outcome.trace if "is away" in line.text)
    commits = [line.time_ms for line in outcome.trace if line.text.startswith("commits ")]
    assert [time_ms for time_ms in commits if since_ms + MINUTE_MS < time_ms < since_ms + 10 * MINUTE_MS] == []
    assert commits[0] < since_ms
    assert commits[-1] > since_ms + 10 * MINUTE_MS


def test_all_that_can_go_wrong_does_and_costs_nothing() -> None:
    away = RelayAway(shard=0, at_ms=3_000, for_ms=900)
    outcome = world_of(3, away, DriverCrash(shard=0, at_ms=9_000, step=2, down_ms=9_000))
    assert outcome.violations == []
    for words in ("commits ", "aborts ", "crashes in its transaction", "begins anew"):
        assert said(outcome, words), words


def test_a_sequence_that_is_used_twice_costs_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group does not answer what its log has not, and only its answer counts."""
    monkeypatch.setattr(Gateway, "next_sequence", staticmethod(lambda last: last))
    outcome = world_of(0)
    assert outcome.violations == []
    assert said(outcome, "is not heard")


@pytest.mark.parametrize("seed", range(3, 6))
def test_a_group_that_is_gone_meanwhile_answers_what_is_relayed_again(seed: int) -> None:
    """It has nothing but aborted offsets, so it goes, and with it what it knows of the log."""
    aborting = tuple(ProducerPlan(name=f"tx-{number}", group_id=f"loops-{number}", aborts=1.0) for number in range(3))
    away = tuple(RelayAway(shard=0, at_ms=at_ms, for_ms=1_500) for at_ms in range(4_000, 20_000, 4_000))
    outcome = run_world(
        Scenario(
            seed=seed, config=GroupConfig(offsets_retention_check_interval_ms=2_000), topics={"orders": 1}, members=(),
            producers=aborting, faults=away, faults_end_ms=20_000, tick_ms=500, batch_every_ms=(50, 400),
        )
    )  # fmt: skip
    assert outcome.violations == []
    assert said(outcome, "aborts ")
