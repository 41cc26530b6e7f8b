"""The queues by rack, held against plain lists that are walked through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinating.assignors.sticky_same_subscriptions import MinimumQueue, UnderfilledRing

RACKS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9)
STEPS = st.lists(st.tuples(st.frozensets(st.sampled_from("abcd"), max_size=3), st.booleans()), max_size=30)


@given(RACKS, STEPS)
def test_ring(rack_of: list[str | None], steps: list[tuple[frozenset[str], bool]]) -> None:
    ring = UnderfilledRing(list(range(len(rack_of))), rack_of)
    members, start = list(range(len(rack_of))), 0
    for racks, leaves in steps:
        turn = [(start + step) % len(members) for step in range(len(members))]
        index = next((index for index in turn if rack_of[members[index]] in racks), None)
        member = ring.next_near(racks)
        assert member == (None if index is None else members[index])
        if index is None or member is None:
            continue
        if leaves:
            ring.remove(member)
            members.pop(index)
            start = index % len(members) if members else 0
        else:
            ring.step_past(member)
            start = (index + 1) % len(members)
        assert ring.members() == members


@given(RACKS, STEPS)
def test_queue(rack_of: list[str | None], steps: list[tuple[frozenset[str], bool]]) -> None:
    queue = MinimumQueue(list(range(len(rack_of))), rack_of)
    members = list(range(len(rack_of)))
    for racks, comes_back in steps:
        taken_member = queue.take_near(racks)
        assert taken_member == next((member for member in members if rack_of[member] in racks), None)
        if taken_member is not None:
            members.remove(taken_member)
            if comes_back:
                queue.append(taken_member)
                members.append(taken_member)
        assert queue.members() == members
    queue.clear()
    assert queue.members() == []
    assert queue.take_near(frozenset("abc")) is None
