"""Assignors of other packages, found by their entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from group_coordinator.assignors.contract import Assignor, RebalanceProtocol

ENTRY_POINT_GROUP = "group_coordinator.assignors"


class AssignorLoadError(Exception):
    """An entry point that gives no usable assignor; the message names it and says why."""


def with_entry_points(assignors: Mapping[str, Assignor]) -> Mapping[str, Assignor]:
    """Return the given assignors and all registered ones, by name. Raises AssignorLoadError."""
    result = dict(assignors)
    registered = entry_points(group=ENTRY_POINT_GROUP)
    for entry_point in sorted(registered, key=lambda entry_point: (entry_point.name, entry_point.value)):
        assignor = _load(entry_point)
        if assignor.name in result:
            raise AssignorLoadError(f"{_described(entry_point)}: there already is an assignor named {assignor.name!r}")
        result[assignor.name] = assignor
    return MappingProxyType(result)


def _load(entry_point: EntryPoint) -> Assignor:
    try:
        assignor = entry_point.load()
    except Exception as error:  # whatever the other package raises while it is imported
        raise AssignorLoadError(f"{_described(entry_point)}: {type(error).__name__}: {error}") from error
    if isinstance(assignor, type):
        raise AssignorLoadError(f"{_described(entry_point)}: is a class; register an instance of it")
    name = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name:
        raise AssignorLoadError(f"{_described(entry_point)}: its name is {name!r}, not a non-empty string")
    protocol = getattr(assignor, "rebalance_protocol", None)
    if not isinstance(protocol, RebalanceProtocol):
        raise AssignorLoadError(f"{_described(entry_point)}: its rebalance_protocol is {protocol!r}")
    for method in ("assign", "subscription_user_data"):
        if not callable(getattr(assignor, method, None)):
            raise AssignorLoadError(f"{_described(entry_point)}: has no method {method}")
    loaded: Assignor = assignor
    return loaded


def _described(entry_point: EntryPoint) -> str:
    return f"assignor entry point {entry_point.name} = {entry_point.value}"
