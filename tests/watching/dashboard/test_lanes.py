"""Lanes: every moment of a partition is owned once, or a gap, or not the group's."""

from __future__ import annotations

from itertools import pairwise

import pytest

from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.lanes import Gap, TopicsOverTime, lanes, unowned_ms
from group_coordinator.watching.history.states_over_time import Moment
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Ownership
from schemas.history import AssignedTopic, AssignmentReceived, Cause, MemberAssignment
from schemas.observed_history import OwnershipNotKnown
from tests.watching.dashboard.scene import index_of_scene, scene


def owned(from_ms: int, to_ms: int | None, topic: str = "t", partition: int = 0) -> Ownership:
    return Ownership(
        group_id="g", epoch=0, seq=from_ms, topic=topic, partition=partition, member_id="m", group_instance_id=None,
        client_id=None, client_host=None, generation_id=1, from_ms=from_ms, to_ms=to_ms, last_seq=from_ms,
    )  # fmt: skip


def assigned(time_ms: int, *topics: str) -> AssignmentReceived:
    share = MemberAssignment(
        member_id="m", topics=tuple(AssignedTopic(topic=topic, partitions=(0,)) for topic in topics)
    )
    cause = Cause(kind="request", partition=0, offset=0)
    return AssignmentReceived(
        group_id="g", epoch=0, seq=time_ms, time_ms=time_ms, timestamp_ms=time_ms, generation_id=1, cause=cause,
        rebalance=None, leader_id="m", assignments=(share,),
    )  # fmt: skip


def test_gaps_are_cut_where_the_group_became_empty() -> None:
    moments = [Moment(0, "Stable", 1, 1), Moment(20, "Empty", 1, 0), Moment(50, "PreparingRebalance", 1, 1)]
    (lane,) = lanes([owned(0, 10), owned(60, None)], moments, TopicsOverTime(), 0, 100)
    assert lane.gaps == [Gap(10, 20, "unowned"), Gap(20, 50, "empty"), Gap(50, 60, "unowned")]
    assert unowned_ms([lane], 100) == 20


def test_a_gap_that_goes_on_has_no_end() -> None:
    (lane,) = lanes([owned(0, 10)], [Moment(0, "Stable", 1, 1)], TopicsOverTime(), 0, 100)
    assert lane.gaps == [Gap(10, None, "unowned")]
    assert unowned_ms([lane], 100) == 90


def test_a_topic_that_the_group_reads_no_more_has_no_gap() -> None:
    topics = TopicsOverTime()
    for record in (assigned(0, "t", "u"), assigned(12, "u"), assigned(40, "t", "u")):
        topics.note(record)
    (lane,) = lanes([owned(0, 10), owned(45, None)], [Moment(0, "Stable", 1, 1)], topics, 0, 100)
    assert lane.gaps == [Gap(10, 12, "unowned"), Gap(40, 45, "unowned")]


def test_where_no_record_has_the_assignment_the_owner_is_not_known() -> None:
    """Not nobody: neither after an owner whose end is known, nor before the next one."""
    topics = TopicsOverTime()
    first, later = assigned(0, "t"), assigned(60, "t")
    unknown = OwnershipNotKnown(
        group_id="g", epoch=0, seq=30, time_ms=30, timestamp_ms=30, generation_id=2, cause=first.cause,
        member_ids=("m",), reason="not_recorded",
    )  # fmt: skip
    for record in (first, unknown, later):
        topics.note(record)
    (lane,) = lanes([owned(0, 10), owned(60, None)], [Moment(0, "Stable", 1, 1)], topics, 0, 100)
    assert lane.gaps == [Gap(10, 30, "unowned"), Gap(30, 60, "not_known")]
    assert unowned_ms([lane], 100) == 20


@pytest.mark.parametrize("group_id", ["payments", "orders", "clicks", "ledger", "reports"])
def test_lanes_are_without_holes_and_the_owner_is_the_one_of_the_ownership_table(group_id: str) -> None:
    page = Documents(index_of_scene()).group(group_id)
    end_ms = page["now"]
    rows = [row for row in fold(scene()) if isinstance(row, Ownership) and row.group_id == group_id]
    assert page["lanes"]
    for lane in page["lanes"]:
        spans = sorted([(span[1], span[2]) for span in lane["owned"]] + [(span[0], span[1]) for span in lane["gaps"]])
        for (_, to_ms), (next_ms, _) in pairwise(spans):
            assert to_ms == next_ms
        assert spans[-1][1] in (None, end_ms)
        for number, from_ms, to_ms, generation_id, ended_by in lane["owned"]:
            member_id = page["members"][number]["id"]
            assert any(
                (row.topic, row.partition, row.member_id, row.from_ms, row.to_ms, row.generation_id, row.ended_by)
                == (lane["topic"], lane["partition"], member_id, from_ms, to_ms, generation_id, ended_by)
                for row in rows
            )
    assert sum(len(lane["owned"]) for lane in page["lanes"]) == len(rows)
