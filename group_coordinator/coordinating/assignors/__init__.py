"""Partition assignors: Kafka's four, order of the lists included, and a place for others.

    assignor = load_assignors()[response.protocol_name]
    assignment = assignor.assign({"orders": TopicMetadata(partition_count=6)}, members)

They differ from Kafka's only where Kafka crashes or gives a partition to a member that does not subscribe to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from types import MappingProxyType

from group_coordinator.coordinating.assignors.contract import (
    Assignor,
    GroupAssignment,
    MemberSubscription,
    RebalanceProtocol,
    TopicMetadata,
    Topics,
)
from group_coordinator.coordinating.assignors.range import RangeAssignor
from group_coordinator.coordinating.assignors.round_robin import RoundRobinAssignor
from group_coordinator.coordinating.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from schemas.entry_points import load_named, with_registered

ENTRY_POINT_GROUP = "group_coordinator.assignors"


class AssignorLoadError(Exception):
    """An entry point that gives no usable assignor; the message names it and says why."""


def with_entry_points(assignors: Mapping[str, Assignor]) -> Mapping[str, Assignor]:
    """Return the given assignors and all registered ones, by name. Raises AssignorLoadError."""
    return with_registered(assignors, ENTRY_POINT_GROUP, _load, _refusal)


def _load(entry_point: EntryPoint) -> Assignor:
    assignor: Assignor = load_named(entry_point, _refusal)
    protocol = getattr(assignor, "rebalance_protocol", None)
    if not isinstance(protocol, RebalanceProtocol):
        raise _refusal(entry_point, f"its rebalance_protocol is {protocol!r}")
    for method in ("assign", "subscription_user_data"):
        if not callable(getattr(assignor, method, None)):
            raise _refusal(entry_point, f"has no method {method}")
    return assignor


def _refusal(entry_point: EntryPoint, reason: str) -> AssignorLoadError:
    return AssignorLoadError(f"assignor entry point {entry_point.name} = {entry_point.value}: {reason}")


__all__ = [
    "ASSIGNORS",
    "ENTRY_POINT_GROUP",
    "Assignor",
    "AssignorLoadError",
    "CooperativeStickyAssignor",
    "GroupAssignment",
    "MemberSubscription",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "TopicMetadata",
    "Topics",
    "load_assignors",
]

_STANDARD: tuple[Assignor, ...] = (
    RangeAssignor(),
    RoundRobinAssignor(),
    StickyAssignor(),
    CooperativeStickyAssignor(),
)

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({assignor.name: assignor for assignor in _STANDARD})
"""Kafka's assignors by protocol name."""


def load_assignors() -> Mapping[str, Assignor]:
    """Return Kafka's assignors and those that installed packages register, by protocol name.

    A package registers an object (not a class) that fulfils `Assignor`:

        [project.entry-points."group_coordinator.assignors"]
        by-weight = "our_package.assignors:BY_WEIGHT"

    Raises AssignorLoadError when one cannot be loaded, is no assignor, or has the name of another one.
    """
    return with_entry_points(ASSIGNORS)
