"""Assignors that other packages register by entry points: what client-side and server-side ones have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Protocol, TypeVar


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str: ...


AnyAssignor = TypeVar("AnyAssignor", bound=Named)
Refusal = Callable[[EntryPoint, str], Exception]
"""Makes the error of an entry point that gives no usable assignor; the text says why."""


def registered(group: str) -> list[EntryPoint]:
    """Return a group of entry points by their names."""
    return sorted(entry_points(group=group), key=lambda entry_point: (entry_point.name, entry_point.value))


def with_registered(
    assignors: Mapping[str, AnyAssignor], group: str, load: Callable[[EntryPoint], AnyAssignor], refusal: Refusal
) -> Mapping[str, AnyAssignor]:
    """Return the given assignors and those of a group of entry points, by name. Raises what `refusal` makes where two
    have one name."""
    result = dict(assignors)
    for entry_point in registered(group):
        assignor = load(entry_point)
        if assignor.name in result:
            raise refusal(entry_point, f"there already is an assignor named {assignor.name!r}")
        result[assignor.name] = assignor
    return MappingProxyType(result)


def load_named(entry_point: EntryPoint, refusal: Refusal) -> Any:
    """Return the object of an entry point: an instance with a name. Raises what `refusal` makes of anything else."""
    try:
        assignor = entry_point.load()
    except Exception as error:  # whatever the other package raises while it is imported
        raise refusal(entry_point, f"{type(error).__name__}: {error}") from error
    if isinstance(assignor, type):
        raise refusal(entry_point, "is a class; register an instance of it")
    name = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name:
        raise refusal(entry_point, f"its name is {name!r}, not a non-empty string")
    return assignor
