"""What Kafka 4.4 decides otherwise than 4.3 with a consumer group: each rule both ways."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state import LogRecord
from schemas.consumer_group_messages import JOIN_EPOCH
from schemas.consumer_group_records import TARGET_MEMBER_TYPE, TARGET_METADATA_TYPE
from schemas.error_codes import ErrorCode
from schemas.wire import INT16
from tests.coordinator_state.consumer.harness import ConsumerHarness, consumer_heartbeat
from tests.coordinator_state.harness import of_type

BOTH = pytest.mark.parametrize("version", ["4.3", "4.4"])
MINUTE_MS = 60_000


def group_of(version: str, **settings: Any) -> ConsumerHarness:
    return ConsumerHarness(kafka_rules=version, **settings)


@BOTH
def test_who_joins_a_group_that_became_empty_is_assigned_at_once(version: str) -> None:
    group = group_of(version, group_consumer_assignment_interval_ms=MINUTE_MS // 4)
    group.joins("a", "foo")
    outputs = group.beat("a", -1)
    records = [record for record in of_type(outputs, LogRecord) if record.value is not None]
    targets = [record for record in records if INT16.unpack_from(record.key)[0] == TARGET_METADATA_TYPE]
    assert len(targets) == (version == "4.4")
    assert (group.body.assignment_epoch == group.body.group_epoch) == (version == "4.4")
    answer = group.joins("b", "foo")
    assert answer.assignment is not None
    assert bool(answer.assignment.topic_partitions) == (version == "4.4")


@BOTH
def test_another_preferred_assignor_raises_the_epoch(version: str) -> None:
    group = group_of(version)
    group.joins("a", "foo", server_assignor="uniform")
    epoch = group.body.group_epoch
    group.beat("a", group.body.members["a"].member_epoch, server_assignor="range")
    assert group.body.group_epoch == epoch + (version == "4.4")
    group.beat("a", group.body.members["a"].member_epoch, server_assignor="range")
    assert group.body.group_epoch == epoch + (version == "4.4")


@BOTH
def test_a_static_member_comes_back_into_a_full_group(version: str) -> None:
    group = group_of(version, group_consumer_max_size=1)
    group.joins("a", "foo", instance_id="i")
    group.beat("a", -2, instance_id="i")
    returned = group.joins("b", "foo", instance_id="i")
    assert returned.error_code == (ErrorCode.NONE if version == "4.4" else ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert group.joins("c", "foo", instance_id="j").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@BOTH
def test_a_subscription_that_cannot_be_read(version: str) -> None:
    group = group_of(version)
    group.joins("a", "foo")
    answer = group.answer(group.join(new_member_id="m", protocols={"range": b"\x00"}, group_instance_id="i"))
    expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if version == "4.4" else ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer.error_code == expected


@BOTH
def test_who_takes_the_place_of_a_static_member_and_changes_no_target(version: str) -> None:
    group = group_of(version)
    group.joins("a", "foo", instance_id="i")
    group.beat("a", -2, instance_id="i")
    rejoin = consumer_heartbeat("b", JOIN_EPOCH, ("foo", "nope"), instance_id="i")
    outputs = of_type(group.send(*rejoin, topic_metadata=group.metadata), LogRecord)
    targets = [record for record in outputs if INT16.unpack_from(record.key)[0] == TARGET_MEMBER_TYPE]
    assert [record.value is None for record in targets] == [True, False] if version == "4.4" else [True, False, False]
