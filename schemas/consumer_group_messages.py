"""The messages of KIP-848: the heartbeat by which members of a consumer group do everything, and its description.

Field names are Kafka's (4.3), in snake case, as in `schemas.messages`.
"""

from __future__ import annotations

from typing import Annotated, final

from msgspec import Meta

from schemas.error_codes import ErrorCode
from schemas.message_types import INT32, NO_AUTHORIZED_OPERATIONS, UUID_TEXT, Message

INT8 = Annotated[int, Meta(ge=-128, le=127)]

JOIN_EPOCH = 0
"""Member epoch of a heartbeat that joins."""
LEAVE_EPOCH = -1
"""Member epoch of a heartbeat that leaves."""
LEAVE_STATIC_EPOCH = -2
"""Member epoch of a static member that leaves and will come back."""


class TopicPartitions(Message, frozen=True, kw_only=True):
    topic_id: UUID_TEXT
    partitions: tuple[INT32, ...]


class ConsumerGroupAssignment(Message, frozen=True, kw_only=True):
    topic_partitions: tuple[TopicPartitions, ...]


@final
class ConsumerGroupHeartbeatRequest(Message, frozen=True, kw_only=True):
    """Null and -1 mean: as last time."""

    group_id: str
    member_id: str
    member_epoch: INT32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: INT32 = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    """v1. An empty expression: none any more."""
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None
    """What the member owns."""


class ConsumerGroupHeartbeatResponse(Message, frozen=True):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: INT32 = 0
    heartbeat_interval_ms: INT32 = 0
    assignment: ConsumerGroupAssignment | None = None
    """None: as last time."""


@final
class ConsumerGroupDescribeRequest(Message, frozen=True, kw_only=True):
    group_ids: tuple[str, ...]
    """One event asks for one group; whoever has several sends several events."""
    include_authorized_operations: bool = False


class NamedTopicPartitions(Message, frozen=True, kw_only=True):
    topic_id: UUID_TEXT
    topic_name: str
    partitions: tuple[INT32, ...]


class DescribedAssignment(Message, frozen=True, kw_only=True):
    topic_partitions: tuple[NamedTopicPartitions, ...] = ()


class DescribedConsumerGroupMember(Message, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: INT32
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None = None
    assignment: DescribedAssignment
    target_assignment: DescribedAssignment
    member_type: INT8 = -1
    """v1. 0 classic, 1 consumer, -1 unknown."""


class DescribedConsumerGroup(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: INT32 = 0
    assignment_epoch: INT32 = 0
    assignor_name: str = ""
    members: tuple[DescribedConsumerGroupMember, ...] = ()
    authorized_operations: INT32 = NO_AUTHORIZED_OPERATIONS


class ConsumerGroupDescribeResponse(Message, frozen=True, kw_only=True):
    groups: tuple[DescribedConsumerGroup, ...]
