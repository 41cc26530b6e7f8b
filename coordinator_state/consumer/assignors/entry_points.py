"""Server-side assignors of other packages, found by their entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from coordinator_state.consumer.assignors.checked import CheckedAssignor
from coordinator_state.consumer.assignors.contract import ServerAssignor

ENTRY_POINT_GROUP = "group_coordinator.server_assignors"


class ServerAssignorLoadError(Exception):
    """An entry point that gives no usable assignor; the message names it and says why."""


def with_entry_points(assignors: Mapping[str, ServerAssignor]) -> Mapping[str, ServerAssignor]:
    """Return the given assignors and all registered ones, by name. Raises `ServerAssignorLoadError`."""
    result = dict(assignors)
    registered = entry_points(group=ENTRY_POINT_GROUP)
    for entry_point in sorted(registered, key=lambda entry_point: (entry_point.name, entry_point.value)):
        assignor = _load(entry_point)
        if assignor.name in result:
            described = _described(entry_point)
            raise ServerAssignorLoadError(f"{described}: there already is an assignor named {assignor.name!r}")
        result[assignor.name] = CheckedAssignor(assignor)
    return MappingProxyType(result)


def registered_source(name: str) -> str:
    """Return where the registered assignor of this name comes from: its package with the version, and the object."""
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        if _load(entry_point).name == name:
            package = entry_point.dist
            return f"{entry_point.value} of {'?' if package is None else f'{package.name} {package.version}'}"
    raise ServerAssignorLoadError(f"no installed package registers an assignor named {name!r}")


def _load(entry_point: EntryPoint) -> ServerAssignor:
    try:
        assignor = entry_point.load()
    except Exception as error:  # whatever the other package raises while it is imported
        raise ServerAssignorLoadError(f"{_described(entry_point)}: {type(error).__name__}: {error}") from error
    if isinstance(assignor, type):
        raise ServerAssignorLoadError(f"{_described(entry_point)}: is a class; register an instance of it")
    name = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name:
        raise ServerAssignorLoadError(f"{_described(entry_point)}: its name is {name!r}, not a non-empty string")
    if not callable(getattr(assignor, "assign", None)):
        raise ServerAssignorLoadError(f"{_described(entry_point)}: has no method assign")
    loaded: ServerAssignor = assignor
    return loaded


def _described(entry_point: EntryPoint) -> str:
    return f"server assignor entry point {entry_point.name} = {entry_point.value}"
