"""ConsumerGroupDescribe: API key 69, versions 0-1 (1: whether a member uses the classic protocol).

Source: `GroupCoordinatorService.consumerGroupDescribe`, `ConsumerGroup.asDescribedGroup` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ConsumerMember
from coordinator_state.consumer.preferred_assignor import preferred_assignor
from coordinator_state.errors import require_group_id
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage
from schemas.consumer_group_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    NamedTopicPartitions,
)
from schemas.error_codes import ErrorCode

_CLASSIC, _CONSUMER = 0, 1


def consumer_group_describe(step: Step, request: ConsumerGroupDescribeRequest) -> None:
    """Describe the group: epochs, and what each member owns and shall own."""
    require_group_id(step.group_id)
    group = step.group
    body = None if group is None else group.body
    if type(body) is not ConsumerGroup:
        step.respond(ConsumerGroupDescribeResponse(groups=(_not_found(step),)))
        return
    image = step.image
    described = DescribedConsumerGroup(
        group_id=step.group_id,
        group_state=body.state_name,
        group_epoch=body.group_epoch,
        assignment_epoch=body.assignment_epoch,
        assignor_name=preferred_assignor(body, None, step.config.consumer_assignors),
        members=tuple([
            _member(body, member, image, with_pending=step.config.kafka_version.describes_pending_revocation)
            for member in body.members.values()
        ]),
    )
    step.respond(ConsumerGroupDescribeResponse(groups=(described,)))


def _not_found(step: Step) -> DescribedConsumerGroup:
    """Kafka's tools print the message."""
    why = "not found" if step.group is None else "is not a consumer group"
    return DescribedConsumerGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {step.group_id} {why}.",
        group_id=step.group_id,
    )


def _member(
    group: ConsumerGroup, member: ConsumerMember, image: TopicsImage, *, with_pending: bool
) -> DescribedConsumerGroupMember:
    owned = {topic_id: set(epochs) for topic_id, epochs in member.assigned.items()}
    for topic_id, epochs in member.pending_revocation.items() if with_pending else ():
        owned.setdefault(topic_id, set()).update(epochs)
    return DescribedConsumerGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(owned, image),
        target_assignment=_assignment(dict(group.targets.get(member.member_id, ())), image),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(partitions: Mapping[str, Iterable[int]], image: TopicsImage) -> DescribedAssignment:
    """Topics that are gone are not shown."""
    return DescribedAssignment(
        topic_partitions=tuple([
            NamedTopicPartitions(
                topic_id=topic_id, topic_name=image.names[topic_id], partitions=tuple(sorted(partitions[topic_id]))
            )
            for topic_id in sorted(partitions)
            if topic_id in image.names
        ])
    )
