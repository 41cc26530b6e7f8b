"""The queues by rack, held against plain lists that are walked through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.assignors.rack_queues import MinimumQueue, UnderfilledRing

RACKS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9)
STEPS = st.lists(st.tuples(st.frozensets(st.sampled_from("abcd"), max_size=3), st.booleans()), max_size=30)


@given(RACKS, STEPS)
def test_ring(rack_of: list[str | None], steps: list[tuple[frozenset[str], bool]]) -> None:
    ring = UnderfilledRing(list(range(len(rack_of))), rack_of)
    members, start = list(range(len(rack_of))), 0
    for racks, leaves in steps:
        turn = [(start + step) % len(members) for step in range(len(members))]
        index = next((index for index in turn if rack_of[members[index]] in racks), None)
        found = ring.next_near(racks)
        assert found == (None if index is None else members[index])
        if index is None or found is None:
            continue
        if leaves:
            ring.remove(found)
            members.pop(index)
            start = index % len(members) if members else 0
        else:
            ring.step_past(found)
            start = (index + 1) % len(members)
        assert ring.members() == members


@given(RACKS, STEPS)
def test_queue(rack_of: list[str | None], steps: list[tuple[frozenset[str], bool]]) -> None:
    queue = MinimumQueue(list(range(len(rack_of))), rack_of)
    members = list(range(len(rack_of)))
    for racks, comes_back in steps:
        found = queue.take_near(racks)
        assert found == next((member for member in members if rack_of[member] in racks), None)
        if found is not None:
            members.remove(found)
            if comes_back:
                queue.append(found)
                members.append(found)
        assert queue.members() == members
    queue.clear()
    assert queue.members() == []
    assert queue.take_near(frozenset("abc")) is None
