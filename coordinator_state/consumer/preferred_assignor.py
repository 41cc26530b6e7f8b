"""The assignor that a consumer group goes by: its members vote."""

from __future__ import annotations

from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ConsumerMember
from schemas.java_hash import java_map_order


def preferred_assignor(group: ConsumerGroup, updated: ConsumerMember | None, configured: tuple[str, ...]) -> str:
    """Return the assignor that most members ask for; the first configured one if nobody asks.

    A tie goes by the order of Kafka's map. The member that changes is taken out of it and put in again, and a name that
    nobody else asks for comes first then: `HashMap.compute` puts a new key before those of its bucket, and the built-in
    names share one. Source: `ConsumerGroup.computePreferredServerAssignor` (Kafka 4.3).
    """
    counts = {name: group.assignor_votes[name] for name in java_map_order(group.assignor_votes)}
    if updated is not None:
        before = _before(group, updated)
        old = None if before is None else before.server_assignor
        if old is not None:
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
        new = updated.server_assignor
        if new is not None:
            counts = {**counts, new: counts[new] + 1} if new in counts else {new: 1, **counts}
    most = max(counts.values(), default=0)
    return next((name for name, count in counts.items() if count == most), configured[0])


def _before(group: ConsumerGroup, updated: ConsumerMember) -> ConsumerMember | None:
    """Return the member in whose place one comes: with its id, or its instance id."""
    owner = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    return group.members.get(updated.member_id if owner is None else owner)
