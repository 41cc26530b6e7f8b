"""Types of settings: the bounds and the text of a setting stand in its type, where they are there at run time.

    group_max_size: Annotated[int, Meta(ge=1, description="`group.max.size`: most members of a group.")] = 2_147_483_647

The class that owns a setting has its type, default, bounds and text. Others take them from there: command-line flags,
environment variables, files and help.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import fields

PORT_MAX = 65_535
AtLeast0 = Annotated[int, Meta(ge=0)]
AtLeast1 = Annotated[int, Meta(ge=1)]
Port = Annotated[int, Meta(ge=0, le=PORT_MAX)]


def meta_of(annotation: Any) -> Meta | None:
    """The bounds and the text in a type."""
    return first_meta(getattr(annotation, "__metadata__", ()))


def first_meta(metadata: Iterable[Any]) -> Meta | None:
    return next((each for each in metadata if isinstance(each, Meta)), None)


def bounds_problems(config: Struct) -> list[str]:
    """What is beyond its bounds, one sentence for each setting."""
    return beyond_bounds(config, {field.name: meta_of(field.type) for field in fields(config)})


def beyond_bounds(config: object, metas: Mapping[str, Meta | None]) -> list[str]:
    """The same of any object with these attributes. An attribute that is None is not set."""
    found = []
    for name, meta in metas.items():
        value = getattr(config, name)
        if meta is None or value is None or not isinstance(value, int):
            continue
        if meta.le is not None and not (meta.ge or 0) <= value <= meta.le:
            found.append(f"{name} is {value}, but must be {meta.ge or 0} to {meta.le}.")
        elif meta.ge is not None and value < meta.ge:
            found.append(f"{name} is {value}, but must be at least {meta.ge}.")
    return found
