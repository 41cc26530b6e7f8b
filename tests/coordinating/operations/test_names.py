"""Group ids of 32 KB in what operations keep: nobody can fill the memory by making up new ones."""

from __future__ import annotations

import pickle

from group_coordinator.watching.group_metrics.group_table import Recently
from group_coordinator.watching.group_metrics.names import NAME_CHARACTERS_MAX, kept_name
from group_coordinator.watching.group_metrics.repeats import Repeats

LONG = "g" * 32_000


def test_short_names_are_kept_as_they_are_and_long_ones_stay_distinct() -> None:
    assert kept_name("orders") == "orders"
    assert kept_name("g" * NAME_CHARACTERS_MAX) == "g" * NAME_CHARACTERS_MAX
    short_names = {kept_name(LONG + str(number)) for number in range(100)}
    assert len(short_names) == 100
    assert max(map(len, short_names)) <= 2 * NAME_CHARACTERS_MAX


def test_repeats_are_told_by_names_of_any_length_in_bounded_memory() -> None:
    repeats = Repeats()
    for number in range(100):
        assert repeats.is_new("history", 0, f"{LONG}{number}", 1, 1)
        assert not repeats.is_new("history", 0, f"{LONG}{number}", 1, 1)
    assert len(pickle.dumps(repeats)) < 100 * 2 * NAME_CHARACTERS_MAX


def test_what_happened_lately_is_counted_under_bounded_names() -> None:
    recently = Recently(lambda: 0.0)
    for _ in range(2):
        recently.add(LONG)
    ((name, count),) = recently.most(5)
    assert count == 2
    assert len(name) < 2 * NAME_CHARACTERS_MAX
