"""What a coordinator has not stored dies with it: the group is what the next one loads."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from group_coordinator.watching.broker_logs.broker_lines import (
    AssignmentTaken,
    BrokerLine,
    GroupLoaded,
    GroupUnloaded,
    JoinPhaseEnded,
    LineEvent,
    MemberAdded,
    MemberDeparted,
    MemberFailed,
    MemberIdGiven,
    PartitionLoaded,
    RebalancePrepared,
)
from group_coordinator.watching.broker_logs.broker_patterns import NO_GROUP
from group_coordinator.watching.narrative.rebalances import headline
from group_coordinator.watching.narrative.rebalances import rebalances as explained
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.offsets_log import Entry
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Member
from schemas.history import (
    GroupStable,
    History,
    MemberDropped,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    RebalanceCompleted,
)
from schemas.observed_history import CoordinatorChanged, GroupRestored, MemberRestored, OwnershipNotKnown
from tests.watching.observed.generations import GROUP, generation
from tests.watching.observed.recorded import observed, owners_at, polls


def line(number: int, at_ms: int, event: LineEvent, broker: int = 1) -> BrokerLine:
    return BrokerLine(
        time_ms=at_ms, broker=broker, partition=7, file=f"{broker}.log", number=number, event=event
    )


def prepared(old: int, member_id: str, trigger: str = "member_joined") -> RebalancePrepared:
    return RebalancePrepared(
        group_id=GROUP,
        old_generation_id=old,
        trigger=trigger,  # type: ignore[arg-type]
        member_ids=(member_id,),
        group_instance_id=None,
        reason=f"because of {member_id}",
        client_reason=None,
    )


def of(history: Sequence[History], kind: type[History]) -> list[History]:
    return [record for record in history if isinstance(record, kind)]


STORED = generation(0, 1, "a", "b")
DYING = [
    line(1, 2_000, MemberIdGiven(group_id=GROUP, member_id="d")),
    line(2, 2_000, MemberAdded(group_id=GROUP, member_id="c")),
    line(3, 2_001, prepared(1, "c")),
    line(4, 2_500, MemberDeparted(group_id=GROUP, member_id="b")),
]
LOADS = {
    "group": [line(1, 9_000, GroupLoaded(group_id=GROUP, members=2), broker=2)],
    "generation": [line(1, 9_000, GroupLoaded(group_id=GROUP, generation_id=1), broker=2)],
    "partition": [line(1, 9_000, PartitionLoaded(group_id=NO_GROUP, of_partition=7, leader_epoch=1), broker=2)],
    "both": [
        line(1, 9_000, GroupLoaded(group_id=GROUP, members=2), broker=2),
        line(2, 9_001, PartitionLoaded(group_id=NO_GROUP, of_partition=7, leader_epoch=1), broker=2),
    ],
    "same-broker": [line(9, 9_000, GroupLoaded(group_id=GROUP, members=2), broker=1)],
    "nothing-but-another-broker": [
        line(1, 9_000, MemberIdGiven(group_id=GROUP, member_id="e"), broker=2),
    ],
}


@pytest.mark.parametrize("loads", LOADS.values(), ids=LOADS)
def test_a_rebalance_ends_with_its_coordinator(loads: list[BrokerLine]) -> None:
    history = observe([STORED], [*DYING, *loads], {}).history
    assert len(of(history, CoordinatorChanged)) == 1
    *_, ended = of(history, RebalanceCompleted)
    assert isinstance(ended, RebalanceCompleted)
    assert ended.outcome == "coordinator_changed"
    (forgotten,) = of(history, MemberDropped)
    (restored,) = of(history, MemberRestored)
    (again,) = of(history, GroupRestored)
    assert isinstance(forgotten, MemberDropped)
    assert isinstance(restored, MemberRestored)
    assert isinstance(again, GroupRestored)
    assert (forgotten.member.member_id, forgotten.reason) == ("c", "not_stored")
    assert (restored.member.member_id, restored.departure) == ("b", "left")
    assert (again.generation_id, [share.member_id for share in again.assignments]) == (1, ["a", "b"])
    inferred = {record.cause.certainty for record in (forgotten, restored, again)}
    assert inferred == {"inferred"}
    last = [row for row in fold(history) if isinstance(row, Member) and row.ended_ms is None]
    assert {row.member_id for row in last if row.joined_ms is not None or row.first_generation_id} == {"a", "b"}
    *_, story = explained(history)
    assert "ended with its coordinator" in headline(story)


def test_the_leader_epoch_of_any_record_of_the_partition_shows_it() -> None:
    """Of the new coordinator there is no log, and of the group no later record."""
    other = replace(STORED, group_id="other", offset=STORED.offset + 9, timestamp_ms=8_000, leader_epoch=1)
    history = observe([replace(STORED, leader_epoch=0), other], DYING, {}).history
    history = [record for record in history if record.group_id == GROUP]
    (change,) = of(history, CoordinatorChanged)
    (evidence,) = change.cause.evidence
    assert (change.cause.certainty, evidence.source, evidence.offset) == ("inferred", "offsets_log", other.offset)
    assert of(history, GroupRestored)


def test_a_group_that_was_never_stored_is_gone() -> None:
    lines = [
        line(1, 2_000, MemberAdded(group_id=GROUP, member_id="a")),
        line(2, 2_001, prepared(0, "a")),
        line(3, 9_000, PartitionLoaded(group_id=NO_GROUP, of_partition=7, leader_epoch=1)),
        line(4, 9_500, MemberAdded(group_id=GROUP, member_id="b")),
        line(5, 9_500, prepared(0, "b")),
    ]
    history = observe([], lines, {}).history
    (forgotten,) = of(history, MemberDropped)
    assert isinstance(forgotten, MemberDropped)
    assert forgotten.member.member_id == "a"
    present = {row.member_id for row in fold(history) if isinstance(row, Member) and row.ended_ms is None}
    assert present == {"b"}


def test_a_broker_that_does_not_know_that_another_one_took_over_tells_nothing() -> None:
    late = line(5, 9_500, MemberFailed(group_id=GROUP, member_id="a"))
    expiries = of(observe([STORED], [*DYING, *LOADS["both"], late], {}).history, MemberExpired)
    assert expiries == []
    back = [line(6, 9_400, GroupLoaded(group_id=GROUP, members=2)), replace(late, number=7)]
    assert len(of(observe([STORED], [*DYING, *LOADS["both"], *back], {}).history, MemberExpired)) == 1


def test_a_group_at_rest_stays_as_it_is() -> None:
    lines = [line(1, 5_000, GroupUnloaded(group_id=GROUP)), *LOADS["both"]]
    history = observe([STORED], lines, {}).history
    assert of(history, CoordinatorChanged)
    assert not of(history, GroupRestored)


def test_a_generation_that_was_settled_and_not_stored_is_taken_back() -> None:
    """The next one has its number once more."""
    lines = [*DYING[1:3], line(4, 2_600, JoinPhaseEnded(group_id=GROUP, generation_id=2, members=3))]
    again = [
        line(2, 9_500, prepared(1, "e"), broker=2),
        line(3, 9_900, JoinPhaseEnded(group_id=GROUP, generation_id=2, members=3), broker=2),
    ]
    history = observe(
        [STORED, generation(8_950, 2, "a", "b", "e")], [*lines, *LOADS["group"], *again], {}
    ).history
    ends = [record.outcome for record in history if isinstance(record, RebalanceCompleted)]
    assert ends == ["stable", "coordinator_changed", "stable"]
    assert {record.member.member_id for record in history if isinstance(record, MemberJoined)} >= {"c", "e"}


def test_an_assignment_that_only_a_line_tells_of_ends_the_rebalance() -> None:
    """Its record is compacted: who owned what is not known."""
    lines = [
        *DYING[1:3],
        line(4, 2_600, JoinPhaseEnded(group_id=GROUP, generation_id=2, members=3)),
        line(5, 2_700, AssignmentTaken(group_id=GROUP, generation_id=2, leader_id="a", members=3)),
        line(6, 6_000, prepared(2, "d")),
        line(7, 6_100, JoinPhaseEnded(group_id=GROUP, generation_id=3, members=4)),
    ]
    entries: list[Entry] = [STORED, generation(5_150, 3, "a", "b", "c", "d")]
    history = observe(entries, lines, {}).history
    ends = [(record.generation_id, record.outcome) for record in history if isinstance(record, RebalanceCompleted)]
    assert ends == [(1, "stable"), (2, "stable"), (3, "stable")]
    unknown = [record for record in history if isinstance(record, OwnershipNotKnown)]
    assert [record.reason for record in unknown if record.generation_id == 2] == ["not_recorded"]
    stable = [record for record in history if isinstance(record, GroupStable)]
    assert [record.generation_id for record in stable] == [1, 2, 3]


def test_a_leave_that_was_lost_is_told_as_such() -> None:
    """Of a real cluster: the coordinator was killed some tenths of a second after it."""
    history = [record for record in observed("failover-3.7", with_logs=True).history if record.group_id == "java"]
    of_member = [
        type(record)
        for record in history
        if isinstance(record, MemberLeft | MemberRestored | MemberExpired)
        and record.member.client_id == "java-a"
        and record.timestamp_ms > 1_795_751_940_000
    ]
    assert of_member == [MemberLeft, MemberRestored, MemberExpired]


def test_the_owners_of_a_rebalance_that_died_are_those_that_were_stored() -> None:
    at_ms = [poll.at_ms for poll in polls("orphan-4.2") if poll.group_id == "calm"]
    (loaded,) = [
        record
        for record in observed("orphan-4.2", with_logs=True).history
        if isinstance(record, GroupRestored) and record.group_id == "calm"
    ]
    later = [each for each in at_ms if loaded.timestamp_ms < each < loaded.timestamp_ms + 60_000]
    assert len(later) > 10
    for each in later:
        owned = owners_at("orphan-4.2", "calm", each, with_logs=True)
        assert {place for place, _ in owned} == {f"orders-{number}" for number in range(6)}
