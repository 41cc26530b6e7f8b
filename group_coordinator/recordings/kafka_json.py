"""Kafka's JSON forms of group requests and responses, and our messages.

Brokers print them in the request log, and histories recorded from Kafka's coordinator have the same: field names of
Kafka's message definitions, with exactly the fields of the API version; bytes in base64, uuids in Kafka's URL-safe
base64 without padding. `throttleTimeMs` is left out. Source: Kafka's message definitions (4.3) and JsonConverters.

Our messages have one shape each, that of the newest version. A request for several groups becomes one for each;
`merge` makes one answer of theirs. From version 10 on commits and fetches name topics by id: `topic_names` tells their
names, by the id as text with hyphens (`topic_id_from_kafka`).
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast
from uuid import UUID

import msgspec
from msgspec import Struct

from group_coordinator.recordings.kafka_versions import Field, fields_of
from schemas.error_codes import ErrorCode
from schemas.messages import (
    APIS,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    Response,
)

LIST_GROUPS = "ListGroups"
LIST_GROUPS_VERSION_MAX = 5

_NO_TOPIC_ID = UUID(int=0)
_NO_NAMES: Mapping[str, str] = {}
_Struct = TypeVar("_Struct", bound=Struct)


class KafkaJsonError(ValueError):
    """The JSON is not what Kafka prints for this API and version, or names a topic by an id that is not known."""


def request_from_kafka(
    api: str, version: int, body: object, topic_names: Mapping[str, str] = _NO_NAMES
) -> tuple[tuple[str, Request], ...]:
    """The groups that a request addresses, each with its own request; one of no group gives nothing.

    Every API of `APIS`; for ListGroups see `list_groups_from_kafka`. Raises `KafkaJsonError`.
    """
    _insist_on_version(api, version)
    message = _read(APIS[api].request, api, version, _newest_request(api, version, _object(body)), topic_names)
    return _one_per_group(cast(Request, message))


def list_groups_from_kafka(version: int, body: object) -> ListGroupsRequest:
    """ListGroups, which spans all groups. Raises `KafkaJsonError`."""
    _insist_on_version(LIST_GROUPS, version)
    return _read(ListGroupsRequest, LIST_GROUPS, version, _object(body), _NO_NAMES)


def response_from_kafka(
    api: str, version: int, body: object, topic_names: Mapping[str, str] = _NO_NAMES
) -> Response | ListGroupsResponse:
    """What a broker answered; what its version does not say has our default, or is empty. Raises `KafkaJsonError`."""
    _insist_on_version(api, version)
    newest = _newest_response(api, version, _object(body))
    if api == LIST_GROUPS:
        return _read(ListGroupsResponse, api, version, newest, topic_names)
    return cast(Response, _read(APIS[api].response, api, version, newest, topic_names))


def response_to_kafka(api: str, version: int, response: Response | ListGroupsResponse) -> dict[str, Any]:
    """The JSON that a broker would print for this answer.

    Versions that know one group or one key only take a response of one. Raises `KafkaJsonError` for a version that
    is not spoken, ValueError for a response that the version cannot say.
    """
    _insist_on_version(api, version)
    body = _write(response, version)
    if api == "FindCoordinator" and version < 4:
        (coordinator,) = body["coordinators"]
        names = ("errorCode", "errorMessage", "nodeId", "host", "port")
        return {name: coordinator[name] for name in names if name in coordinator}
    if api == "OffsetFetch" and version < 8:
        (group,) = body["groups"]
        return {name: value for name, value in group.items() if name != "groupId"}
    if api == "JoinGroup" and version < 7:
        body["protocolName"] = body["protocolName"] or ""
    if isinstance(response, LeaveGroupResponse) and version < 3:
        body["errorCode"] = int(_only_error(response))
    return body


def merge(api: str, responses: Sequence[Response]) -> Response:
    """One answer of the answers to the requests that `request_from_kafka` gave, in their order.

    ValueError if there is not exactly one where the API addresses one group.
    """
    if api == "FindCoordinator":
        return FindCoordinatorResponse(coordinators=_joined(FindCoordinatorResponse, "coordinators", responses))
    if api == "OffsetFetch":
        return OffsetFetchResponse(groups=_joined(OffsetFetchResponse, "groups", responses))
    if api == "DescribeGroups":
        return DescribeGroupsResponse(groups=_joined(DescribeGroupsResponse, "groups", responses))
    if api == "DeleteGroups":
        return DeleteGroupsResponse(results=_joined(DeleteGroupsResponse, "results", responses))
    (response,) = responses
    return response


def topic_id_from_kafka(text: str) -> str | None:
    """A topic id as text with hyphens; None for Kafka's zero uuid. Raises `KafkaJsonError`."""
    try:
        topic_id = UUID(bytes=urlsafe_b64decode(text + "=="))
    except ValueError:
        raise KafkaJsonError(f"not a uuid of Kafka's: {text!r}") from None
    return None if topic_id == _NO_TOPIC_ID else str(topic_id)


def topic_id_to_kafka(topic_id: str | None) -> str:
    """The reverse of `topic_id_from_kafka`."""
    encoded = (UUID(topic_id) if topic_id else _NO_TOPIC_ID).bytes
    return urlsafe_b64encode(encoded).decode("ascii").rstrip("=")


# -------------------------------------------------------------------------------------------------------- old versions


def _newest_request(api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """The newest shape of a request; fields that do not belong there are left for the reader to ignore."""
    if api == "FindCoordinator" and version < 4:
        return {**body, "coordinatorKeys": [_value(body, "key")]}
    if api == "LeaveGroup" and version < 3:
        return {**body, "members": [{"memberId": _value(body, "memberId")}]}
    if api == "OffsetFetch" and version < 8:
        return {**body, "groups": [body]}
    if api == "OffsetCommit" and "generationIdOrMemberEpoch" not in body and "generationId" in body:
        return {**body, "generationIdOrMemberEpoch": body["generationId"]}  # its name before Kafka 3.5
    return body


def _newest_response(api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    if api == "FindCoordinator" and version < 4:
        return {"coordinators": [{**body, "key": ""}]}
    if api == "OffsetFetch" and version < 8:
        return {"groups": [{**body, "groupId": ""}]}
    if api == "JoinGroup" and version < 7:
        return {**body, "protocolName": _value(body, "protocolName") or None}
    return body


def _only_error(response: LeaveGroupResponse) -> ErrorCode:
    """Old versions have one error code: that of the request, or else that of the one member that left."""
    if response.error_code or not response.members:
        return response.error_code
    (member,) = response.members
    return member.error_code


def _one_per_group(request: Request) -> tuple[tuple[str, Request], ...]:
    replace = msgspec.structs.replace
    if isinstance(request, FindCoordinatorRequest):
        return tuple((key, replace(request, coordinator_keys=(key,))) for key in request.coordinator_keys)
    if isinstance(request, OffsetFetchRequest):
        return tuple((group.group_id, replace(request, groups=(group,))) for group in request.groups)
    if isinstance(request, DescribeGroupsRequest):
        return tuple((group_id, replace(request, groups=(group_id,))) for group_id in request.groups)
    if isinstance(request, DeleteGroupsRequest):
        # The broker drops repeated names of DeleteGroups before it asks the coordinator.
        names = dict.fromkeys(request.groups_names)
        return tuple((group_id, replace(request, groups_names=(group_id,))) for group_id in names)
    return ((request.group_id, request),)


def _joined(response_type: type[Struct], field: str, responses: Sequence[Response]) -> tuple[Any, ...]:
    if not all(isinstance(response, response_type) for response in responses):
        raise ValueError(f"only answers of type {response_type.__name__} can be merged here")
    return tuple(part for response in responses for part in getattr(response, field))


# ------------------------------------------------------------------------------------------------------ fields by table


def _insist_on_version(api: str, version: int) -> None:
    if api == LIST_GROUPS:
        versions = range(LIST_GROUPS_VERSION_MAX + 1)
    elif api in APIS:
        versions = range(APIS[api].min_version, APIS[api].max_version + 1)
    else:
        raise KafkaJsonError(f"no API of the group protocol: {api}")
    if version not in versions:
        raise KafkaJsonError(f"{api} version {version} is not spoken, only {versions.start} to {versions.stop - 1}")


def _object(body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise KafkaJsonError(f"expected an object, got {type(body).__name__}")
    return body


def _value(body: dict[str, Any], name: str) -> Any:
    try:
        return body[name]
    except KeyError:
        raise KafkaJsonError(f"field {name} is missing") from None


def _read(
    message: type[_Struct], api: str, version: int, body: dict[str, Any], topic_names: Mapping[str, str]
) -> _Struct:
    try:
        return msgspec.convert(_snake_case(message, version, body, topic_names), message)
    except (msgspec.ValidationError, ValueError) as error:
        raise KafkaJsonError(f"{api} version {version}: {error}") from None


def _snake_case(message: type[Struct], version: int, body: object, topic_names: Mapping[str, str]) -> dict[str, Any]:
    """Our names for the fields that this version has; all of them must be there, others are ignored."""
    source = _object(body)
    read: dict[str, Any] = {}
    for field in fields_of(message):
        if version in field.versions:
            value = _value(source, field.kafka_name)
            if field.is_topic_id:
                read[field.name], read["name"] = _topic(value, topic_names)
            elif field.item is not None and isinstance(value, list):
                item = field.item
                read[field.name] = [_snake_case(item, version, element, topic_names) for element in value]
            else:
                read[field.name] = value
    return read


def _topic(topic_id: object, topic_names: Mapping[str, str]) -> tuple[str, str]:
    """A topic's id and name, from its id alone."""
    if not isinstance(topic_id, str):
        raise KafkaJsonError(f"not a uuid of Kafka's: {topic_id!r}")
    ours = topic_id_from_kafka(topic_id)
    if ours is None or ours not in topic_names:
        raise KafkaJsonError(f"no name is known for the topic with id {topic_id}")
    return ours, topic_names[ours]


def _write(message: Struct, version: int) -> dict[str, Any]:
    return {
        field.kafka_name: _plain(field, getattr(message, field.name), version)
        for field in fields_of(type(message))
        if version in field.versions
    }


def _plain(field: Field, value: Any, version: int) -> Any:
    if field.is_topic_id:
        return topic_id_to_kafka(value)
    if isinstance(value, tuple):
        return [_write(element, version) if field.item else element for element in value]
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    return int(value) if isinstance(value, ErrorCode) else value
