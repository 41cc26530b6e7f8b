"""Settings: the default, the text and the bounds of each stand in the field of the dataclass that owns it.

    group_max_size: int = setting(2_147_483_647, "`group.max.size`: most members of a group.", at_least=1)

Flags, environment variables, files and help take them from there. A class inherits the settings of others.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields
from typing import Any, NamedTuple, TypeVar, get_type_hints

PORT_MAX = 65_535
_T = TypeVar("_T")


class Setting(NamedTuple):
    """A setting is a field with a text; this is what else is known of it."""

    type: Any
    default: Any
    text: str
    at_least: int | None
    at_most: int | None


def setting(default: _T, text: str, *, at_least: int | None = None, at_most: int | None = None) -> _T:
    """Make a field of a dataclass that is a setting."""
    metadata = {"text": text, "at_least": at_least, "at_most": at_most}
    dataclass_field: Any = field(default=default, metadata=metadata)
    if isinstance(default, dict):
        dataclass_field = field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclass_field  # type: ignore[no-any-return]


_known: dict[type, dict[str, Setting]] = {}


def settings_of(owner: type) -> dict[str, Setting]:
    """Return the settings of a class by name; those that it inherits come first."""
    if owner not in _known:
        types = get_type_hints(owner)
        _known[owner] = {
            attribute.name: Setting(
                types[attribute.name], None if attribute.default is MISSING else attribute.default, **attribute.metadata
            )
            for attribute in fields(owner)
            if attribute.metadata
        }
    return _known[owner]


def values_of(owner: type, config: object) -> dict[str, Any]:
    """Return the values that another object has for the settings of this class."""
    return {name: getattr(config, name) for name in settings_of(owner)}


def bounds_problems(config: object) -> list[str]:
    """Return one sentence for each value beyond its bounds. A setting that is None is not set."""
    problems = []
    for name, (_, _, _, at_least, at_most) in settings_of(type(config)).items():
        value = getattr(config, name)
        if value is None or at_least is None:
            continue
        if at_most is not None and not at_least <= value <= at_most:
            problems.append(f"{name} is {value}, but must be {at_least} to {at_most}.")
        elif value < at_least:
            problems.append(f"{name} is {value}, but must be at least {at_least}.")
    return problems
