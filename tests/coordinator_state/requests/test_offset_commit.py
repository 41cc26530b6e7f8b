"""OffsetCommit: who may commit, and what is stored. How much a group may store: `test_group_bounds.py`."""

import pytest

from coordinator_state import LogRecord
from schemas.error_codes import ErrorCode
from schemas.history import MemberExpired, OffsetsCommitted
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from schemas.records import OffsetCommitKey, OffsetCommitValue, decode_record
from tests.coordinator_state.harness import MINUTE_MS, GroupHarness, of_type, subscription

TOPIC_ID = "00000000-0000-0000-0000-000000000001"


def error_of(group: GroupHarness, *args: object, **fields: object) -> ErrorCode:
    """The error of the first partition of a commit."""
    answer = group.answer(group.commit(*args, **fields))  # type: ignore[arg-type]
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


def test_a_commit_is_a_record_for_each_partition_and_one_of_history() -> None:
    group = GroupHarness()
    outputs = group.commit(offsets={("t", 0): 5, ("u", 3): 7}, metadata="note", topic_ids={"t": TOPIC_ID})
    records = [decode_record(output.key, output.value) for output in of_type(outputs, LogRecord)]
    assert records == [
        (
            OffsetCommitKey("g", "t", 0),
            OffsetCommitValue(offset=5, metadata="note", commit_timestamp_ms=group.now_ms, topic_id=TOPIC_ID),
        ),
        (OffsetCommitKey("g", "u", 3), OffsetCommitValue(offset=7, metadata="note", commit_timestamp_ms=group.now_ms)),
    ]
    (committed,) = of_type(outputs, OffsetsCommitted)
    assert [
        (offset.topic, offset.partition, offset.offset, offset.previous_offset) for offset in committed.offsets
    ] == [
        ("t", 0, 5, None),
        ("u", 3, 7, None),
    ]


def test_a_commit_replaces_the_one_before_also_by_a_smaller_offset() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 5})
    (committed,) = of_type(group.commit(offsets={("t", 0): 2}), OffsetsCommitted)
    assert [(offset.offset, offset.previous_offset) for offset in committed.offsets] == [(2, 5)]


def test_the_leader_epoch_is_kept() -> None:
    group = GroupHarness()
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_leader_epoch=9)
    topic = OffsetCommitRequestTopic(name="t", partitions=(partition,))
    (record,) = of_type(group.send("OffsetCommit", OffsetCommitRequest(group_id="g", topics=(topic,))), LogRecord)
    _, value = decode_record(record.key, record.value)
    assert isinstance(value, OffsetCommitValue)
    assert value.leader_epoch == 9


def test_a_commit_without_topics_does_nothing() -> None:
    group = GroupHarness()
    assert group.answer(group.commit(offsets={})).topics == ()
    assert group.state == "none"


# ------------------------------------------------------------------------------------------------------- who may commit


def test_a_member_of_the_present_generation() -> None:
    group = GroupHarness()
    group.stable("a")
    assert error_of(group, "a", 1) is ErrorCode.NONE
    assert error_of(group, "a", 0) is ErrorCode.ILLEGAL_GENERATION
    assert error_of(group, "a", -1) is ErrorCode.ILLEGAL_GENERATION
    assert error_of(group, "x", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(group, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_must_rejoin_commits_what_it_gives_up() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a", protocols={"range": subscription("t", "u")})
    assert group.state == "PreparingRebalance"
    assert error_of(group, "b", 2) is ErrorCode.NONE


def test_a_member_that_has_no_assignment_yet_does_not_commit() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a")
    group.join("b")
    assert error_of(group, "b", 3) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_fenced_instance() -> None:
    group = GroupHarness()
    group.join(new_member_id="s", group_instance_id="i")
    group.sleep(0)
    group.sync("s", 1)
    group.join(new_member_id="s2", group_instance_id="i")
    assert error_of(group, "s", 1, group_instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert error_of(group, "s2", 1, group_instance_id="i") is ErrorCode.NONE


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_a_group_that_does_not_exist(version: int, error: ErrorCode) -> None:
    group = GroupHarness()
    assert error_of(group, "a", 1, version=version) is error
    assert group.state == "none"


def test_anybody_commits_in_an_empty_group() -> None:
    group = GroupHarness()
    assert error_of(group) is ErrorCode.NONE
    group.stable("a")
    group.leave("a")
    assert error_of(group) is ErrorCode.NONE


def test_a_commit_is_a_sign_of_life() -> None:
    group = GroupHarness()
    group.stable("a")
    group.sleep(9_999)
    group.commit("a", 1)
    assert of_type(group.sleep(9_999), MemberExpired) == []


# ------------------------------------------------------------------------------------------------------ what is refused


def test_metadata_has_a_bound() -> None:
    group = GroupHarness(offset_metadata_max_bytes=4)
    assert error_of(group, metadata="1234") is ErrorCode.NONE
    assert error_of(group, metadata="12345") is ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.parametrize("name", ["", "t" * 250])
def test_a_topic_that_cannot_exist_gets_no_offsets(name: str) -> None:
    group = GroupHarness()
    assert error_of(group, offsets={(name, 0): 1}) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_commit_of_very_many_partitions_is_told_in_pieces() -> None:
    group = GroupHarness()
    outputs = group.commit(offsets={("t", partition): 1 for partition in range(2_500)})
    assert [len(record.offsets) for record in of_type(outputs, OffsetsCommitted)] == [1_000, 1_000, 500]


@pytest.mark.parametrize(("version", "kept"), [(4, False), (5, True)])
def test_up_to_version_4_a_commit_may_bring_its_own_retention(version: int, kept: bool) -> None:
    group = GroupHarness()
    group.commit(version=version, retention_time_ms=MINUTE_MS)
    group.sleep(60 * MINUTE_MS)
    assert (group.state == "Empty") is kept
