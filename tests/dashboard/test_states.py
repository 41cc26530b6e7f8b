"""The page knows each state of a group, and no other."""

from __future__ import annotations

import re

from group_coordinator.dashboard.facts import STATES
from group_coordinator.dashboard.page import static_text


def test_each_state_has_a_colour() -> None:
    found = re.search(r"const STATES = \{(.*?)\};", static_text("verdicts.js"), re.DOTALL)
    assert found is not None
    assert set(re.findall(r"(\w+):", found[1])) == set(STATES)
