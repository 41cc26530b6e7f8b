"""Sequences of random requests by the hundred, right and wrong ones: nothing that must hold of a group is ever broken.
`python -m tests.random_requests --sequences 5000` runs more."""

from __future__ import annotations

import pytest

from coordinator_state import publication
from tests.random_requests.request_sequence import problems_of

SEEDS = range(2, 1_500, 3)
CHUNK = 20
FOUND_ONCE = [
    1_553, 71_000_177, 71_006_054, 91_000_970, 600_014_372, 777_004_835, 777_010_373, 777_010_625, 888_005_333,
]  # fmt: skip


@pytest.mark.parametrize("first", range(0, len(SEEDS), CHUNK))
def test_nothing_is_broken(first: int) -> None:
    assert {seed: problem for seed in SEEDS[first : first + CHUNK] if (problem := problems_of(seed))} == {}


@pytest.mark.parametrize("seed", FOUND_ONCE)
def test_what_was_found_once_holds(seed: int) -> None:
    assert problems_of(seed) == ""


@pytest.mark.parametrize("first", range(0, 33, CHUNK))
def test_groups_that_are_published_seldom_do_the_same(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nearly all groups were large."""
    monkeypatch.setattr(publication, "AT_ONCE_BYTES_MAX", 600)
    monkeypatch.setattr(publication, "BYTES_PER_S", 600)
    test_nothing_is_broken(first)
