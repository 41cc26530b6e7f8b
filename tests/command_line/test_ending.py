"""The time of an orderly end is shared by those that end one after the other."""

from __future__ import annotations

from group_coordinator.coordinating.commands.run import Ending


def test_who_takes_long_leaves_less_to_the_others() -> None:
    now = [100.0]
    ending = Ending(20.0, lambda: now[0])
    now[0] += 1_000.0
    assert ending.left_s() == 20.0
    ending.begin()
    now[0] += 5.0
    assert ending.left_s(kept_s=6.0) == 9.0
    now[0] += 10.0
    assert ending.left_s(kept_s=6.0) == 0.0
    assert ending.left_s() == 5.0
    now[0] += 10.0
    assert ending.left_s() == 0.0
