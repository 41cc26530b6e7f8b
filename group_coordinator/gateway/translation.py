"""Wire messages of the group APIs and our messages: many versions there, one shape, the newest, here.

Old shapes: FindCoordinator v0-3 has one key, LeaveGroup v0-2 one member, OffsetFetch v1-7 one group.
Topic ids (OffsetCommit and OffsetFetch v10) are not spoken here; `group_coordinator.gateway.versions` does not offer them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast, get_args

import msgspec
from msgspec import Struct

from group_coordinator.gateway.codec import body_start, response_body_start, response_payload
from group_coordinator.gateway.frames import RequestHead
from schemas.error_codes import ErrorCode
from schemas.kafka.codec import decode
from schemas.messages import (
    APIS,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    Message,
    Request,
    Response,
)
from schemas.wire import EncodeError

LIST_GROUPS = "ListGroups"
GroupRequest = Request | ListGroupsRequest
GroupResponse = Response | ListGroupsResponse

_REQUESTS: dict[str, type[Message]] = {LIST_GROUPS: ListGroupsRequest} | {name: api.request for name, api in APIS.items()}
_RESPONSES: dict[str, type[Message]] = {LIST_GROUPS: ListGroupsResponse} | {name: api.response for name, api in APIS.items()}
_ERROR_CODES = frozenset(ErrorCode)
_Struct = TypeVar("_Struct", bound=Struct)


def read_request(api: str, head: RequestHead, payload: bytes, items_max: int | None = None) -> GroupRequest:
    """The request in a frame's payload. Raises `schemas.wire.DecodeError`, also for one of more than `items_max` items."""
    message = api + "Request"
    version = head.api_version
    values = decode(message, version, payload, body_start(message, head, payload), items_max)
    if api == "FindCoordinator" and version < 4:
        values["coordinator_keys"] = (values["key"],)
    elif api == "LeaveGroup" and version < 3:
        values["members"] = ({"member_id": values["member_id"]},)
    elif api == "OffsetFetch" and version < 8:
        values["groups"] = ({"group_id": values["group_id"], "topics": values["topics"]},)
    return cast(GroupRequest, _build(_REQUESTS[api], values))


def write_response(api: str, version: int, correlation_id: int, response: GroupResponse) -> bytes:
    """A response's payload. Raises `schemas.wire.EncodeError` for what this version cannot say."""
    values: dict[str, Any] = {name: getattr(response, name) for name in response.__struct_fields__}
    if api == "FindCoordinator" and version < 4:
        values |= _attributes(_only(values["coordinators"]))
    elif api == "OffsetFetch" and version < 8:
        values |= _attributes(_only(values["groups"]))
    elif api == "JoinGroup" and version < 7:
        values["protocol_name"] = values["protocol_name"] or ""
    elif isinstance(response, LeaveGroupResponse) and version < 3:
        values["error_code"] = _only_error(response)
    return response_payload(api + "Response", version, correlation_id, values)


def read_response(api: str, version: int, payload: bytes) -> GroupResponse:
    """A broker's response, header included. What its version does not say has our default, or is empty.

    An error code that is none of ours reads as UNKNOWN_SERVER_ERROR. Raises `schemas.wire.DecodeError`.
    """
    message = api + "Response"
    values = decode(message, version, payload, response_body_start(message, version))
    if api == "FindCoordinator" and version < 4:
        values = {"coordinators": ({**values, "key": ""},)}
    elif api == "OffsetFetch" and version < 8:
        values = {"groups": ({**values, "group_id": ""},)}
    elif api == "JoinGroup" and version < 7:
        values["protocol_name"] = values["protocol_name"] or None
    return cast(GroupResponse, _build(_RESPONSES[api], values))


def _error(code: int) -> ErrorCode:
    return ErrorCode(code) if code in _ERROR_CODES else ErrorCode.UNKNOWN_SERVER_ERROR


def _only_error(response: LeaveGroupResponse) -> ErrorCode:
    """Old versions have one error code: that of the request, or else that of the one member."""
    if response.error_code or not response.members:
        return response.error_code
    return _only(response.members).error_code


def _only(items: tuple[_Struct, ...]) -> _Struct:
    if len(items) != 1:
        raise EncodeError(f"{len(items)} answers in a version that takes one")
    return items[0]


def _attributes(item: Struct) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__}


@cache
def _plan(message: type[Struct]) -> tuple[tuple[str, type[Struct] | None, bool], ...]:
    """For each field: its name, the struct of which it holds an array, whether it is an error code."""
    return tuple(
        (field.name, _struct_inside(field.type), field.type is ErrorCode) for field in msgspec.structs.fields(message)
    )


def _build(message: type[_Struct], values: Mapping[str, Any]) -> _Struct:
    """Our message of what was read; what this version does not have keeps our default."""
    built: dict[str, Any] = {}
    for name, item, is_error in _plan(message):
        if name in values:
            value = values[name]
            if item is not None and value is not None:
                value = tuple([_build(item, each) for each in value])
            built[name] = _error(value) if is_error else value
    return message(**built)


def _struct_inside(annotation: Any) -> type[Struct] | None:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return next(filter(None, map(_struct_inside, get_args(annotation))), None)
