"""What the soak calls flat: noise is, growth is not, and what was not measured is neither."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.soak.measures import Sample
from benchmarks.soak.report import MUST_BE_FLAT, NEVER_NOTHING, TooFewSamples, curves, problems

LEVELS = {"driver_mib": 1_000.0, "batch_s": 1.5, "lag_events": 400.0, "clock_lag_s": 6.0, "checkpoint_mib": 12.0}
WARM_UP_S = 600.0


def samples(count: int = 120, seed: int = 1, **last_over_first: float) -> list[Sample]:
    """A run of half an hour, noisy as they are;
    named measures grow evenly to so much of what they were after the warm-up."""
    dice = Random(seed)
    generated = []
    for number in range(count):
        sample: Sample = {"t_s": WARM_UP_S + 10.0 * number}
        for name in MUST_BE_FLAT:
            growth = 1 + (last_over_first.get(name, 1.0) - 1) * number / count
            sample[name] = (
                LEVELS.get(name, 200.0) * growth * dice.uniform(0.9, 1.1) * (3 if dice.random() < 0.05 else 1)
            )
        generated.append(sample)
    return [{"t_s": 0.0, **dict.fromkeys(MUST_BE_FLAT, 0.0)}, *generated]


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_flat(seed: int) -> None:
    assert problems(curves(samples(seed=seed), WARM_UP_S)) == []


@pytest.mark.parametrize("name", MUST_BE_FLAT)
def test_what_grows_is_told_though_it_dips_below_where_it_was(name: str) -> None:
    run = samples(120, 1, **{name: 6.0})
    run[-1][name] = 0.0
    assert problems(curves(run, WARM_UP_S)) == [f"{name}: GROWS"]


def test_a_leak_of_half_the_memory_is_growth() -> None:
    assert problems(curves(samples(driver_mib=1.5), WARM_UP_S)) == ["driver_mib: GROWS"]


@pytest.mark.parametrize("name", NEVER_NOTHING)
def test_nothing_is_not_flat(name: str) -> None:
    run = [{**sample, name: 0.0} for sample in samples()]
    assert problems(curves(run, WARM_UP_S)) == [f"{name}: NOT MEASURED"]


def test_too_short_a_run_says_so() -> None:
    with pytest.raises(TooFewSamples, match="23 samples after the warm-up of 10 minutes are too few"):
        curves(samples(count=23), WARM_UP_S)
    assert curves(samples(count=24), WARM_UP_S)
