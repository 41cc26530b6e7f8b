"""The least loaded member, held against a walk over all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinating.assignors.sticky_different_subscriptions import LeastLoaded, Loads

MEMBERS = 6
SETS = [[0, 1, 2, 3, 4, 5], [1, 3], [4], [5, 2, 0]]


@given(
    st.lists(st.integers(0, 3), min_size=MEMBERS, max_size=MEMBERS),
    st.lists(
        st.one_of(
            st.tuples(st.just("give"), st.integers(0, len(SETS) - 1), st.integers(0, 9)),
            st.tuples(st.just("move"), st.integers(0, MEMBERS - 1), st.integers(0, MEMBERS - 1)),
        ),
        max_size=40,
    ),
)
def test_as_a_walk_over_all(counts: list[int], steps: list[tuple[str, int, int]]) -> None:
    loads = Loads(counts)
    counts = list(counts)
    least_loaded = [LeastLoaded(loads, members) for members in SETS]

    def expected(members: list[int]) -> int:
        return min(members, key=lambda member: (counts[member], member))

    for step, first, second in steps:
        if step == "give":
            for taker in least_loaded[first].give(second):
                assert taker == expected(SETS[first])
                counts[taker] += 1
        elif counts[first]:
            loads.move_one(first, second)
            counts[first] -= 1
            counts[second] += 1
        assert loads.counts() == counts
        for members, least in zip(SETS, least_loaded, strict=True):
            assert least.packed() % loads.one == expected(members)
