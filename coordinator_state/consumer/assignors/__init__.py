"""Server-side assignors: Kafka's two, and a place for others.

    assignment = SERVER_ASSIGNORS["uniform"].assign(group)

Whoever runs the core hands it the table: `SERVER_ASSIGNORS`, or `load_server_assignors()` with those of other packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coordinator_state.consumer.assignors.contract import (
    AssignorError,
    AssignorGroup,
    AssignorMember,
    AssignorTopic,
    GroupAssignment,
    ServerAssignor,
    SubscriptionType,
)
from coordinator_state.consumer.assignors.entry_points import (
    ENTRY_POINT_GROUP,
    ServerAssignorLoadError,
    with_entry_points,
)
from coordinator_state.consumer.assignors.range import RangeAssignor
from coordinator_state.consumer.assignors.uniform import UniformAssignor

__all__ = [
    "ENTRY_POINT_GROUP",
    "SERVER_ASSIGNORS",
    "AssignorError",
    "AssignorGroup",
    "AssignorMember",
    "AssignorTopic",
    "GroupAssignment",
    "RangeAssignor",
    "ServerAssignor",
    "ServerAssignorLoadError",
    "SubscriptionType",
    "UniformAssignor",
    "load_server_assignors",
]

_STANDARD: tuple[ServerAssignor, ...] = (UniformAssignor(), RangeAssignor())

SERVER_ASSIGNORS: Mapping[str, ServerAssignor] = MappingProxyType({assignor.name: assignor for assignor in _STANDARD})
"""Kafka's assignors by name; the first is the default."""


def load_server_assignors() -> Mapping[str, ServerAssignor]:
    """Return Kafka's assignors and those that installed packages register, by name.

    A package registers an object (not a class) that fulfils `ServerAssignor`:

        [project.entry-points."group_coordinator.server_assignors"]
        by-weight = "our_package.assignors:BY_WEIGHT"

    Their results are checked: one that breaks the contract is an `AssignorError`. Raises `ServerAssignorLoadError` when
    one cannot be loaded, is no assignor, or has the name of another one.
    """
    return with_entry_points(SERVER_ASSIGNORS)
