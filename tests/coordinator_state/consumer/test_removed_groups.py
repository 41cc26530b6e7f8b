"""A JoinGroup of somebody who is not known, to a consumer group without members: he is refused, and the group is gone.

Kafka has removed it from memory by then, and writes no tombstone (`classicGroupJoinToClassicGroup` and
`maybeDeleteEmptyConsumerGroup` of `GroupMetadataManager`). What follows was tried with the classes of Kafka 4.3.1.
`group_consumer_bug_fixes_enable` leaves the group alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state import LogRecord, Output
from schemas.consumer_group_messages import LEAVE_EPOCH, ConsumerGroupDescribeRequest
from schemas.error_codes import ErrorCode
from schemas.history import GroupDead
from schemas.messages import JoinGroupResponse
from schemas.records import GroupMetadataKey, decode_key
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import MINUTE_MS, of_type, subscription

PROTOCOLS = {"range": subscription("foo")}
FOO_0 = ("foo", 0)
MENDS = pytest.mark.parametrize("mends", [False, True], ids=["as in Kafka", "mended"])
OFFSETS = pytest.mark.parametrize("offsets", ["committed", "pending", "none"])


def removed(offsets: str = "committed", *, mends: bool = False, **config: Any) -> ConsumerHarness:
    """A group that had a member, and now has offsets, perhaps. Its epoch is 3."""
    group = ConsumerHarness(group_consumer_bug_fixes_enable=mends, **config)
    group.joins("a", "foo")
    group.beat("a", LEAVE_EPOCH)
    if offsets == "committed":
        group.commit(offsets={FOO_0: 5})
    elif offsets == "pending":
        group.commit_in_transaction(7, {FOO_0: 5})
    answer = group.answer(group.join("m", protocols=PROTOCOLS))
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID
    return group


def tombstones(outputs: list[Output]) -> list[LogRecord]:
    return [record for record in of_type(outputs, LogRecord) if record.value is None]


def offset(group: ConsumerHarness, **fields: Any) -> int:
    (answered,) = group.answer(group.fetch(FOO_0, **fields)).groups
    return int(answered.topics[0].partitions[0].committed_offset)


@MENDS
@OFFSETS
def test_who_joins_by_the_consumer_protocol_finds_a_new_group(offsets: str, mends: bool) -> None:
    group = removed(offsets, mends=mends)
    outputs = group.beat("b", 0, joins_with=("foo",))
    assert group.heard(outputs).member_epoch == (2 if not mends else group.body.assignment_epoch)
    assert group.body.group_epoch == (4 if mends else 2)
    assert not tombstones(outputs)
    if offsets == "committed":
        assert offset(group) == 5


@MENDS
@OFFSETS
def test_who_joins_by_the_classic_protocol_finds_a_new_group(offsets: str, mends: bool) -> None:
    group = removed(offsets, mends=mends)
    outputs = group.join(new_member_id="n", protocols=PROTOCOLS)
    assert bool(tombstones(outputs)) is mends
    assert isinstance(decode_key(of_type(outputs, LogRecord)[-1].key), GroupMetadataKey)
    assert group.answer(outputs).error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert list(group.classic.pending_join) == ["n"]
    if offsets == "committed":
        assert offset(group) == 5


def test_who_was_in_it_is_told_that_there_is_no_group() -> None:
    for epoch in (2, LEAVE_EPOCH):
        assert removed().told("a", epoch).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    again = removed()
    assert again.answer(again.join("m", protocols=PROTOCOLS)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_commit_of_a_member_finds_no_group(version: int, code: ErrorCode) -> None:
    group = removed()
    answer = group.answer(group.commit("a", 2, {FOO_0: 6}, version))
    assert answer.topics[0].partitions[0].error_code is code
    answer = group.answer(group.commit_in_transaction(7, {FOO_0: 6}, "a", 2))
    assert answer.topics[0].partitions[0].error_code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_commit_of_nobody_begins_a_simple_group(in_transaction: bool) -> None:
    group = removed()
    if in_transaction:
        group.commit_in_transaction(7, {("bar", 0): 6})
    else:
        group.commit(offsets={("bar", 0): 6})
    assert group.group is not None
    assert group.group.body.type_name == "classic"
    assert offset(group) == 5


def test_it_cannot_be_deleted_nor_can_its_offsets() -> None:
    group = removed()
    assert group.answer(group.delete_offsets(FOO_0)).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    (result,) = group.answer(group.delete()).results
    assert result.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert offset(group) == 5


@OFFSETS
def test_who_reads_what_is_committed_still_sees_it(offsets: str) -> None:
    group = removed(offsets)
    request = ConsumerGroupDescribeRequest(group_ids=("g",))
    (described,) = group.answer(group.send("ConsumerGroupDescribe", request, 1)).groups
    assert (described.error_code, described.group_state, described.group_epoch) == (ErrorCode.NONE, "Empty", 3)


@pytest.mark.parametrize("member", [{}, {"member_id": "a", "member_epoch": 2}])
def test_who_wants_stable_offsets_finds_no_group(member: dict[str, Any]) -> None:
    """Kafka takes such a read for a write, which sees what is in memory, and no member is looked for."""
    group = removed()
    group.commit_in_transaction(7, {("bar", 0): 6})  # begins a group
    assert offset(group, require_stable=True, **member) == 5
    group = removed("pending")
    (answered,) = group.answer(group.fetch(FOO_0, ("bar", 0), require_stable=True, **member)).groups
    codes = [(topic.partitions[0].committed_offset, topic.partitions[0].error_code) for topic in answered.topics]
    assert codes == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (-1, ErrorCode.NONE)]
    assert offset(removed(), require_stable=True, **member) == -1
    assert offset(removed()) == 5


def test_it_goes_with_its_offsets_and_leaves_no_tombstone_of_its_own() -> None:
    group = removed(offsets_retention_minutes=1, offsets_retention_check_interval_ms=MINUTE_MS)
    outputs = group.sleep(3 * MINUTE_MS)
    assert len(tombstones(outputs)) == 1
    assert len(of_type(outputs, GroupDead)) == 1
    assert group.group is None
