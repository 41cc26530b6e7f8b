"""TxnOffsetCommit: who may commit in a transaction, and what becomes pending. Its end: `test_transactions.py`."""

import pytest
from msgspec import UNSET, UnsetType

from coordinator_state import LogRecord
from schemas.error_codes import ErrorCode
from schemas.history import GroupCreated, MemberExpired, OffsetsCommitted, RequestRefused
from schemas.transaction_history import TransactionalOffsetsPending
from tests.coordinator_state.harness import GroupHarness, of_type, subscription

NONE = ErrorCode.NONE
FIRST_LOG, SECOND_LOG = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"


def codes_of(group: GroupHarness, *args: object, **fields: object) -> list[ErrorCode]:
    """The error of each partition of a commit in a transaction."""
    answer = group.answer(group.commit_in_transaction(*args, **fields))  # type: ignore[arg-type]
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def test_the_offsets_are_pending_in_history_and_not_in_the_offsets_log() -> None:
    group = GroupHarness()
    group.commit(offsets={("t", 0): 3})
    outputs = group.commit_in_transaction(7, {("t", 0): 5, ("u", 1): 9}, metadata="note")
    assert of_type(outputs, LogRecord) == []
    assert of_type(outputs, OffsetsCommitted) == []
    (pending,) = of_type(outputs, TransactionalOffsetsPending)
    assert (pending.producer_id, pending.producer_epoch, pending.cause.api) == (7, 0, "TxnOffsetCommit")
    assert [
        (offset.topic, offset.partition, offset.offset, offset.previous_offset, offset.metadata)
        for offset in pending.offsets
    ] == [("t", 0, 5, 3, "note"), ("u", 1, 9, None, "note")]


@pytest.mark.parametrize("version", range(6))
def test_without_a_group_a_simple_one_is_made_and_is_listed_at_once(version: int) -> None:
    group = GroupHarness()
    outputs = group.commit_in_transaction(7, {("t", 0): 5}, version=version)
    assert len(of_type(outputs, GroupCreated)) == 1
    assert (group.state, group.classic.protocol_type) == ("Empty", None)
    described = group.answer(group.describe()).groups[0]
    assert (described.error_code, described.group_state) == (NONE, "Empty")


@pytest.mark.parametrize("version", range(6))
def test_a_generation_of_a_group_that_does_not_exist_is_illegal_in_every_version(version: int) -> None:
    group = GroupHarness()
    assert codes_of(group, 7, {("t", 0): 5}, "a", 0, version=version) == [ErrorCode.ILLEGAL_GENERATION]
    assert group.state == "none"


def test_a_group_without_an_id() -> None:
    group = GroupHarness("")
    assert codes_of(group, 7, {("t", 0): 5, ("u", 0): 5}) == [ErrorCode.INVALID_GROUP_ID] * 2
    assert group.state == "none"


def test_anybody_commits_beside_members() -> None:
    group = GroupHarness()
    group.stable("a")
    assert codes_of(group, 7, {("t", 0): 5}) == [NONE]
    assert codes_of(group, 7, {("t", 0): 5}, "a", 1) == [NONE]
    assert codes_of(group, 7, {("t", 0): 5}, "a", -1) == [ErrorCode.ILLEGAL_GENERATION]
    assert codes_of(group, 7, {("t", 0): 5}, "", 1) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert codes_of(group, 7, {("t", 0): 5}, "a", 1, group_instance_id="i") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_fenced_instance() -> None:
    group = GroupHarness()
    group.join(new_member_id="s", group_instance_id="i")
    group.sleep(0)
    group.sync("s", 1)
    group.join(new_member_id="s2", group_instance_id="i")
    assert codes_of(group, 7, {("t", 0): 5}, "s", 1, group_instance_id="i") == [ErrorCode.FENCED_INSTANCE_ID]
    assert codes_of(group, 7, {("t", 0): 5}, "s2", 1, group_instance_id="i") == [NONE]


def test_a_member_that_has_no_assignment_yet_may_commit_in_a_transaction() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a", protocols={"range": subscription("t", "u")})
    group.join("b")
    assert group.state == "CompletingRebalance"
    assert codes_of(group, 7, {("t", 0): 5}, "b", 3) == [NONE]


def test_a_commit_in_a_transaction_is_no_sign_of_life() -> None:
    group = GroupHarness()
    group.stable("a")
    group.sleep(9_999)
    group.commit_in_transaction(7, {("t", 0): 5}, "a", 1)
    assert len(of_type(group.sleep(1), MemberExpired)) == 1


def test_metadata_that_is_too_long_refuses_its_partition_only() -> None:
    group = GroupHarness(offset_metadata_max_bytes=4)
    assert codes_of(group, 7, {("t", 0): 5}, metadata="12345") == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert codes_of(group, 7, {("t", 0): 5}, metadata="1234") == [NONE]
    assert codes_of(group, 7, {("t", 0): 5}, metadata=None) == [NONE]


def test_a_group_that_was_made_for_a_refused_commit_stays_and_is_not_listed() -> None:
    group = GroupHarness(offset_metadata_max_bytes=4)
    outputs = group.commit_in_transaction(7, {("t", 0): 5}, metadata="12345")
    assert len(of_type(outputs, RequestRefused)) == 1
    assert group.state == "Empty"
    assert group.answer(group.describe()).groups[0].error_code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("name", ["", "t" * 250])
def test_a_topic_that_cannot_exist_gets_no_offsets(name: str) -> None:
    assert codes_of(GroupHarness(), 7, {(name, 0): 1}) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_very_many_partitions_are_told_in_pieces() -> None:
    group = GroupHarness()
    outputs = group.commit_in_transaction(7, {("t", partition): 1 for partition in range(2_500)})
    assert [len(record.offsets) for record in of_type(outputs, TransactionalOffsetsPending)] == [1_000, 1_000, 500]


@pytest.mark.parametrize("first_id", [FIRST_LOG, UNSET])
def test_a_log_of_transactions_that_was_made_anew_begins_again(first_id: str | UnsetType) -> None:
    """What an older relay wrote names no log: it is that of the first that is named."""
    group = GroupHarness()
    assert codes_of(group, 7, {("t", 0): 5}, log_offset=10, log_id=first_id) == [NONE]
    group.end_transaction(7, committed=True, log_offset=11, log_id=FIRST_LOG)
    assert group.commit_in_transaction(7, {("t", 0): 5}, log_offset=10, log_id=FIRST_LOG) == []
    assert codes_of(group, 7, {("t", 0): 6}, log_offset=0, log_id=SECOND_LOG) == [NONE]
    assert group.commit_in_transaction(7, {("t", 0): 6}, log_offset=0, log_id=SECOND_LOG) == []
    group.end_transaction(7, committed=True, log_offset=1, log_id=SECOND_LOG)
    assert group.group is not None
    assert not group.group.offsets.has_pending
    committed = group.group.offsets.get("t", 0)
    assert committed is not None
    assert committed.offset == 6


def test_a_repeat_from_the_log_of_transactions_is_not_answered() -> None:
    group = GroupHarness()
    assert codes_of(group, 7, {("t", 0): 5}, log_offset=10) == [NONE]
    group.end_transaction(7, committed=True, log_offset=11)
    assert group.commit_in_transaction(7, {("t", 0): 5}, log_offset=10) == []
    assert group.group is not None
    assert not group.group.offsets.has_pending
    assert codes_of(group, 7, {("t", 0): 6}, log_offset=12) == [NONE]
    assert codes_of(group, 7, {("t", 0): 6}, "ghost", 3, log_offset=13) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.commit_in_transaction(7, {("t", 0): 6}, "ghost", 3, log_offset=13) == []
