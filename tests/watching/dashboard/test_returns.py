"""Who was put out and came back: the same for any number of lives as by looking at all pairs of them."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from group_coordinator.watching.dashboard.returns import Life, returned


def by_pairs(lives: Iterable[Life]) -> set[str]:
    """What `returned` says, in the words of its documentation."""
    found: set[str] = set()
    all_lives = sorted(lives, key=lambda life: (life.client, life.joined_ms or 0))
    for life in all_lives:
        if life.was_put_out and life.ended_ms is not None:
            own = [other for other in all_lives if other.client == life.client]
            back = [each for each in own if (each.joined_ms or 0) >= life.ended_ms and each.member_id not in found]
            there = [each for each in own if (each.joined_ms or 0) < life.ended_ms]
            if back and all(each.ended_ms is not None and each.ended_ms <= life.ended_ms for each in there):
                found |= {life.member_id, back[0].member_id}
    return found


def random_lives(random: Random) -> list[Life]:
    lives = []
    for number in range(random.randrange(1, 30)):
        joined_ms = random.choice([None, random.randrange(20)])
        ended_ms = random.choice([None, (joined_ms or 0) + random.randrange(8)])
        was_put_out = ended_ms is not None and random.random() < 0.8
        lives.append(Life(random.choice("abc"), f"m-{number}", joined_ms, ended_ms, was_put_out))
    return lives


@pytest.mark.parametrize("seed", range(300))
def test_random_lives(seed: int) -> None:
    lives = random_lives(Random(seed))
    assert returned(lives) == by_pairs(lives)


class Counted(str):
    """A member id that counts how often it is looked for."""

    __slots__ = ()
    lookups = 0

    def __hash__(self) -> int:
        Counted.lookups += 1
        return super().__hash__()


@pytest.mark.parametrize("step_ms", [0, 2])
def test_many_of_one_name_that_crash_one_after_the_other(step_ms: int) -> None:
    """Each is looked at a few times, and not once for each of the others."""
    count, down_ms = 2_000, 10_000
    crashed = [Life("c", Counted(f"a-{each}"), 0, 1_000 + step_ms * each, True) for each in range(count)]
    back = [Life("c", Counted(f"b-{each}"), down_ms + each, None, False) for each in range(count)]
    Counted.lookups = 0
    found = returned([*crashed, *back])
    assert len(found) == (2 * count if step_ms == 0 else 2)
    assert Counted.lookups < 20 * count
