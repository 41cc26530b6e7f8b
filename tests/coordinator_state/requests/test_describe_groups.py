"""DescribeGroups: the group as it is."""

import pytest

from schemas.error_codes import ErrorCode
from schemas.messages import DescribedGroup
from tests.coordinator_state.harness import GroupHarness, assignment, subscription


def described(group: GroupHarness, version: int = 6) -> DescribedGroup:
    (description,) = group.answer(group.describe(version)).groups
    assert isinstance(description, DescribedGroup)
    return description


def test_a_stable_group_with_protocol_metadata_and_assignments() -> None:
    group = GroupHarness()
    group.stable("a", "b", client_host="/10.0.0.1")
    description = described(group)
    assert (description.group_state, description.protocol_type, description.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(member.member_id, member.client_id, member.client_host) for member in description.members] == [
        ("a", "client", "/10.0.0.1"),
        ("b", "client", "/10.0.0.1"),
    ]
    assert [member.member_metadata for member in description.members] == [subscription("t")] * 2
    assert [member.member_assignment for member in description.members] == [assignment("t", 0), assignment("t", 1)]


def test_during_a_rebalance_the_protocol_is_not_known_and_assignments_are_the_last_ones() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a", protocols={"range": subscription("t", "u")})
    description = described(group)
    assert (description.group_state, description.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in description.members] == [b"", b""]
    assert [member.member_assignment for member in description.members] == [assignment("t", 0), assignment("t", 1)]


def test_instance_ids_are_shown_and_handed_out_ids_are_not() -> None:
    group = GroupHarness()
    group.join(new_member_id="s", group_instance_id="i")
    group.join(new_member_id="pending")
    assert [(member.member_id, member.group_instance_id) for member in described(group).members] == [("s", "i")]


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_group_that_does_not_exist_is_dead_and_since_version_6_an_error(version: int, error: ErrorCode) -> None:
    description = described(GroupHarness(), version)
    assert (description.group_state, description.error_code) == ("Dead", error)


def test_a_group_without_any_record_is_not_described_yet() -> None:
    group = GroupHarness(offset_metadata_max_bytes=1)
    group.commit(metadata="too long")
    assert group.state == "Empty"
    assert described(group, 5).group_state == "Dead"
    group.commit()
    assert described(group, 5).group_state == "Empty"
