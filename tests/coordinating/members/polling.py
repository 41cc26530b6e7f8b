"""Several members of one process are polled in turn, until something holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from group_coordinator.coordinating.members.kafka_member import Member
from tests.waiting import wait_until


def poll_until(
    members: Sequence[Member], condition: Callable[[], bool], limit_s: float = 20, values: list[str] | None = None
) -> list[str]:
    """Poll them all in turn until the condition holds; returns what they read, behind the values that are given."""
    read = [] if values is None else values

    def holds() -> bool:
        for member in members:
            read.extend((record.value or b"").decode() for record in member.poll(0.02))
        return condition()

    wait_until(holds, limit_s, f"not within {limit_s} s", interval_s=0)
    return read
