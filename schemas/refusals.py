"""The response that refuses a request as a whole: Kafka's `getErrorResponse` of each request, in the newest shape.

The coordinator and the gateway both refuse by it, so a client cannot tell which of the two has refused.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import UNSET

from schemas.consumer_group_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
)
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
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    Request,
    Response,
    SyncGroupRequest,
    SyncGroupResponse,
)
from schemas.transaction_messages import (
    TXN_TOPIC_IDS_VERSION,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def error_response(request: Request, error_code: ErrorCode, version: int = 0) -> Response:
    """Return the API's response with this error code in every place where clients look for one. `version`: that of the
    request."""
    match request:
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=error_code)
        case OffsetCommitRequest() | TxnOffsetCommitRequest():
            return _of_commit(request, error_code, version)
        case JoinGroupRequest():
            return JoinGroupResponse(error_code=error_code, member_id=request.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=error_code)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error_code)
        case OffsetFetchRequest():
            groups = tuple(
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=error_code) for group in request.groups
            )
            return OffsetFetchResponse(groups=groups)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error_code)
        case DescribeGroupsRequest():
            described = tuple(
                DescribedGroup(error_code=error_code, group_id=group_id, group_state="") for group_id in request.groups
            )
            return DescribeGroupsResponse(groups=described)
        case DeleteGroupsRequest():
            results = tuple(
                DeletableGroupResult(group_id=group_id, error_code=error_code) for group_id in request.groups_names
            )
            return DeleteGroupsResponse(results=results)
        case FindCoordinatorRequest():
            message = error_code.meaning
            coordinators = tuple(
                Coordinator(key=key, node_id=-1, error_code=error_code, error_message=message)
                for key in request.coordinator_keys
            )
            return FindCoordinatorResponse(coordinators=coordinators)
        case ConsumerGroupHeartbeatRequest() | ConsumerGroupDescribeRequest():
            return _of_consumer_group(request, error_code)
    assert_never(request)


def _of_consumer_group(
    request: ConsumerGroupHeartbeatRequest | ConsumerGroupDescribeRequest, error_code: ErrorCode
) -> Response:
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return ConsumerGroupHeartbeatResponse(error_code=error_code)
    groups = tuple(DescribedConsumerGroup(error_code=error_code, group_id=group_id) for group_id in request.group_ids)
    return ConsumerGroupDescribeResponse(groups=groups)


def _of_commit(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, error_code: ErrorCode, version: int
) -> Response:
    if isinstance(request, OffsetCommitRequest):
        return OffsetCommitResponse(topics=_commit_topics(request, error_code))
    return TxnOffsetCommitResponse(topics=_pending_topics(request, error_code, version))


def _commit_topics(request: OffsetCommitRequest, error_code: ErrorCode) -> tuple[OffsetCommitResponseTopic, ...]:
    """The response to a commit has no error code of its own: every partition carries it."""
    return tuple(
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetCommitResponsePartition(partition.partition_index, error_code) for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )


def _pending_topics(
    request: TxnOffsetCommitRequest, error_code: ErrorCode, version: int
) -> tuple[TxnOffsetCommitResponseTopic, ...]:
    """As for a commit: every partition carries the error code."""
    return tuple(
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id if version >= TXN_TOPIC_IDS_VERSION else UNSET,
            partitions=tuple(
                TxnOffsetCommitResponsePartition(partition.partition_index, error_code)
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
