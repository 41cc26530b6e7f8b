"""Each broker has an address of its own, and one at which the gateway stands for it."""

from __future__ import annotations

from msgspec import Struct

from group_coordinator.coordinating.gateway.config import Address
from schemas.java_hash import group_partition


class Node(Struct, frozen=True):
    """One broker as clients know it."""

    node_id: int
    address: Address
    """The address that clients are told."""


class Coordinators:
    """Each group has a broker as its coordinator, chosen among the existing ones by Kafka's hash.

    Every gateway of a cluster names the same one, each with its own address.
    """

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._in_order = sorted(nodes, key=lambda node: node.node_id)

    def of(self, group_id: str) -> Node | None:
        """Return the broker that coordinates the group; None if there is no broker."""
        in_order = self._in_order
        if len(in_order) < 2:
            return in_order[0] if in_order else None
        return in_order[group_partition(group_id, len(in_order))]
