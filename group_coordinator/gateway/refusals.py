"""How each group request is told no. Shapes: Kafka's `getErrorResponse` of each request."""

from __future__ import annotations

from typing import assert_never

from group_coordinator.gateway.translation import GroupRequest, GroupResponse
from schemas.error_codes import ErrorCode
from schemas.messages import (
    Coordinator,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)


def refusal(request: GroupRequest, error_code: ErrorCode) -> GroupResponse:
    """The response that refuses a request as a whole."""
    match request:
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=error_code)
        case JoinGroupRequest():
            return JoinGroupResponse(error_code=error_code, member_id=request.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=error_code)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error_code)
        case OffsetCommitRequest():
            return OffsetCommitResponse(topics=_commit_topics(request, error_code))
        case OffsetFetchRequest():
            return OffsetFetchResponse(groups=tuple(_fetch_group(group, error_code) for group in request.groups))
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error_code)
        case DescribeGroupsRequest():
            return DescribeGroupsResponse(
                groups=tuple(
                    DescribedGroup(error_code=error_code, group_id=group_id, group_state="") for group_id in request.groups
                )
            )
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(
                results=tuple(
                    DeletableGroupResult(group_id=group_id, error_code=error_code) for group_id in request.groups_names
                )
            )
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=error_code)
        case FindCoordinatorRequest():
            return FindCoordinatorResponse(
                coordinators=tuple(
                    Coordinator(key=key, node_id=-1, error_code=error_code) for key in request.coordinator_keys
                )
            )
    assert_never(request)


def _commit_topics(request: OffsetCommitRequest, error_code: ErrorCode) -> tuple[OffsetCommitResponseTopic, ...]:
    return tuple(
        OffsetCommitResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error_code)
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )


def _fetch_group(group: OffsetFetchRequestGroup, error_code: ErrorCode) -> OffsetFetchResponseGroup:
    """The code stands at the group and, for version 1, which has no such place, at each partition."""
    topics = tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartition(partition_index=index, error_code=error_code) for index in topic.partition_indexes
            ),
        )
        for topic in group.topics or ()
    )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=error_code)
