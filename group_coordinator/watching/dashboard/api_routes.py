"""The addresses of the API, version 1, and the OpenAPI document that describes them: both are made from one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, get_args

import msgspec
from msgspec import Struct
from starlette.requests import Request

from group_coordinator.watching.dashboard import api_types as types
from group_coordinator.watching.dashboard.change import Change, GroupProtocol
from group_coordinator.watching.dashboard.documents import Documents, NotFound
from group_coordinator.watching.dashboard.group_page import GroupOverTime
from group_coordinator.watching.dashboard.readiness import ReadinessPage
from group_coordinator.watching.dashboard.sources import Source
from group_coordinator.watching.dashboard.verdicts import VerdictKind
from group_coordinator.watching.dashboard.what_if import Comparison
from group_coordinator.watching.tables.readiness_row import ReadinessVerdict

BASE = "/api/v1"
_TOKEN = "token"
"""It lets in, and asks nothing."""


_TEXT: Mapping[str, Any] = MappingProxyType({"type": "string"})
_NUMBER: Mapping[str, Any] = MappingProxyType({"type": "integer"})
_YES_OR_NO: Mapping[str, Any] = MappingProxyType({"type": "boolean"})
PAGE_MAX = 1_000
GROUPS_MAX = 20_000
"""On a page of groups, of which the list shows all."""
PAGE_DEFAULT = 100


class Parameter(Struct, frozen=True, kw_only=True):
    """Of a question's query."""

    name: str
    meaning: str
    is_required: bool = False
    schema: Mapping[str, Any] = _TEXT


class Operation(Struct, frozen=True, kw_only=True):
    """A question and its answer."""

    path: str
    summary: str
    answer: type[Any]
    make: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()


def _paging(default: int = PAGE_DEFAULT, most: int = PAGE_MAX) -> tuple[Parameter, ...]:
    bounds = {"minimum": 1, "maximum": most, "default": default}
    return (
        Parameter(name="page", meaning="What the answer before has named as `next_page`."),
        Parameter(name="limit", meaning="So many are on a page.", schema={**_NUMBER, **bounds}),
    )


def _choice(name: str, meaning: str, of: Any) -> Parameter:
    return Parameter(name=name, meaning=meaning, schema={**_TEXT, "enum": list(get_args(of))})


_GROUP = Parameter(name="group", meaning="The group's id.", is_required=True)
_CHANGE = (
    _choice("group_protocol", "Every client's group.protocol.", GroupProtocol),
    Parameter(name="session_timeout_ms", meaning="Every member's session timeout.", schema=_NUMBER),
    Parameter(name="heartbeat_interval_ms", meaning="The time between two heartbeats.", schema=_NUMBER),
    Parameter(name="initial_delay_ms", meaning="group.initial.rebalance.delay.ms.", schema=_NUMBER),
    Parameter(name="assignment_interval_ms", meaning="group.consumer.assignment.interval.ms.", schema=_NUMBER),
    Parameter(name="static_members", meaning="Every client has its client id as its static id.", schema=_YES_OR_NO),
    Parameter(name="assignor", meaning="The assignor that all members offer, or ask for."),
)


def operations(documents: Documents, source: Source) -> tuple[Operation, ...]:
    """Return all questions. `source`: it says how far all is read."""
    return (*_of_all(documents, source), *_of_a_group(documents), *_of_the_log(documents, source))


def _of_all(documents: Documents, source: Source) -> tuple[Operation, ...]:
    return (
        Operation(
            path="/overview", summary="What is known, and how far.", answer=types.Overview,
            make=lambda: documents.overview(source.name, source.progress()),
        ),
        Operation(
            path="/groups", summary="The groups as they are now, by id.", answer=types.Groups, make=documents.groups,
            parameters=(
                Parameter(name="contains", meaning="Those whose id has this in it."),
                Parameter(name="cluster", meaning="Those of this cluster."),
                Parameter(name="state", meaning="Those in this state."),
                _choice("verdict", "Those with this verdict.", VerdictKind),
                Parameter(
                    name="max_wait_ms", schema={**_NUMBER, "minimum": 0},
                    meaning="Groups that take longer to be brought up to date are as they were a moment ago, or "
                    "missing where they are new. Without: all are up to date.",
                ),
                *_paging(most=GROUPS_MAX),
            ),
        ),
        Operation(
            path="/readiness", summary="Which classic groups can go over to the consumer protocol (KIP-848).",
            answer=ReadinessPage, make=documents.readiness,
            parameters=(
                Parameter(name="contains", meaning="Those whose id has this in it."),
                Parameter(name="cluster", meaning="Those of this cluster."),
                _choice("verdict", "Those with this verdict.", ReadinessVerdict),
                *_paging(),
            ),
        ),
        Operation(
            path="/past-groups", summary="All groups as they were at a moment.", answer=types.PastGroups,
            make=documents.past_groups,
            parameters=(Parameter(name="at_ms", meaning="The moment.", is_required=True, schema=_NUMBER),),
        ),
    )  # fmt: skip


def _of_a_group(documents: Documents) -> tuple[Operation, ...]:
    def what_if(*, group: str, **change: Any) -> Comparison:
        return documents.what_if(group, Change(**change))

    return (
        Operation(
            path="/group", summary="A group with its members and partitions.", answer=types.GroupDetails,
            make=documents.group_now, parameters=(_GROUP,),
        ),
        Operation(
            path="/group-over-time", summary="A group as its page draws it.", answer=GroupOverTime,
            make=documents.group, parameters=(_GROUP,),
        ),
        Operation(
            path="/rebalances", summary="The rebalances of a group, the newest first.", answer=types.Rebalances,
            make=documents.rebalances, parameters=(_GROUP, *_paging()),
        ),
        Operation(
            path="/rebalance", summary="A rebalance of a group, step by step.", answer=types.RebalanceDetails,
            make=documents.rebalance,
            parameters=(_GROUP, Parameter(name="rebalance", meaning="Its key. Without: the last one.")),
        ),
        Operation(
            path="/what-if", summary="A group under other settings.", answer=Comparison, make=what_if,
            parameters=(_GROUP, *_CHANGE),
        ),
    )  # fmt: skip


def _of_the_log(documents: Documents, source: Source) -> tuple[Operation, ...]:
    def request(*, partition: int, offset: int) -> types.Request:
        found = source.read_request(partition, offset)
        if found is None:
            raise NotFound("This request is not to be had here (any more): only its place in the log is known.")
        return found

    return (
        Operation(
            path="/events", summary="The latest events of all groups, the newest first.", answer=types.Events,
            make=documents.events,
            parameters=(
                Parameter(name="group", meaning="Those of this group."),
                Parameter(name="kind", meaning="Those of this type."),
                Parameter(name="contains", meaning="Those that have this in their group's id or their text."),
                *_paging(),
            ),
        ),
        Operation(
            path="/dead-letters", summary="The latest events that could not be read.", answer=types.DeadLetters,
            make=documents.dead_letters,
        ),
        Operation(
            path="/request", summary="The whole request or other event at a place of the log.", answer=types.Request,
            make=request,
            parameters=(
                Parameter(name="partition", meaning="Of the events topic.", is_required=True, schema=_NUMBER),
                Parameter(name="offset", meaning="In this partition.", is_required=True, schema=_NUMBER),
            ),
        ),
    )  # fmt: skip


def answer(operation: Operation, request: Request) -> Any:
    """Answer a question. Raises NotFound, and ValueError where it is none."""
    query = request.query_params
    known = {parameter.name: parameter for parameter in operation.parameters}
    unknown = [name for name in query if name not in known and name != _TOKEN]
    if unknown:
        raise ValueError(f"There is no parameter {unknown[0]}; there are {', '.join(known) or 'none'}.")
    arguments: dict[str, Any] = {}
    for name, parameter in known.items():
        if name in query:
            arguments[name] = _value(parameter, query[name])
        elif parameter.is_required:
            raise ValueError(f"{name} is missing: {parameter.meaning}")
        elif "default" in parameter.schema:
            arguments[name] = parameter.schema["default"]
    return operation.make(**arguments)


def _value(parameter: Parameter, text: str) -> str | int:
    name, schema = parameter.name, parameter.schema
    choices = schema.get("enum", ("true", "false") if schema["type"] == "boolean" else None)
    if choices and text not in choices:
        raise ValueError(f"{name} is none of {', '.join(choices)}.")
    if schema["type"] == "string":
        return text
    if schema["type"] == "boolean":
        return text == "true"
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{name} is a whole number.") from None
    least, most = schema.get("minimum"), schema.get("maximum")
    if (least is not None and number < least) or (most is not None and number > most):
        raise ValueError(f"{name} is {number}, but must be {least}{'' if most is None else f' to {most}'}.")
    return number


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
