"""A group read back from the offsets log is the group that wrote it."""

from __future__ import annotations

from collections import Counter

import pytest

from coordinator_state import (
    ClassicGroup,
    Coordinator,
    Group,
    GroupConfig,
    GroupState,
    LogRecord,
    Output,
    classic_group,
    group_event,
)
from schemas.events import EventError, decode_group_event, decode_group_id
from schemas.history import decode_snapshot
from schemas.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from schemas.ticks import read_tick
from schemas.wire import DecodeError
from streaming.config import StreamingConfig
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import GroupHarness, assignment, of_type, subscription
from tests.encoded_records import encode_group_metadata_value, encode_key, encode_offset_commit_value
from tests.offsets_log.live_topic import outputs_of
from tests.offsets_log.stored_consumer_groups import StoredConsumerGroups, published, topic_names_of
from tests.offsets_log.stored_groups import StoredGroup, StoredGroups, replay_offsets_log
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=1_000)


def same_hard_state(stored: StoredGroup, group: ClassicGroup) -> bool:
    """Whether the log tells of a group, Stable or Empty, all that must survive."""
    hard_state = (stored.state, stored.generation_id, stored.leader_id, tuple(stored.members.values()))
    members = tuple(
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            subscription=member.metadata_of(group.protocol_name),
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    return hard_state == (group.state, group.generation_id, group.leader_id, members)


def offsets_of(group: Group) -> dict[tuple[str, int], int]:
    return {(topic, partition): committed.offset for topic, partition, committed in group.offsets}


@pytest.mark.parametrize("seed", range(8))
def test_after_every_event_the_log_tells_what_the_groups_are(seed: int) -> None:
    coordinator, stored = Coordinator(CONFIG), StoredGroups()
    compared = 0

    def follow(outputs: list[Output]) -> int:
        for record in of_type(outputs, LogRecord):
            stored.replay(record.key, record.value)
        for group_id, group in coordinator.groups.items():
            classic = classic_group(group)
            if classic.state in (GroupState.STABLE, GroupState.EMPTY) and group.is_logged:
                assert same_hard_state(stored.groups[group_id], classic)
            stored_group = stored.groups.get(group_id)
            offsets = (
                {} if stored_group is None else {place: value.offset for place, value in stored_group.offsets.items()}
            )
            assert offsets == offsets_of(group)
        return len(coordinator.groups)

    clock_ms = 0
    for record in make_log(seed):
        assert record.offset is not None
        assert record.timestamp_ms is not None
        try:
            if record.key is None:
                clock_ms = max(clock_ms, read_tick(record.value, record.timestamp_ms, 3_000))
                compared += follow(coordinator.advance_to(clock_ms))
                continue
            group_id = decode_group_id(record.key)
            event = decode_group_event(group_id, record.value)
        except EventError:
            continue
        handled = group_event(event, record.offset, clock_ms, record.timestamp_ms)
        compared += follow(coordinator.handle(group_id, handled))
    assert compared > 100
    assert any(offsets_of(group) for group in coordinator.groups.values())


@pytest.mark.parametrize("seed", range(4))
def test_the_log_tells_all_that_is_published_of_a_consumer_group(seed: int) -> None:
    """Each time, in each state, with each member and what it shall own. But for a group that a refused JoinGroup has
    removed: it leaves its records, here as at a broker, so that defect is mended."""
    log = make_log(seed, groups=1, mixed_groups=5, requests=600)
    names, stored, states = topic_names_of(log), StoredConsumerGroups(), Counter[str]()
    for output in outputs_of(log, StreamingConfig(**SETTINGS, group_consumer_bug_fixes_enable=True)):
        if output.topic.endswith("offsets"):
            stored.replay(output.key or b"", output.value, int(output.headers["epoch"]))
        elif output.topic.endswith("assignments") and output.value is not None:
            snapshot = decode_snapshot(output.value)
            if snapshot.is_consumer_group:
                assert stored.groups[snapshot.group_id].as_published(names) == published(snapshot, names)
                states[snapshot.state] += 1
            else:
                assert snapshot.group_id not in stored.groups or not snapshot.exists
    assert min(states[state] for state in ("Empty", "Assigning", "Reconciling", "Stable")) > 5, states


def records(harness: GroupHarness) -> list[tuple[bytes, bytes | None]]:
    return [(record.key, record.value) for record in of_type(harness.outputs, LogRecord)]


def test_a_rebalance_that_goes_on_is_found_as_it_was_before() -> None:
    harness = GroupHarness()
    generation = harness.stable("m1")
    harness.commit("m1", generation, {("t", 0): 7, ("t", 1): 8}, metadata="mine")
    harness.add("m2")
    assert harness.state == "PreparingRebalance"
    group = replay_offsets_log(records(harness))["g"]
    assert group.state is GroupState.STABLE
    assert group.generation_id == generation
    assert {member.member_id: member.assignment for member in group.members.values()} == {"m1": assignment("t", 0)}
    assert {place: value.offset for place, value in group.offsets.items()} == {("t", 0): 7, ("t", 1): 8}
    assert group.offsets["t", 0].metadata == "mine"


def test_static_members_keep_their_instance_id() -> None:
    harness = GroupHarness()
    harness.join(group_instance_id="i1", new_member_id="i1-a")
    harness.sleep(0)
    harness.sync("i1-a", 1, {"i1-a": assignment("t", 0)}, group_instance_id="i1")
    harness.join(group_instance_id="i1", new_member_id="i1-b")
    group = replay_offsets_log(records(harness))["g"]
    assert [(member.member_id, member.group_instance_id, member.assignment) for member in group.members.values()] == [
        ("i1-b", "i1", assignment("t", 0))
    ]
    assert group.leader_id == "i1-b"


def test_commits_alone_make_a_group_and_tombstones_end_it() -> None:
    value = encode_offset_commit_value(OffsetCommitValue(offset=5, commit_timestamp_ms=1))
    key, group_key = encode_key(OffsetCommitKey("g", "t", 0)), encode_key(GroupMetadataKey("g"))
    group = replay_offsets_log([(key, value)])["g"]
    assert (group.state, group.protocol_type, group.offsets["t", 0].offset) == (GroupState.EMPTY, None, 5)
    assert replay_offsets_log([(key, value), (key, None), (group_key, None)]) == {}


def test_what_old_records_lack_is_filled_in_as_kafka_does() -> None:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/1.2.3.4", session_timeout_ms=10_000, subscription=b"s",
        assignment=b"a",
    )  # fmt: skip
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader=None, members=(member,))
    data = encode_group_metadata_value(value, version=0)
    group = replay_offsets_log([(encode_key(GroupMetadataKey("g")), data)])["g"]
    assert group.members["m"].rebalance_timeout_ms == 10_000
    assert group.leader_id == "m"
    assert group.state_since_ms is None


def test_a_group_record_does_not_touch_the_offsets() -> None:
    offset = (
        encode_key(OffsetCommitKey("g", "t", 0)),
        encode_offset_commit_value(OffsetCommitValue(offset=5, commit_timestamp_ms=1)),
    )
    empty = GroupMetadataValue(protocol_type="consumer", generation=9, protocol=None, leader=None)
    group = (encode_key(GroupMetadataKey("g")), encode_group_metadata_value(empty))
    for log in ([offset, group], [group, offset]):
        stored = replay_offsets_log(log)["g"]
        assert (stored.generation_id, stored.offsets["t", 0].offset) == (9, 5)


@pytest.mark.parametrize("way", ["online", "offline"])
def test_a_group_that_goes_over_to_the_consumer_protocol_takes_its_offsets_along(way: str) -> None:
    """Its classic record gets a tombstone, as that of a group that dies."""
    group = ConsumerHarness()
    group.commit("m", group.stable("m", protocols={"range": subscription("foo")}), {("foo", 0): 5})
    if way == "offline":
        group.leave("m")
    group.joins("native", "foo")
    records = [(record.key, record.value) for record in of_type(group.outputs, LogRecord)]
    assert replay_offsets_log(records)["g"].offsets["foo", 0].offset == 5
    assert replay_offsets_log(records * 2)["g"].offsets["foo", 0].offset == 5


def test_other_records_are_passed_over_and_damaged_ones_change_nothing() -> None:
    stored = StoredGroups()
    stored.replay(b"\x00\x03\x00\x01g", b"\x00\x00whatever")  # of the consumer protocol (KIP-848)
    assert stored.groups == {}
    with pytest.raises(DecodeError):
        stored.replay(encode_key(GroupMetadataKey("g")), b"\x00\x03\x00")
    assert stored.groups == {}
