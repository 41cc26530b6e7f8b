"""The gateway refuses a request with the coordinator's answer, also a request that never reaches the coordinator."""

from __future__ import annotations

from typing import overload

from schemas.error_codes import ErrorCode
from schemas.message_versions import GroupRequest, GroupResponse
from schemas.messages import (
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    Request,
    Response,
)
from schemas.refusals import error_response
from schemas.transaction_messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


@overload
def refusal(request: Request, error_code: ErrorCode) -> Response: ...
@overload
def refusal(request: GroupRequest, error_code: ErrorCode) -> GroupResponse: ...
def refusal(request: GroupRequest, error_code: ErrorCode) -> GroupResponse:
    """Return the response that refuses a request as a whole."""
    if isinstance(request, ListGroupsRequest):
        return ListGroupsResponse(error_code=error_code)
    if isinstance(request, AddOffsetsToTxnRequest):
        return AddOffsetsToTxnResponse(error_code=error_code)
    if isinstance(request, OffsetFetchRequest):
        return OffsetFetchResponse(groups=tuple(_fetch_group(group, error_code) for group in request.groups))
    return error_response(request, error_code)


def _fetch_group(group: OffsetFetchRequestGroup, error_code: ErrorCode) -> OffsetFetchResponseGroup:
    """The code stands at the group and, for version 1, which has no such place, at each partition."""
    topics = tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetFetchResponsePartition(partition_index=index, error_code=error_code)
                for index in topic.partition_indexes
            ),
        )
        for topic in group.topics or ()
    )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=error_code)
