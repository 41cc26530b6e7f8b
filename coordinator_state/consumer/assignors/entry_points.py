"""Server-side assignors of other packages, found by their entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint

from coordinator_state.consumer.assignors.checked import CheckedAssignor
from coordinator_state.consumer.assignors.contract import ServerAssignor
from schemas.entry_points import load_named, registered, with_registered

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
