"""What earlier versions of Kafka do otherwise with a consumer group, as `kafka_rules` has it."""

from __future__ import annotations

import pytest

from coordinator_state import Answer, GroupConfig, LogRecord
from coordinator_state.consumer.member import MemberState
from coordinator_state.kafka_versions import KAFKA_VERSIONS
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from schemas.error_codes import ErrorCode
from schemas.kafka.records import decode_record
from schemas.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, owned
from tests.coordinator_state.harness import of_type

EARLIER = pytest.mark.parametrize("version", ["4.0", "4.1", "4.2"])
ALL = pytest.mark.parametrize("version", ["4.0", "4.1", "4.2", "4.3"])


def group_of(version: str) -> ConsumerHarness:
    return ConsumerHarness(kafka_rules=version)


def test_a_version_that_is_not_known_is_refused() -> None:
    (problem,) = GroupConfig(kafka_rules="4.9").problems()
    assert problem.startswith("kafka_rules is '4.9'")


@ALL
def test_the_first_epoch(version: str) -> None:
    group = group_of(version)
    group.joins("m", "foo")
    expected = 2 if version == "4.3" else 1
    assert group.body.members["m"].member_epoch == group.body.group_epoch == group.body.assignment_epoch == expected


@ALL
def test_a_member_without_topics_raises_the_epoch_of_a_group_that_begins_at_0(version: str) -> None:
    group = group_of(version)
    group.joins("m", subscribed_topic_regex="f.*")
    assert group.body.group_epoch == 1


@ALL
def test_the_fields_of_records(version: str) -> None:
    group = group_of(version)
    group.joins("m", "foo")
    records = [decode_record(output.key, output.value) for output in group.outputs if isinstance(output, LogRecord)]
    values = {record.name: record.value or {} for record in records if not isinstance(record, int)}
    assert ("metadata_hash" in values["ConsumerGroupMetadata"]) == (version != "4.0")
    assert ("assignment_timestamp" in values["ConsumerGroupTargetAssignmentMetadata"]) == (version == "4.3")
    (topic,) = values["ConsumerGroupCurrentMemberAssignment"]["assigned_partitions"]
    assert (topic.get("assignment_epochs") is not None) == (version == "4.3")


def revoking(version: str) -> ConsumerHarness:
    """Return a group whose first member is to give up two of four partitions to the second one."""
    group = group_of(version)
    group.joins("a", "foo")
    group.sleep(10_000)  # targets are computed anew
    group.joins("b", "foo")
    group.beat("a", group.body.members["a"].member_epoch, topic_partitions=owned(FOO, 0, 1, 2, 3))
    assert group.body.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    return group


@ALL
def test_what_a_member_is_to_give_up_is_described(version: str) -> None:
    group = revoking(version)
    outputs = group.send("ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=("g",)), 1)
    response = of_type(outputs, Answer)[-1].response
    assert isinstance(response, ConsumerGroupDescribeResponse)
    (described,) = response.groups
    member = next(member for member in described.members if member.member_id == "a")
    (topic,) = member.assignment.topic_partitions
    assert len(topic.partitions) == (4 if version == "4.3" else 2)


@ALL
def test_a_commit_of_an_older_epoch(version: str) -> None:
    group = revoking(version)
    before = group.body.members["a"].member_epoch
    group.beat("a", before, topic_partitions=owned(FOO, *group.body.members["a"].assigned[FOO]))
    assert group.body.members["a"].member_epoch == before + 1
    number = next(iter(group.body.members["a"].assigned[FOO]))
    partition = OffsetCommitRequestPartition(partition_index=number, committed_offset=1, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="foo", topic_id=FOO, partitions=(partition,))
    request = OffsetCommitRequest(group_id="g", member_id="a", generation_id_or_member_epoch=before, topics=(topic,))
    response = of_type(group.send("OffsetCommit", request), Answer)[-1].response
    assert isinstance(response, OffsetCommitResponse)
    code = response.topics[0].partitions[0].error_code
    assert code == (ErrorCode.NONE if version == "4.3" else ErrorCode.STALE_MEMBER_EPOCH)


@ALL
def test_an_expression_that_is_given_up(version: str) -> None:
    group = group_of(version)
    group.joins("m", "foo", subscribed_topic_regex="f.*")
    epoch = group.body.group_epoch
    group.beat("m", group.body.members["m"].member_epoch, subscribed_topic_regex="")
    assert group.body.group_epoch == epoch + (version in ("4.2", "4.3"))


@EARLIER
def test_targets_are_computed_at_once(version: str) -> None:
    group = group_of(version)
    for member_id in ("a", "b", "c"):
        group.joins(member_id, "foo")
        assert group.body.assignment_epoch == group.body.group_epoch


def test_every_version_is_there() -> None:
    assert list(KAFKA_VERSIONS) == ["3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]
