"""Racks: which partitions have a replica near which member (KIP-881)."""

from __future__ import annotations

from collections.abc import Iterable

from group_coordinator.coordinating.assignors.layout import GroupLayout

Racks = frozenset[str]


def member_racks(layout: GroupLayout) -> list[str | None]:
    """Return the rack of each member; an empty one counts as none."""
    return [member.subscription.rack_id or None for member in layout.members]


def partition_racks(layout: GroupLayout) -> list[Racks]:
    """Return for each partition the racks of its replicas, in sync or not."""
    known: dict[tuple[str | None, ...], Racks] = {}
    racks: list[Racks] = []
    for topic in layout.metadata:
        if not topic.replica_racks:
            racks += [frozenset()] * topic.partition_count
        for replicas in topic.replica_racks:
            if replicas not in known:
                known[replicas] = frozenset(rack for rack in replicas if rack is not None)
            racks.append(known[replicas])
    return racks


def racks_matter(racks_of_members: Iterable[str | None], racks_of_partitions: Iterable[Racks]) -> bool:
    """Return whether racks can make a difference: some member is near some replica, and not every partition is
    everywhere.

    Source: Kafka's `AbstractPartitionAssignor.useRackAwareAssignment`.
    """
    different = set(racks_of_partitions)
    everywhere = frozenset[str]().union(*different)
    return not everywhere.isdisjoint(rack for rack in racks_of_members if rack) and different != {everywhere}
