"""Assignors of other packages, found by their entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint

from group_coordinator.coordinating.assignors.contract import Assignor, RebalanceProtocol
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
