"""Server-side assignors: Kafka's two, and a place for others.

    assignment = server_assignor("uniform").assign(group)

The setting `group_consumer_assignors` names those that groups may use. Each process finds them by their names: those of
other packages must be installed wherever the core runs, as the core itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint
from types import MappingProxyType

from coordinator_state.consumer.assignors.contract import (
    AssignorError,
    AssignorGroup,
    AssignorMember,
    AssignorTopic,
    CheckedAssignor,
    GroupAssignment,
    ServerAssignor,
    SubscriptionType,
)
from coordinator_state.consumer.assignors.range import RangeAssignor
from coordinator_state.consumer.assignors.uniform_heterogeneous import assign_heterogeneous
from coordinator_state.consumer.assignors.uniform_homogeneous import assign_homogeneous
from coordinator_state.consumer.member import TargetAssignment
from schemas.entry_points import load_named, registered, with_registered


class UniformAssignor:
    """Kafka's `uniform`."""

    name = "uniform"

    def assign(self, group: AssignorGroup) -> dict[str, TargetAssignment]:
        """Return the assignment; every member has an entry. Raises `AssignorError` for a target that cannot be."""
        if group.subscription_type is SubscriptionType.HOMOGENEOUS:
            return assign_homogeneous(group)
        return assign_heterogeneous(group)


ENTRY_POINT_GROUP = "group_coordinator.server_assignors"


class ServerAssignorLoadError(Exception):
    """An entry point that gives no usable assignor; the message names it and says why."""


def with_entry_points(assignors: Mapping[str, ServerAssignor]) -> Mapping[str, ServerAssignor]:
    """Return the given assignors and all registered ones, by name. Raises `ServerAssignorLoadError`."""
    return with_registered(assignors, ENTRY_POINT_GROUP, lambda found: CheckedAssignor(_load(found)), _refusal)


def registered_source(name: str) -> str:
    """Return where the registered assignor of this name comes from: its package with the version, and the object."""
    for entry_point in registered(ENTRY_POINT_GROUP):
        if _load(entry_point).name == name:
            package = entry_point.dist
            return f"{entry_point.value} of {'?' if package is None else f'{package.name} {package.version}'}"
    raise ServerAssignorLoadError(f"no installed package registers an assignor named {name!r}")


def _load(entry_point: EntryPoint) -> ServerAssignor:
    assignor: ServerAssignor = load_named(entry_point, _refusal)
    if not callable(getattr(assignor, "assign", None)):
        raise _refusal(entry_point, "has no method assign")
    return assignor


def _refusal(entry_point: EntryPoint, reason: str) -> ServerAssignorLoadError:
    return ServerAssignorLoadError(f"server assignor entry point {entry_point.name} = {entry_point.value}: {reason}")


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
    "server_assignor",
    "server_assignor_problems",
    "server_assignor_source",
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


def server_assignor(name: str) -> ServerAssignor:
    """Return an assignor. Those of other packages are looked for when one is first asked for, once in a process.

    Raises `ServerAssignorLoadError` for a name that nobody has: no answer may depend on what a machine lacks.
    """
    assignor = SERVER_ASSIGNORS.get(name) or _registered().get(name)
    if assignor is None:
        raise ServerAssignorLoadError(
            f"there is no server assignor named {name!r}: it is none of {', '.join(SERVER_ASSIGNORS)}, and no "
            f"installed package registers it as {ENTRY_POINT_GROUP}"
        )
    return assignor


def server_assignor_source(name: str) -> str:
    """Return where an assignor comes from: empty for Kafka's, else package, version and object. Raises as
    `server_assignor`."""
    return "" if name in SERVER_ASSIGNORS else registered_source(name)


def server_assignor_problems(names: Iterable[str]) -> list[str]:
    """Return a sentence if one of the names that `group_consumer_assignors` has is nobody's here."""
    try:
        for name in names:
            server_assignor(name)
    except ServerAssignorLoadError as problem:
        return [f"group_consumer_assignors: {problem}."]
    return []


@cache
def _registered() -> Mapping[str, ServerAssignor]:
    return load_server_assignors()
