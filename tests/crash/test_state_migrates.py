"""Groups in state that an earlier release wrote, with classic groups only, are migrated by their members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator_state import ClassicGroup, decode_group
from coordinator_state.consumer.group import ConsumerGroup
from schemas.consumer_group_history import GroupConverted
from schemas.consumer_group_messages import JOIN_EPOCH
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import of_type, subscription
from tests.crash.state_fixtures import STATE

CLUSTER = TopicMetadata(
    version=1,
    topics=tuple([
        DescribedTopic(name=name, topic_id=f"00000000-0000-0000-0000-00000000000{number}", partitions=((),) * 6)
        for number, name in enumerate(("t1", "t2", "t3"), start=1)
    ]),
    new_topics_version=1,
)
WITH_MEMBERS = sorted(STATE.glob("*-static_restart-1016-step-7-0.bin"))
EMPTY = sorted(STATE.glob("*-soup-1030-step-84-0.bin"))


def restored(blob: Path, **settings: str) -> ConsumerHarness:
    """The group, as an operator goes on with what it has stored."""
    packed = msgspec.msgpack.decode(blob.read_bytes(), type=tuple[bytes, bytes])
    stored = decode_group(*packed)
    assert isinstance(stored.body, ClassicGroup)
    group = ConsumerHarness(stored.group_id, now_ms=stored.now_ms, **settings)  # type: ignore[arg-type]
    group.metadata = CLUSTER
    group.offset = 1_000
    group.restore(packed)
    return group


def offsets_of(group: ConsumerHarness) -> dict[tuple[str, int], int]:
    assert group.group is not None
    return {(topic, partition): each.offset for topic, partition, each in group.group.offsets}


def test_all_versions_with_classic_groups_are_tried() -> None:
    assert [blob.name.split("-")[0] for blob in WITH_MEMBERS] == ["v1", "v2", "v3"]
    assert [blob.name.split("-")[0] for blob in EMPTY] == ["v1", "v2", "v3"]


@pytest.mark.parametrize("blob", WITH_MEMBERS, ids=lambda blob: blob.stem)
def test_a_group_with_members_goes_over_and_back(blob: Path) -> None:
    group = restored(blob)
    offsets, generation_id = offsets_of(group), group.classic.generation_id
    (old,) = group.classic.members.values()
    assert old.assignment
    # Up: the first member of the new protocol; the old one keeps its id, its instance and its partitions.
    outputs = group.beat(
        "new", JOIN_EPOCH, subscribed_topic_names=("t2",), rebalance_timeout_ms=60_000, topic_partitions=()
    )
    assert [record.to_protocol for record in of_type(outputs, GroupConverted)] == ["consumer"]
    assert group.heard(outputs).error_code == 0
    assert isinstance(group.body, ConsumerGroup)
    assert group.body.group_epoch == generation_id + 1
    member = group.body.members[old.member_id]
    assert member.uses_classic_protocol
    assert member.instance_id == old.group_instance_id
    assert offsets_of(group) == offsets
    heartbeat = group.answer(
        group.heartbeat(old.member_id, generation_id, group_instance_id=old.group_instance_id)
    )
    assert heartbeat.error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS)
    # Back: the last member of the new protocol leaves.
    outputs = group.beat("new", -1)
    assert [record.to_protocol for record in of_type(outputs, GroupConverted)] == ["classic"]
    assert list(group.classic.members) == [old.member_id]
    assert offsets_of(group) == offsets


@pytest.mark.parametrize("blob", EMPTY, ids=lambda blob: blob.stem)
def test_an_empty_group_keeps_its_offsets(blob: Path) -> None:
    group = restored(blob)
    offsets = offsets_of(group)
    assert offsets
    response = group.joins("new", "t1")
    assert response.error_code == 0
    assert isinstance(group.body, ConsumerGroup)
    assert offsets_of(group) == offsets


def joins(group: ConsumerHarness) -> int:
    """A member of the consumer protocol joins. Returns the error code."""
    return group.joins("new", "t2").error_code


def classic_joins(group: ConsumerHarness) -> int:
    """A member of the classic protocol joins. Returns the error code."""
    fields: dict[str, Any] = {"protocols": {"range": subscription("t2")}, "session_timeout_ms": 45_000}
    error_code: int = group.answer(group.join(new_member_id="classic", **fields)).error_code
    if error_code == ErrorCode.MEMBER_ID_REQUIRED:
        error_code = group.answer(group.join("classic", **fields)).error_code
    return error_code


@pytest.mark.parametrize(
    ("policy", "goes_up", "goes_back", "takes_classic"),
    [
        ("bidirectional", True, True, True),
        ("upgrade", True, False, True),
        ("downgrade", False, True, True),
        ("disabled", False, False, False),
    ],
)
def test_what_each_policy_allows(policy: str, goes_up: bool, goes_back: bool, takes_classic: bool) -> None:
    with_members, empty = WITH_MEMBERS[1], EMPTY[1]
    group = restored(with_members, group_consumer_migration_policy=policy)
    assert joins(group) == (0 if goes_up else ErrorCode.GROUP_ID_NOT_FOUND)
    assert isinstance(_body(group), ConsumerGroup) == goes_up
    # An empty group changes its type under any policy.
    group = restored(empty, group_consumer_migration_policy=policy)
    assert joins(group) == 0
    assert isinstance(_body(group), ConsumerGroup)
    assert (classic_joins(group) == 0) == takes_classic
    group.beat("new", -1)
    assert isinstance(_body(group), ConsumerGroup) != (goes_back and takes_classic)
    if not takes_classic:
        assert classic_joins(group) == 0
        assert isinstance(_body(group), ClassicGroup)


def _body(group: ConsumerHarness) -> object:
    assert group.group is not None
    return group.group.body
