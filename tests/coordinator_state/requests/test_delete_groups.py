"""DeleteGroups: a group without members goes, with its offsets."""

import pytest

from coordinator_state import AssignmentChange, LogRecord
from schemas.error_codes import ErrorCode
from schemas.history import GroupDead, OffsetsDeleted
from schemas.records import GroupMetadataKey, OffsetCommitKey, decode_record
from tests.coordinator_state.harness import GroupHarness, of_type, subscription


def code_of(group: GroupHarness) -> ErrorCode:
    (result,) = group.answer(group.delete()).results
    assert isinstance(result.error_code, ErrorCode)
    return result.error_code


def test_a_group_goes_with_its_offsets() -> None:
    group = GroupHarness()
    group.stable("a")
    group.commit("a", 1, {("t", 0): 1, ("t", 1): 2})
    group.leave("a")
    outputs = group.delete()
    records = [decode_record(output.key, output.value) for output in of_type(outputs, LogRecord)]
    assert records == [
        (OffsetCommitKey("g", "t", 0), None),
        (OffsetCommitKey("g", "t", 1), None),
        (GroupMetadataKey("g"), None),
    ]
    assert len(of_type(outputs, OffsetsDeleted)) == 1
    assert [record.reason for record in of_type(outputs, GroupDead)] == ["deleted"]
    assert of_type(outputs, AssignmentChange)[-1].snapshot is None
    assert group.state == "none"


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance"])
def test_a_group_with_members_stays(state: str) -> None:
    group = GroupHarness()
    group.stable("a", "b")
    if state != "Stable":
        group.join("a", protocols={"range": subscription("t", "u")})
    if state == "CompletingRebalance":
        group.join("b")
    assert code_of(group) is ErrorCode.NON_EMPTY_GROUP
    assert group.state == state


def test_handed_out_ids_do_not_keep_a_group() -> None:
    group = GroupHarness()
    group.join(new_member_id="a")
    assert code_of(group) is ErrorCode.NONE
    assert group.state == "none"


def test_a_group_that_does_not_exist() -> None:
    assert code_of(GroupHarness()) is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_name_can_be_used_again_by_a_group_of_another_epoch() -> None:
    group = GroupHarness()
    group.commit()
    first = group.outputs[0].epoch
    group.delete()
    (committed, *_) = group.commit()
    assert committed.epoch > first
    assert committed.seq == 1
