"""Some requests ask about several groups: each becomes one for each group, and one answer is made of the answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from msgspec.structs import replace

from schemas.consumer_group_messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from schemas.message_types import Message
from schemas.messages import (
    APIS,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    Response,
)

_ASKED: dict[type[Message], str] = {
    ConsumerGroupDescribeRequest: "group_ids",
    DeleteGroupsRequest: "groups_names",
    DescribeGroupsRequest: "groups",
    FindCoordinatorRequest: "coordinator_keys",
    OffsetFetchRequest: "groups",
}
"""The field that names the groups."""
_ANSWERED: dict[type[Message], str] = {
    ConsumerGroupDescribeResponse: "groups",
    DeleteGroupsResponse: "results",
    DescribeGroupsResponse: "groups",
    FindCoordinatorResponse: "coordinators",
    OffsetFetchResponse: "groups",
}
"""The field that has an entry for each group."""


def one_per_group(request: Request) -> list[tuple[str, Request]]:
    """Return the groups that a request names, each with its own request. Brokers drop repeated names of DeleteGroups
    before they ask the coordinator."""
    field = _ASKED.get(type(request))
    if field is None:
        return [(cast(Any, request).group_id, request)]
    entries: Iterable[Any] = getattr(request, field)
    if isinstance(request, DeleteGroupsRequest):
        entries = dict.fromkeys(entries)
    return [(getattr(entry, "group_id", entry), replace(request, **{field: (entry,)})) for entry in entries]


def joined(api: str, responses: Iterable[Response]) -> Response:
    """Return one answer made of those to each group, in their order. Raises ValueError unless there is exactly one
    where the API asks about one group."""
    kind = APIS[api].response
    field = _ANSWERED.get(kind)
    if field is None:
        (response,) = responses
        return response
    return cast(Response, kind(**{field: tuple([each for answer in responses for each in getattr(answer, field)])}))
