"""Kafka's versions of group requests and responses, and our messages, which have the newest version's shape.

The values on Kafka's side are those of `schemas.kafka.codec` and `schemas.kafka.json_form`. Old shapes:
FindCoordinator v0-3 has one key, LeaveGroup v0-2 one member, OffsetFetch v1-7 one group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType
from typing import Any, TypeVar, cast, get_args

import msgspec
from msgspec import Struct

from schemas.error_codes import ErrorCode
from schemas.message_types import Message
from schemas.messages import (
    APIS,
    DeleteGroupsResponse,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    Request,
    Response,
)
from schemas.transaction_messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from schemas.wire import EncodeError, topic_id_text, uuid_text

LIST_GROUPS, ADD_OFFSETS = "ListGroups", "AddOffsetsToTxn"
NO_EVENTS = ListGroupsRequest, AddOffsetsToTxnRequest
"""Requests that a gateway answers without asking the coordinator."""
GroupRequest = Request | ListGroupsRequest | AddOffsetsToTxnRequest
GroupResponse = Response | ListGroupsResponse | AddOffsetsToTxnResponse
_ReadId = Callable[[bytes], str | None]

_REQUESTS: dict[str, type[Message]] = {
    LIST_GROUPS: ListGroupsRequest,
    ADD_OFFSETS: AddOffsetsToTxnRequest,
    **{name: api.request for name, api in APIS.items()},
}
_RESPONSES: dict[str, type[Message]] = {
    LIST_GROUPS: ListGroupsResponse,
    ADD_OFFSETS: AddOffsetsToTxnResponse,
    **{name: api.response for name, api in APIS.items()},
}
_Struct = TypeVar("_Struct", bound=Struct)


def request_of(api: str, version: int, values: Mapping[str, Any]) -> GroupRequest:
    """Build the request from its values. Fields that this version does not have keep our defaults."""
    if api == "FindCoordinator" and version < 4:
        values = {**values, "coordinator_keys": (values["key"],)}
    elif api == "LeaveGroup" and version < 3:
        values = {**values, "members": ({"member_id": values["member_id"]},)}
    elif api == "OffsetFetch" and version < 8:
        values = {**values, "groups": ({"group_id": values["group_id"], "topics": values["topics"]},)}
    elif api == "TxnOffsetCommit" and version >= 3:
        values = {**values, "generation_id": values["generation_id_or_member_epoch"]}
    return cast(GroupRequest, _build(_REQUESTS[api], values))


def response_of(api: str, version: int, values: Mapping[str, Any]) -> GroupResponse:
    """Build the response from its values. Fields that this version does not have keep our defaults, or are empty.
    Raises ValueError for an error code that is none of Kafka's."""
    if api == "FindCoordinator" and version < 4:
        values = {"coordinators": ({**values, "key": ""},)}
    elif api == "OffsetFetch" and version < 8:
        values = {"groups": ({**values, "group_id": ""},)}
    elif api == "JoinGroup" and version < 7:
        values = {**values, "protocol_name": values["protocol_name"] or None}
    return cast(GroupResponse, _build(_RESPONSES[api], values))


def response_values(api: str, version: int, response: GroupResponse) -> dict[str, Any]:
    """Return the values of a response in this version's shape; structs in it are ours. Raises `EncodeError` for a
    response that this version cannot express."""
    values = _fields(response)
    if api == "FindCoordinator" and version < 4:
        values |= _fields(_only(values["coordinators"]))
    elif api == "OffsetFetch" and version < 8:
        values |= _fields(_only(values["groups"]))
    elif api == "JoinGroup" and version < 7:
        values["protocol_name"] = values["protocol_name"] or ""
    elif isinstance(response, LeaveGroupResponse) and version < 3:
        values["error_code"] = _only_error(response)
    elif isinstance(response, DeleteGroupsResponse) and version >= 3:
        values["results"] = tuple(
            msgspec.structs.replace(result, error_message=result.error_message or None) for result in response.results
        )
    return values


def struct_inside(annotation: Any) -> type[Struct] | None:
    """Return the struct that a field of this type holds, alone or in an array."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return next(filter(None, map(struct_inside, get_args(annotation))), None)


def _only_error(response: LeaveGroupResponse) -> ErrorCode:
    """Old versions have one error code: that of the request, or else that of the one member."""
    if response.error_code or not response.members:
        return response.error_code
    return _only(response.members).error_code


def _only(items: tuple[_Struct, ...]) -> _Struct:
    if len(items) != 1:
        raise EncodeError(f"{len(items)} answers in a version that takes one")
    return items[0]


def _fields(item: Struct) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__}


@cache
def _plan(message: type[Struct]) -> tuple[tuple[str, type[Struct] | None, bool, _ReadId | None], ...]:
    """Return for each field its name, the struct in its array, whether it is an error code, and how its text is made of
    a topic's id."""
    return tuple(
        (field.name, struct_inside(field.type), field.type is ErrorCode, _reader_of_id(field))
        for field in msgspec.structs.fields(message)
    )


def _reader_of_id(field: msgspec.structs.FieldInfo) -> _ReadId | None:
    """Return None for what is no topic's id. A member may say that it owns partitions of the topic with the zero uuid;
    elsewhere it says that there is no id."""
    if field.name != "topic_id":
        return None
    return topic_id_text if NoneType in get_args(field.type) else uuid_text


def _build(message: type[_Struct], values: Mapping[str, Any]) -> _Struct:
    """Our message of what was read; what is missing keeps our default."""
    built: dict[str, Any] = {}
    for name, item, is_error, read_id in _plan(message):
        if name in values:
            value = values[name]
            if item is not None and value is not None:
                if isinstance(value, tuple):
                    value = tuple([_build(item, element) for element in value])
                else:
                    value = _build(item, value)
            elif is_error:
                value = ErrorCode(value)
            elif read_id is not None:
                value = read_id(value)
            built[name] = value
        elif name == "name" and "topic_id" in values:
            built[name] = ""  # by its id only: newer versions of OffsetCommit, OffsetFetch and TxnOffsetCommit
    return message(**built)
