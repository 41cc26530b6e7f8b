"""JSON Schema (2020-12) of everything that lies on the topics as JSON, made from the types.

The files in `schemas/json/` are what `json_schemas` returns, with what the types say of their fields; a test compares
them, and `make schemas` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import msgspec

from schemas.events import GroupEventBody, RequestDocument, ResponseDocument, Tick
from schemas.history import GroupSnapshot, History
from schemas.known_topics import KnownTopic
from schemas.messages import APIS
from schemas.query_progress import ProgressRecord
from schemas.rules_events import KafkaRules
from tests.documents.fields import field_texts

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def json_schemas() -> dict[str, Schema]:
    """Return the JSON schemas by file name."""
    files = {
        "event.schema.json": _event(),
        "response.schema.json": _enveloped(
            "coordinator.responses: the answer to one request",
            ResponseDocument,
            {name: api.response for name, api in APIS.items()},
        ),
        "history.schema.json": _plain("coordinator.history: one thing that happened in a group", History),
        "topic.schema.json": _plain("coordinator.topics: a topic of the cluster, as a shard knows it", KnownTopic),
        "progress.schema.json": _plain("coordinator.progress: how far a shard's query is", ProgressRecord),
        "assignment.schema.json": _plain("coordinator.assignments: the group as it is", GroupSnapshot),
    }
    kinds = [kind for kind in _structs(msgspec.Struct) if kind.__module__.startswith("schemas.")]
    for schema in files.values():
        for name, part in schema["$defs"].items():
            if properties := part.get("properties"):
                _describe(properties, next(kind for kind in kinds if _is_described(kind, name, properties)))
    return files


def _structs(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from _structs(each)


def _is_described(kind: type[msgspec.Struct], name: str, properties: Schema) -> bool:
    tag = kind.__struct_config__.tag_field
    return kind.__name__ == name and set(properties) - {tag} == set(kind.__struct_encode_fields__)


def _describe(properties: Schema, kind: type[msgspec.Struct]) -> None:
    """Add the texts under the fields of a type."""
    texts = field_texts(kind)
    for field in msgspec.structs.fields(kind):
        if field.name in texts:
            properties[field.encode_name]["description"] = texts[field.name]


def _plain(title: str, kind: Any) -> Schema:
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return {"$schema": _DIALECT, "title": title, **schema, "$defs": components}


def _event() -> Schema:
    requests = _enveloped(
        "coordinator.events: a request to one group or another event of it, or a tick of the clock",
        RequestDocument,
        {name: api.request for name, api in APIS.items()},
    )
    event_schemas, components = msgspec.json.schema_components(
        [Tick, KafkaRules, *get_args(GroupEventBody)], ref_template="#/$defs/{name}"
    )
    return requests | {"oneOf": [*event_schemas, *requests["oneOf"]], "$defs": requests["$defs"] | components}


def _enveloped(title: str, envelope: type, bodies: dict[str, type]) -> Schema:
    """An envelope whose `api` says what its `body` is."""
    kinds = [envelope, *bodies.values()]
    (schema, *body_schemas), components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    alternatives = [
        {"allOf": [schema, {"properties": {"api": {"const": name}, "body": body}}]}
        for name, body in zip(bodies, body_schemas, strict=True)
    ]
    return {"$schema": _DIALECT, "title": title, "oneOf": alternatives, "$defs": components}
