"""Every request and response of the classic group protocol, one shape each: that of the newest version.

Field names are Kafka's (its JSON message definitions, 4.3), in snake case. A field that an older version lacks has
its default. Where older versions have another shape (one member in LeaveGroup v0-2, one group in OffsetFetch v0-7,
one key in FindCoordinator v0-3), whoever speaks the wire protocol translates; the events topic carries this shape only.

Bytes are base64 in JSON. `INT32` and the like are the ranges of Kafka's wire types: a value outside is a decode error.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, final

from msgspec import Meta, Struct

from schemas.error_codes import ErrorCode

INT32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
INT64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
UUID_TEXT = Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]

NO_GENERATION = -1
"""Generation of a request without membership, and of a refused JoinGroup."""
NO_LEADER_EPOCH = -1
NO_OFFSET = -1
NO_AUTHORIZED_OPERATIONS = -(2**31)
"""DescribeGroups: the authorised operations were not asked for (or, here, are not known)."""


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
    DELETE_GROUPS = 42
    OFFSET_DELETE = 47


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """Base of all messages: immutable, compared by value, built by keyword. They cannot form cycles, hence `gc=False`.

    A class of which requests make thousands may be built by position, too: that takes a third of the time.
    Requests are final, so that `type(request) is ...` tells them apart: `isinstance` asks msgspec's metaclass.
    """


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


class OffsetCommitRequestPartition(Message, frozen=True, kw_only=True):
    partition_index: INT32
    committed_offset: INT64
    committed_leader_epoch: INT32 = NO_LEADER_EPOCH
    committed_metadata: str | None = None


class OffsetCommitRequestTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: UUID_TEXT | None = None
    """The topic's id where the sender knows it; it travels into the offset record (value version 4)."""
    partitions: tuple[OffsetCommitRequestPartition, ...]


@final
class OffsetCommitRequest(Message, frozen=True, kw_only=True):
    group_id: str
    generation_id_or_member_epoch: INT32 = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: INT64 = -1
    """v2-4: the commit's own retention; -1 for the coordinator's."""
    topics: tuple[OffsetCommitRequestTopic, ...]


class OffsetCommitResponsePartition(Message, frozen=True):
    partition_index: INT32
    error_code: ErrorCode = ErrorCode.NONE


class OffsetCommitResponseTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: str | None = None
    partitions: tuple[OffsetCommitResponsePartition, ...]


class OffsetCommitResponse(Message, frozen=True, kw_only=True):
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


class OffsetFetchRequestTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: UUID_TEXT | None = None
    partition_indexes: tuple[INT32, ...]


class OffsetFetchRequestGroup(Message, frozen=True, kw_only=True):
    group_id: str
    member_id: str | None = None
    member_epoch: INT32 = -1
    topics: tuple[OffsetFetchRequestTopic, ...] | None = None
    """None: all topics."""


@final
class OffsetFetchRequest(Message, frozen=True, kw_only=True):
    groups: tuple[OffsetFetchRequestGroup, ...]
    """One event asks for one group; whoever has several sends several events."""
    require_stable: bool = False


class OffsetFetchResponsePartition(Message, frozen=True, kw_only=True):
    partition_index: INT32
    committed_offset: INT64 = NO_OFFSET
    committed_leader_epoch: INT32 = NO_LEADER_EPOCH
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.NONE


class OffsetFetchResponseTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: str | None = None
    partitions: tuple[OffsetFetchResponsePartition, ...]


class OffsetFetchResponseGroup(Message, frozen=True, kw_only=True):
    group_id: str
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE


class OffsetFetchResponse(Message, frozen=True, kw_only=True):
    groups: tuple[OffsetFetchResponseGroup, ...]


class OffsetDeleteRequestPartition(Message, frozen=True, kw_only=True):
    partition_index: INT32


class OffsetDeleteRequestTopic(Message, frozen=True, kw_only=True):
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@final
class OffsetDeleteRequest(Message, frozen=True, kw_only=True):
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


class OffsetDeleteResponsePartition(Message, frozen=True, kw_only=True):
    partition_index: INT32
    error_code: ErrorCode = ErrorCode.NONE


class OffsetDeleteResponseTopic(Message, frozen=True, kw_only=True):
    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


class OffsetDeleteResponse(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


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
)


class Api(Struct, frozen=True, kw_only=True):
    """One API: its key, its message types and the versions that the coordinator answers."""

    key: ApiKey
    request: type[Message]
    response: type[Message]
    min_version: int
    max_version: int


APIS: dict[str, Api] = {
    "FindCoordinator": Api(key=ApiKey.FIND_COORDINATOR, request=FindCoordinatorRequest, response=FindCoordinatorResponse, min_version=0, max_version=6),
    "JoinGroup": Api(key=ApiKey.JOIN_GROUP, request=JoinGroupRequest, response=JoinGroupResponse, min_version=0, max_version=9),
    "SyncGroup": Api(key=ApiKey.SYNC_GROUP, request=SyncGroupRequest, response=SyncGroupResponse, min_version=0, max_version=5),
    "Heartbeat": Api(key=ApiKey.HEARTBEAT, request=HeartbeatRequest, response=HeartbeatResponse, min_version=0, max_version=4),
    "LeaveGroup": Api(key=ApiKey.LEAVE_GROUP, request=LeaveGroupRequest, response=LeaveGroupResponse, min_version=0, max_version=5),
    "OffsetCommit": Api(key=ApiKey.OFFSET_COMMIT, request=OffsetCommitRequest, response=OffsetCommitResponse, min_version=2, max_version=10),
    "OffsetFetch": Api(key=ApiKey.OFFSET_FETCH, request=OffsetFetchRequest, response=OffsetFetchResponse, min_version=1, max_version=10),
    "OffsetDelete": Api(key=ApiKey.OFFSET_DELETE, request=OffsetDeleteRequest, response=OffsetDeleteResponse, min_version=0, max_version=0),
    "DescribeGroups": Api(key=ApiKey.DESCRIBE_GROUPS, request=DescribeGroupsRequest, response=DescribeGroupsResponse, min_version=0, max_version=6),
    "DeleteGroups": Api(key=ApiKey.DELETE_GROUPS, request=DeleteGroupsRequest, response=DeleteGroupsResponse, min_version=0, max_version=2),
}
"""By the `api` of an envelope. ListGroups is missing on purpose: it spans groups (see `ListGroupsRequest`)."""
