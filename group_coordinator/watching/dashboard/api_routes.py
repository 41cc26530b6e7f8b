"""The addresses of the API, version 1, and the OpenAPI document that describes them: both are made from one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, get_args

import msgspec
from msgspec import Struct
from starlette.requests import Request

from group_coordinator.watching.dashboard import api_types as types
from group_coordinator.watching.dashboard.api import PAGE_DEFAULT, PAGE_MAX, Api
from group_coordinator.watching.dashboard.sources import Source
from group_coordinator.watching.dashboard.verdicts import VerdictKind

BASE = "/api/v1"
_TOKEN = "token"
"""It lets in, and asks nothing."""


_TEXT = MappingProxyType({"type": "string"})


class Parameter(Struct, frozen=True, kw_only=True):
    """Of a question's query."""

    name: str
    meaning: str
    argument: str = ""
    """What `Api` calls it; empty: the same."""
    is_required: bool = False
    schema: Mapping[str, Any] = _TEXT


class Operation(Struct, frozen=True, kw_only=True):
    """A question and its answer."""

    path: str
    summary: str
    answer: type[Struct]
    make: Callable[..., Struct]
    parameters: tuple[Parameter, ...] = ()


_GROUP = Parameter(name="group", meaning="The group's id.", argument="name", is_required=True)
_PAGING = (
    Parameter(name="page", meaning="What the answer before has named as `next_page`."),
    Parameter(
        name="limit", meaning="So many are on a page.",
        schema={"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": PAGE_DEFAULT},
    ),
)  # fmt: skip


def operations(api: Api, source: Source) -> tuple[Operation, ...]:
    """Return all questions. `source`: it says how far all is read."""

    def overview() -> types.Overview:
        progress = source.progress()
        return api.overview(source.name, bool(progress["caught_up"]), str(progress["detail"]))

    return (
        Operation(
            path="/overview", summary="What is known, and how far.", answer=types.Overview, make=overview
        ),
        Operation(
            path="/groups", summary="The groups as they are now, by id.", answer=types.Groups, make=api.groups,
            parameters=(
                Parameter(name="contains", meaning="Those whose id has this in it."),
                Parameter(name="cluster", meaning="Those of this cluster."),
                Parameter(name="state", meaning="Those in this state."),
                Parameter(
                    name="verdict", meaning="Those with this verdict.",
                    schema={"type": "string", "enum": list(get_args(VerdictKind))},
                ),
                *_PAGING,
            ),
        ),
        Operation(
            path="/group", summary="A group with its members and partitions.", answer=types.GroupDetails,
            make=api.group, parameters=(_GROUP,),
        ),
        Operation(
            path="/rebalances", summary="The rebalances of a group, the newest first.", answer=types.Rebalances,
            make=api.rebalances, parameters=(_GROUP, *_PAGING),
        ),
        Operation(
            path="/rebalance", summary="A rebalance of a group, step by step.", answer=types.RebalanceDetails,
            make=api.rebalance,
            parameters=(_GROUP, Parameter(name="rebalance", argument="key", meaning="Its key. Without: the last one.")),
        ),
        Operation(
            path="/events", summary="The latest events of all groups, the newest first.", answer=types.Events,
            make=api.events,
            parameters=(
                Parameter(name="group", argument="name", meaning="Those of this group."), *_PAGING,
            ),
        ),
    )  # fmt: skip


def answer(operation: Operation, request: Request) -> Struct:
    """Answer a question. Raises NotFound, and ValueError where it is none."""
    query = request.query_params
    known = {parameter.name: parameter for parameter in operation.parameters}
    unknown = [name for name in query if name not in known and name != _TOKEN]
    if unknown:
        raise ValueError(f"There is no parameter {unknown[0]}; there are {', '.join(known) or 'none'}.")
    arguments: dict[str, str | int] = {}
    for name, parameter in known.items():
        if name in query:
            arguments[parameter.argument or name] = _value(parameter, query[name])
        elif parameter.is_required:
            raise ValueError(f"{name} is missing: {parameter.meaning}")
    return operation.make(**arguments)


def _value(parameter: Parameter, text: str) -> str | int:
    choices = parameter.schema.get("enum")
    if choices and text not in choices:
        raise ValueError(f"{parameter.name} is none of {', '.join(choices)}.")
    if parameter.schema["type"] == "string":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{parameter.name} is a whole number.") from None


def openapi(all_operations: tuple[Operation, ...]) -> dict[str, Any]:
    """Return the document that describes them, OpenAPI 3.1."""
    answers = [*dict.fromkeys(operation.answer for operation in all_operations), types.Problem]
    schemas, components = msgspec.json.schema_components(answers, ref_template="#/components/schemas/{name}")
    by_type = dict(zip(answers, schemas, strict=True))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Consumer groups",
            "version": "1.0.0",
            "description": "What is known of consumer groups. It only reads. Times are milliseconds since 1970. "
            "Ids, hosts and reasons were chosen by clients. Version 1 may get new fields; those that it has stay.",
        },
        "servers": [{"url": BASE}],
        "paths": {
            operation.path: {"get": _described(operation, by_type[operation.answer], by_type[types.Problem])}
            for operation in all_operations
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "Where one is wanted."}},
        },
        "security": [{}, {"token": []}],
    }


def _described(operation: Operation, schema: Mapping[str, Any], problem: Mapping[str, Any]) -> dict[str, Any]:
    def json_of(of: Mapping[str, Any]) -> dict[str, Any]:
        return {"content": {"application/json": {"schema": of}}}

    return {
        "operationId": operation.path.removeprefix("/"),
        "summary": operation.summary,
        "parameters": list(_parameters(operation)),
        "responses": {
            "200": {"description": operation.summary, **json_of(schema)},
            "400": {"description": "The question is none: the answer says why.", **json_of(problem)},
            "404": {"description": "It is not there.", **json_of(problem)},
        },
    }


def _parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    for parameter in operation.parameters:
        yield {
            "name": parameter.name,
            "in": "query",
            "required": parameter.is_required,
            "description": parameter.meaning,
            "schema": dict(parameter.schema),
        }
