"""How long committed offsets are kept, and when a group without any goes."""

from typing import Any

from schemas.history import GroupDead, OffsetsExpired
from tests.coordinator_state.harness import MINUTE_MS, GroupHarness, of_type

HOUR: dict[str, Any] = {"offsets_retention_minutes": 60, "offsets_retention_check_interval_ms": 60_000}


def test_in_a_group_without_members_each_offset_expires_by_its_commit() -> None:
    group = GroupHarness(**HOUR)
    group.commit(offsets={("t", 0): 1})
    group.sleep(30 * MINUTE_MS)
    group.commit(offsets={("t", 1): 1})
    (expired,) = of_type(group.sleep(31 * MINUTE_MS), OffsetsExpired)
    assert [offset.partition for offset in expired.offsets] == [0]
    assert group.state == "Empty"


def test_in_a_group_that_had_members_all_offsets_count_from_its_end() -> None:
    group = GroupHarness(**HOUR)
    group.stable("a", session_timeout_ms=1_800_000)
    group.commit("a", 1)
    group.sleep(20 * MINUTE_MS)
    group.leave("a")
    assert of_type(group.sleep(59 * MINUTE_MS), OffsetsExpired) == []
    outputs = group.sleep(2 * MINUTE_MS)
    assert len(of_type(outputs, OffsetsExpired)) == 1
    assert [record.reason for record in of_type(outputs, GroupDead)] == ["expired"]


def test_while_members_are_subscribed_their_topics_keep_their_offsets() -> None:
    group = GroupHarness(**HOUR)
    group.stable("a", session_timeout_ms=1_800_000)
    group.commit("a", 1, {("t", 0): 1, ("other", 0): 1})
    for _ in range(4):
        group.sleep(20 * MINUTE_MS)
        group.heartbeat("a", 1)
    expired = of_type(group.outputs, OffsetsExpired)
    assert [offset.topic for record in expired for offset in record.offsets] == ["other"]


def test_an_early_look_of_the_retention_check_says_nothing() -> None:
    """The check is armed by lower bounds: a commit renewed since makes it run too early, without a trace."""
    group = GroupHarness(**HOUR)
    group.commit(offsets={("t", 0): 1})
    group.sleep(50 * MINUTE_MS)
    group.commit(offsets={("t", 0): 2})
    assert group.sleep(30 * MINUTE_MS) == []
    assert group.sleep(31 * MINUTE_MS) != []
    assert group.state == "none"
