"""What Kafka leaves to the order of its hash maps, and a recording tells: whom it elected, who expired first."""

from __future__ import annotations

from msgspec.structs import replace

from coordinator_state import ClassicGroup, Group
from coordinator_state.classic import timers
from coordinator_state.timers import PUBLICATION
from group_coordinator.proving.recordings.coordinator_log import LogEntry
from group_coordinator.proving.recordings.expectations import PUNCTUAL_MS, Expected


def first_members(group: ClassicGroup, expected: Expected, clock_ms: int) -> tuple[str, ...]:
    """Return the members that must be first for the leader that the broker elected next; none if nothing shows him.

    The leader that the next generation began with may have come after others had led and gone; so next come those
    that will be gone by then.
    """
    if len(group.members) < 2:
        return ()
    next_generation = expected.generation(group.generation_id + 1, clock_ms * 1000)
    if next_generation is None:
        return ()
    leader_id = _present(group, expected, next_generation.leader)
    if leader_id == group.leader_id:
        return ()
    staying_ids = {_present(group, expected, member) for member in next_generation.members}
    leading = [leader_id] if leader_id in group.members else []
    going = (
        member
        for member in group.members
        if next_generation.members and member not in staying_ids and member != leader_id
    )
    first = (*leading, *going)
    return () if tuple(group.members)[: len(first)] == first else first


def _present(group: ClassicGroup, expected: Expected, member_id: str) -> str:
    """A member by its id of now: a static member may be about to come back under another."""
    if member_id in group.members:
        return member_id
    return group.static_members.get(expected.instances.get(member_id, ""), member_id)


def put_expiration_first(group: Group, entry: LogEntry, deadline_ms: int) -> None:
    """Sessions that end in one moment expire in any order: the one that the coordinator log tells next is taken."""
    of_kafka = [name for name in group.timers if name != PUBLICATION]
    first = min(of_kafka, key=lambda name: group.timers[name].deadline_ms, default="")
    for member_id in entry.member_ids if entry.kind == "member expired" else ():
        name = timers.session(member_id)
        timer = group.timers.get(name)
        if timer is None or timers.member_of(first) is None or timer.deadline_ms > deadline_ms + PUNCTUAL_MS:
            return
        group.timers = {
            name: replace(timer, deadline_ms=deadline_ms),
            **{timer: group.timers[timer] for timer in group.timers if timer != name},
        }
