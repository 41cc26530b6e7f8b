"""What a broker does for requests of consumer groups (KIP-848) outside of the group: rights to topics, and the order of
what is described.

Source: `KafkaApis.handleConsumerGroupHeartbeat` and `handleConsumerGroupDescribe` (Kafka 4.3). Here only the
coordinator's own topics are looked at: who may see others brokers know, and they do not see these requests.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from group_coordinator.coordinating.gateway.topic_access import TopicAccess
from schemas.consumer_group_messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DescribedConsumerGroup,
)
from schemas.error_codes import ErrorCode
from schemas.messages import DescribedGroup

_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = 3, 6, 8, 10, 11
"""Codes of `AclOperation`: those that there are for groups (Kafka: `AclEntry.supportedOperations`)."""
_ALL_OPERATIONS = sum(
    [1 << operation for operation in (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)]
)
_Described = TypeVar("_Described", DescribedGroup, DescribedConsumerGroup)


def subscribes_to_refused(request: ConsumerGroupHeartbeatRequest, topics: TopicAccess, principal: str) -> bool:
    """Return whether the member names a topic that the client may not name. Topics of an expression are not looked at:
    whoever resolves it leaves the coordinator's out."""
    return any(topics.refuses(principal, name) for name in request.subscribed_topic_names or ())


def without_refused(
    answer: ConsumerGroupDescribeResponse, topics: TopicAccess, principal: str
) -> ConsumerGroupDescribeResponse:
    """Refuse the description of a group that would show a topic which the client may not name."""
    return ConsumerGroupDescribeResponse(
        groups=tuple(
            DescribedConsumerGroup(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, group_id=group.group_id)
            if any(topics.refuses(principal, name) for name in _topics_shown(group))
            else group
            for group in answer.groups
        )
    )


def with_operations(groups: tuple[_Described, ...]) -> tuple[_Described, ...]:
    """Say what the client may do with each group that it is shown: everything, since rules about groups know no single
    operations."""
    return tuple(
        [each if each.error_code else replace(each, authorized_operations=_ALL_OPERATIONS) for each in groups]
    )


def in_kafkas_order(answer: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    """Order descriptions as a broker does: groups that the client may not see come first."""
    by_right = sorted(answer.groups, key=lambda group: group.error_code is not ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return ConsumerGroupDescribeResponse(groups=tuple(by_right))


def _topics_shown(group: DescribedConsumerGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
