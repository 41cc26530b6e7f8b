"""Every request and response of the group protocols, one shape each: that of the newest version.

Field names are Kafka's (its JSON message definitions, 4.3), in snake case. A field that an older version lacks has
its default. Where older versions have another shape (one member in LeaveGroup v0-2, one group in OffsetFetch v0-7,
one key in FindCoordinator v0-3), whoever speaks the wire protocol translates; the events topic carries this shape only.

Bytes are base64 in JSON. `INT32` and the like are the ranges of Kafka's wire types: a value outside is a decode error.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, final

from msgspec import UNSET, Meta, Struct, UnsetType

from schemas.consumer_group_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from schemas.error_codes import ErrorCode
from schemas.message_types import INT32, NO_AUTHORIZED_OPERATIONS, Message
from schemas.message_types import NO_GENERATION as NO_GENERATION
from schemas.offset_messages import NO_LEADER_EPOCH as NO_LEADER_EPOCH
from schemas.offset_messages import NO_OFFSET as NO_OFFSET
from schemas.offset_messages import OffsetCommitRequest as OffsetCommitRequest
from schemas.offset_messages import OffsetCommitRequestPartition as OffsetCommitRequestPartition
from schemas.offset_messages import OffsetCommitRequestTopic as OffsetCommitRequestTopic
from schemas.offset_messages import OffsetCommitResponse as OffsetCommitResponse
from schemas.offset_messages import OffsetCommitResponsePartition as OffsetCommitResponsePartition
from schemas.offset_messages import OffsetCommitResponseTopic as OffsetCommitResponseTopic
from schemas.offset_messages import OffsetDeleteRequest as OffsetDeleteRequest
from schemas.offset_messages import OffsetDeleteRequestPartition as OffsetDeleteRequestPartition
from schemas.offset_messages import OffsetDeleteRequestTopic as OffsetDeleteRequestTopic
from schemas.offset_messages import OffsetDeleteResponse as OffsetDeleteResponse
from schemas.offset_messages import OffsetDeleteResponsePartition as OffsetDeleteResponsePartition
from schemas.offset_messages import OffsetDeleteResponseTopic as OffsetDeleteResponseTopic
from schemas.offset_messages import OffsetFetchRequest as OffsetFetchRequest
from schemas.offset_messages import OffsetFetchRequestGroup as OffsetFetchRequestGroup
from schemas.offset_messages import OffsetFetchRequestTopic as OffsetFetchRequestTopic
from schemas.offset_messages import OffsetFetchResponse as OffsetFetchResponse
from schemas.offset_messages import OffsetFetchResponseGroup as OffsetFetchResponseGroup
from schemas.offset_messages import OffsetFetchResponsePartition as OffsetFetchResponsePartition
from schemas.offset_messages import OffsetFetchResponseTopic as OffsetFetchResponseTopic
from schemas.transaction_messages import TxnOffsetCommitRequest as TxnOffsetCommitRequest
from schemas.transaction_messages import TxnOffsetCommitResponse as TxnOffsetCommitResponse


class ApiKey(IntEnum):
    """Kafka's API keys; the member's name in CamelCase is the `api` of an envelope."""

    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    ADD_OFFSETS_TO_TXN = 25
    TXN_OFFSET_COMMIT = 28
    DELETE_GROUPS = 42
    OFFSET_DELETE = 47
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69


@final
class FindCoordinatorRequest(Message, frozen=True, kw_only=True):
    """Which shard coordinates these groups? A pure function of the id and the number of shards."""

    key_type: Annotated[int, Meta(ge=-128, le=127)] = 0
    """0 group, 1 transaction, 2 share group; only groups are coordinated here."""
    coordinator_keys: tuple[str, ...]


class Coordinator(Message, frozen=True, kw_only=True):
    key: str
    node_id: INT32
    """The shard, which is the partition of the events topic that takes the group's requests; -1 with an error."""
    host: str = ""
    port: INT32 = -1
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class FindCoordinatorResponse(Message, frozen=True, kw_only=True):
    coordinators: tuple[Coordinator, ...]


class JoinGroupProtocol(Message, frozen=True, kw_only=True):
    name: str
    metadata: bytes


@final
class JoinGroupRequest(Message, frozen=True, kw_only=True):
    group_id: str
    session_timeout_ms: INT32
    rebalance_timeout_ms: INT32 = -1
    """v0 has none; any negative value means the session timeout."""
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[JoinGroupProtocol, ...]
    """In the member's order of preference."""
    reason: str | None = None
    """Why the client joins, in its own words (KIP-800)."""


class JoinGroupResponseMember(Message, frozen=True, kw_only=True):
    member_id: str
    group_instance_id: str | None = None
    metadata: bytes


class JoinGroupResponse(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    generation_id: INT32 = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    """v9: the leader keeps the assignment that the group has (a static leader that came back)."""
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
    """For the leader: all members with their metadata for the chosen protocol; for others empty."""


@final
class HeartbeatRequest(Message, frozen=True, kw_only=True):
    group_id: str
    generation_id: INT32
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResponse(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE


class LeaveGroupMember(Message, frozen=True, kw_only=True):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


@final
class LeaveGroupRequest(Message, frozen=True, kw_only=True):
    group_id: str
    members: tuple[LeaveGroupMember, ...]


class LeaveGroupMemberResponse(Message, frozen=True, kw_only=True):
    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.NONE


class LeaveGroupResponse(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[LeaveGroupMemberResponse, ...] = ()


class SyncGroupAssignment(Message, frozen=True, kw_only=True):
    member_id: str
    assignment: bytes


@final
class SyncGroupRequest(Message, frozen=True, kw_only=True):
    group_id: str
    generation_id: INT32
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncGroupAssignment, ...] = ()
    """From the leader; what others send here is ignored."""


class SyncGroupResponse(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@final
class DescribeGroupsRequest(Message, frozen=True, kw_only=True):
    groups: tuple[str, ...]
    """One event asks for one group; whoever has several sends several events."""
    include_authorized_operations: bool = False


class DescribedGroupMember(Message, frozen=True, kw_only=True):
    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_id: str
    group_state: str
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: INT32 = NO_AUTHORIZED_OPERATIONS


class DescribeGroupsResponse(Message, frozen=True, kw_only=True):
    groups: tuple[DescribedGroup, ...]


class ListGroupsRequest(Message, frozen=True, kw_only=True):
    """Spans all groups, so it is no event of one group: answered from the assignments topic, or by `Coordinator`."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


class ListedGroup(Message, frozen=True, kw_only=True):
    group_id: str
    protocol_type: str
    group_state: str = ""
    group_type: str = "classic"


class ListGroupsResponse(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


@final
class DeleteGroupsRequest(Message, frozen=True, kw_only=True):
    groups_names: tuple[str, ...]
    """One event deletes one group; whoever has several sends several events."""


class DeletableGroupResult(Message, frozen=True, kw_only=True):
    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | UnsetType | None = UNSET
    """v3. Prose; a coordinator of groups tells none."""


class DeleteGroupsResponse(Message, frozen=True, kw_only=True):
    results: tuple[DeletableGroupResult, ...]


Request = (
    FindCoordinatorRequest
    | JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | DescribeGroupsRequest
    | DeleteGroupsRequest
    | ConsumerGroupHeartbeatRequest
    | ConsumerGroupDescribeRequest
    | TxnOffsetCommitRequest
)
"""What may be an event of one group."""

Response = (
    FindCoordinatorResponse
    | JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | DescribeGroupsResponse
    | DeleteGroupsResponse
    | ConsumerGroupHeartbeatResponse
    | ConsumerGroupDescribeResponse
    | TxnOffsetCommitResponse
)


class Api(Struct, frozen=True):
    """One API: its key, its message types and the versions that the coordinator answers."""

    key: ApiKey
    request: type[Message]
    response: type[Message]
    min_version: int
    max_version: int


APIS: dict[str, Api] = {
    "FindCoordinator": Api(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse, 0, 6),
    "JoinGroup": Api(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse, 0, 9),
    "SyncGroup": Api(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse, 0, 5),
    "Heartbeat": Api(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse, 0, 4),
    "LeaveGroup": Api(ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse, 0, 5),
    "OffsetCommit": Api(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse, 2, 10),
    "OffsetFetch": Api(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, 1, 10),
    "OffsetDelete": Api(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse, 0, 0),
    "DescribeGroups": Api(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse, 0, 6),
    "DeleteGroups": Api(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse, 0, 3),
    "ConsumerGroupHeartbeat": Api(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, 0, 1
    ),
    "ConsumerGroupDescribe": Api(
        ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, 0, 1
    ),
    "TxnOffsetCommit": Api(ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse, 0, 6),
}
"""By the `api` of an envelope. ListGroups is missing on purpose: it spans groups (see `ListGroupsRequest`)."""
