"""Where each broker is, and where the gateway stands for it."""

from __future__ import annotations

from msgspec import Struct

from gateway.config import Address
from schemas.java_hash import group_partition


class Node(Struct, frozen=True):
    """One broker as clients know it."""

    node_id: int
    address: Address
    """The address that clients are told."""


def coordinator_of(group_id: str, nodes: tuple[Node, ...]) -> Node | None:
    """The broker that is named as a group's coordinator: an existing one, by Kafka's hash; None: there is no broker.

    Every gateway of a cluster names the same one, each with its own address.
    """
    if not nodes:
        return None
    in_order = sorted(nodes, key=lambda node: node.node_id)
    return in_order[group_partition(group_id, len(in_order))]
