"""The page knows each state of a group and each trigger of a rebalance, and no other."""

from __future__ import annotations

import re
from typing import get_args

from group_coordinator.watching.dashboard.page import static_text
from group_coordinator.watching.history.states_over_time import STATES
from schemas.history import History, RebalanceTrigger


def names_of(table: str) -> set[str]:
    """The names that a table of verdicts.js has."""
    match = re.search(rf"const {table} = \{{(.*?)\}};", static_text("verdicts.js"), re.DOTALL)
    assert match is not None
    return set(re.findall(r"(\w+):", match[1]))


def test_each_type_of_record_can_be_chosen() -> None:
    match = re.search(r"const KINDS = \[(.*?)\];", static_text("events.js"), re.DOTALL)
    assert match is not None
    kinds = re.findall(r'"(\w+)"', match[1])
    assert sorted(kinds) == sorted(str(record.__struct_config__.tag) for record in get_args(History))


def test_each_state_has_a_colour() -> None:
    assert names_of("STATES") == set(STATES)


def test_each_trigger_has_words() -> None:
    assert names_of("TRIGGERS") == set(get_args(RebalanceTrigger))
