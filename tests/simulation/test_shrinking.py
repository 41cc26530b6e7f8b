"""A failing seed is made small and told in plain words."""

from __future__ import annotations

import pytest

from coordinator_state.classic import kind, sessions
from coordinator_state.classic.group import classic_group
from coordinator_state.step import Step
from simulation.command import main
from simulation.generate import scenario_of
from simulation.narration import narrate
from simulation.run import run_world
from simulation.shrink import shrink


@pytest.fixture
def the_dead_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sessions.session_timer_expired

    def expire(step: Step, member_id: str, last_heard_ms: int) -> None:
        if member_id in classic_group(step.require_group()).pending_join:
            real(step, member_id, last_heard_ms)

    monkeypatch.setattr(kind, "session_timer_expired", expire)


def first_seed(rule: str) -> int:
    for seed in range(300):
        scenario = scenario_of(seed)
        if len(scenario.faults) < 4 or scenario.coordinator_starts_ms:
            continue
        if any(violation.rule == rule for violation in run_world(scenario).violations):
            return seed
    raise AssertionError(f"no seed breaks {rule}")


def test_a_world_shrinks_to_the_fault_that_matters(the_dead_stay: None) -> None:
    case = scenario_of(first_seed("SessionsKept"))
    small = shrink(case, "SessionsKept", tries_max=60)
    assert any(violation.rule == "SessionsKept" for violation in run_world(small).violations)
    assert len(small.faults) <= 1
    assert len(small.members) <= 2
    assert len(small.faults) < len(case.faults)


def test_a_case_that_does_not_fail_stays_as_it_is() -> None:
    case = scenario_of(0)
    assert shrink(case, "OneOwner", tries_max=20) == case


def test_a_failing_seed_prints_the_command_that_tells_its_story(
    the_dead_stay: None, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = first_seed("SessionsKept")
    assert main(["--seed", str(seed)]) == 1
    assert f"python -m simulation --seed {seed} --story" in capsys.readouterr().out
    assert main(["--seed", str(seed), "--story", "--whole"]) == 1
    output = capsys.readouterr().out
    assert "VIOLATED  SessionsKept: " in output
    assert "is still a member after a silence of" in output
    assert ">>>" in output


def test_a_story_is_in_the_order_of_time_and_names_who_does_what() -> None:
    case = scenario_of(0)
    lines = list(narrate(case, run_world(case, keep_steps=True)))
    name = case.members[0].name
    assert any(line.startswith(f"{name} is ") for line in lines)
    timed_lines = [line for line in lines if " s  " in line[:14]]
    times = [float(line.split(" s  ")[0]) for line in timed_lines]
    assert times == sorted(times)
    assert any("starts as a member of" in line for line in timed_lines)
    assert any("is Stable, led by" in line for line in timed_lines)
