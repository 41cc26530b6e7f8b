"""Kafka's message definitions, parsed: which fields a message has in which version, and how each is typed.

The files lie beside this module and are Kafka's own, see `NOTICE`. A definition is read when it is first asked for.
Source: `clients/src/main/resources/common/message/README.md` of Apache Kafka; KIP-482 for flexible versions and tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal

from msgspec import Struct

_LAST_VERSION = 2**15 - 1
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_NO_FIELDS: Mapping[str, Any] = {}

INTEGER_TYPES = ("int8", "int16", "uint16", "int32", "uint32", "int64")


class Field(Struct, frozen=True, kw_only=True, gc=False):
    """One field of a message or of a struct in it."""

    name: str
    """As Kafka's definition has it."""
    python_name: str
    """In snake case."""
    json_name: str
    """In camel case, as Kafka prints it."""
    type: str
    """`string`, `int32` and the like, or a struct's name; of an array, the type of its items."""
    is_array: bool
    struct: StructDefinition | None
    """What a field of a struct's type consists of, or each item of an array of structs."""
    versions: range
    nullable_versions: range
    tagged_versions: range
    """Versions in which the field lies in the tags of its struct; a subset of `versions`."""
    tag: int | None
    default: Any
    """What a message without the field means by it: an int, bool, float, text, bytes, a tuple, or None."""
    entity_type: str | None
    """`topicName`, `groupId` and the like: what a text or number names."""

    def is_nullable(self, version: int) -> bool:
        return version in self.nullable_versions


class StructDefinition(Struct, frozen=True, kw_only=True, gc=False):
    """Fields in the order in which they are written."""

    name: str
    fields: tuple[Field, ...]

    def fields_of(self, version: int) -> tuple[Field, ...]:
        """Return the fields of this version that lie in the struct itself, not in its tags."""
        return tuple(
            field for field in self.fields if version in field.versions and version not in field.tagged_versions
        )

    def tagged_fields_of(self, version: int) -> tuple[Field, ...]:
        """Return the fields of this version that lie in the tags, by tag."""
        tagged = (field for field in self.fields if field.tag is not None and version in field.tagged_versions)
        return tuple(sorted(tagged, key=lambda field: field.tag or 0))


class Definition(Struct, frozen=True, kw_only=True, gc=False):
    """A whole message, or the key or value of a record."""

    name: str
    type: str
    """`request`, `response`, `data`, `coordinator-key`, `coordinator-value`."""
    api_key: int | None
    """Of a key or value: the record type."""
    versions: range
    """The versions that Kafka reads."""
    flexible_versions: range
    """The versions with compact strings and tags."""
    struct: StructDefinition

    def is_flexible(self, version: int) -> bool:
        return version in self.flexible_versions


Folder = Literal["messages", "records"]


@cache
def definition_of(name: str) -> Definition:
    """Return the definition of a message (`JoinGroupRequest`), or of a record's key or value. Raises KeyError."""
    for folder in ("messages", "records"):
        file = resources.files(__package__).joinpath(folder, f"{name}.json")
        if file.is_file():
            return parse_definition(json.loads(file.read_text("utf-8")))
    raise KeyError(name)


@cache
def names_of(folder: Folder) -> tuple[str, ...]:
    """Return the names of all definitions in a folder, sorted."""
    files = resources.files(__package__).joinpath(folder).iterdir()
    return tuple(sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json")))


def parse_definition(source: Mapping[str, Any]) -> Definition:
    """Parse the JSON of a definition."""
    common = {struct["name"]: struct for struct in source.get("commonStructs", ())}
    name = source["name"]
    return Definition(
        name=name,
        type=source["type"],
        api_key=source.get("apiKey"),
        versions=_range(source["validVersions"]),
        flexible_versions=_range(source["flexibleVersions"]),
        struct=StructDefinition(name=name, fields=tuple(_parse_fields(source["fields"], common))),
    )


def _parse_fields(fields: list[dict[str, Any]], common: Mapping[str, dict[str, Any]]) -> Iterator[Field]:
    for source in fields:
        name: str = source["name"]
        kind: str = source["type"]
        is_array = kind.startswith("[]")
        item = kind.removeprefix("[]")
        inside = source.get("fields") or common.get(item, _NO_FIELDS).get("fields")
        struct = None if inside is None else StructDefinition(name=item, fields=tuple(_parse_fields(inside, common)))
        yield Field(
            name=name,
            python_name=_WORD_START.sub("_", name).lower(),
            json_name=name[:1].lower() + name[1:],
            type=item,
            is_array=is_array,
            struct=struct,
            versions=_range(source.get("versions") or source["taggedVersions"]),
            nullable_versions=_range(source.get("nullableVersions", "none")),
            tagged_versions=_range(source.get("taggedVersions", "none")),
            tag=source.get("tag"),
            default=_default(item, is_array, struct, source.get("default")),
            entity_type=source.get("entityType"),
        )


@cache
def _range(versions: str) -> range:
    """Kafka's way to write versions: `none`, `3`, `2-5` or `4+`."""
    if versions == "none":
        return range(0)
    if versions.endswith("+"):
        return range(int(versions[:-1]), _LAST_VERSION + 1)
    first, _, last = versions.partition("-")
    return range(int(first), int(last or first) + 1)


def _default(kind: str, is_array: bool, struct: StructDefinition | None, default: Any) -> Any:
    """A default as Kafka's generator reads it: a null without quotes is as good as no default."""
    if default == "null":
        return None
    if is_array:
        return ()
    if struct is not None:
        return {field.python_name: field.default for field in struct.fields}
    if kind in INTEGER_TYPES:
        return int(str(default or 0).strip(), 0)
    match kind:
        case "bool":
            return str(default).lower() == "true"
        case "float64":
            return float(default or 0)
        case "uuid":
            return bytes(16)
        case "bytes" | "records":
            return b""
    return default or ""
