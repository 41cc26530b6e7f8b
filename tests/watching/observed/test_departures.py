"""How groups and members go: told where it is told, once, and in the life that ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from group_coordinator.watching.broker_logs.broker_lines import (
    BrokerLine,
    GroupDeleted,
    GroupEmptied,
    JoinPhaseEnded,
    LineEvent,
    MemberDeparted,
    MemberFailed,
    RebalancePrepared,
    StaticMemberReplaced,
)
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.offsets_log import Entry, LogRecord
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Expiry, Rebalance
from schemas.events import encode_json
from schemas.group_states import GroupState
from schemas.history import GroupDead, History, MemberExpired, MemberLeft, OffsetsCommitted, RebalanceStarted
from schemas.observed_history import MemberGone, MemberRestored, OffsetsRemoved
from tests.watching.observed.commits import commit
from tests.watching.observed.generations import GROUP, generation, group_record
from tests.watching.observed.recorded import observed

DELETED_PLACE = 5
DELETED_MS = 1_000 + DELETED_PLACE


def tombstones() -> list[Entry]:
    """Return what deletes the group, as brokers write it: first its offset, in the same step."""
    return [commit(DELETED_PLACE, None), group_record(DELETED_PLACE + 1, None, DELETED_MS)]


def line(number: int, at_ms: int, event: LineEvent) -> BrokerLine:
    return BrokerLine(time_ms=at_ms, broker=1, partition=7, file="server.log", number=number, event=event)


DELETED = line(1, DELETED_MS + 1, GroupDeleted(group_id=GROUP))
WITH_MEMBERS = [generation(0, 1, "m"), commit(1, 5), generation(2, 2)]
COMMITS_ALONE = [commit(1, 5)]


def last_of(history: Sequence[History]) -> str:
    index = Index()
    for record in history:
        index.add_record(record, encode_json(record))
    facts = index.facts(GROUP)
    assert facts is not None
    assert not facts.offsets
    return facts.state


@pytest.mark.parametrize("lines", [(DELETED,), ()], ids=["with-logs", "without-logs"])
@pytest.mark.parametrize("before", [WITH_MEMBERS, COMMITS_ALONE], ids=["with-members", "commits-alone"])
def test_a_deleted_group_is_gone_with_its_offsets(before: list[Entry], lines: tuple[BrokerLine, ...]) -> None:
    history = observe([*before, *tombstones()], lines, {}).history
    (dead,) = [record for record in history if isinstance(record, GroupDead)]
    assert dead.reason == ("deleted" if lines else "not_known")
    (removed,) = [record for record in history if isinstance(record, OffsetsRemoved)]
    assert removed.epoch == dead.epoch == 0
    assert history[-1] is dead
    assert last_of(history) == GroupState.DEAD
    kinds = [row.kind for row in fold(history) if isinstance(row, Expiry)]
    assert kinds == ["offset", "group"]


def test_a_group_of_commits_that_was_deleted_and_is_used_again() -> None:
    again = [commit(DELETED_PLACE + 2, 9)]
    history = observe([*COMMITS_ALONE, *tombstones(), *again], [DELETED], {}).history
    assert [record.epoch for record in history] == [0, 0, 0, 1]
    assert sum(isinstance(record, GroupDead) for record in history) == 1


@pytest.mark.parametrize("late_ms", [0, 5])
def test_a_consumer_group_that_was_deleted_and_is_used_again(late_ms: int) -> None:
    """The line is about the tombstones of the consumer group, not about what comes after them."""
    bumped = _record_of_key(1, {"epoch": 2}, 1_001)
    gone = [commit(DELETED_PLACE, None), _record_of_key(DELETED_PLACE + 1, None, DELETED_MS)]
    again = [commit(DELETED_PLACE + 2, 9), group_record(DELETED_PLACE + 3, None, 9_000)]
    deleted = line(1, DELETED_MS + late_ms, GroupDeleted(group_id=GROUP))
    history = observe([bumped, commit(2, 5), *gone, *again], [deleted], {}).history
    told = [(record.epoch, record.reason) for record in history if isinstance(record, GroupDead)]
    assert told == [(0, "deleted"), (1, "not_known")]
    committed = [record.epoch for record in history if isinstance(record, OffsetsCommitted)]
    assert committed == [0, 1]


def _record_of_key(place: int, value: dict[str, object] | None, at_ms: int) -> LogRecord:
    """Return a record of the consumer group's epoch."""
    return LogRecord(
        partition=7,
        offset=place,
        timestamp_ms=at_ms,
        leader_epoch=0,
        group_id=GROUP,
        name="ConsumerGroupMetadata",
        key={"group_id": GROUP},
        value=value,
        raw=(b"", b""),
    )


def test_members_that_expire_after_a_static_one_came_back_during_a_rebalance() -> None:
    """No record is written for the one that came back before the generation is: what lies between is before that."""
    replaced = StaticMemberReplaced(
        group_id=GROUP, group_instance_id="i", old_member_id="s-1", member_id="s-2"
    )
    lines = [
        line(1, 1_100, replaced),
        line(2, 4_000, MemberFailed(group_id=GROUP, member_id="a")),
        line(3, 4_001, JoinPhaseEnded(group_id=GROUP, generation_id=2, members=1)),
    ]
    before = generation(0, 1, "s-1", "a", instance_id="i")
    history = observe([before, generation(3_002, 2, "s-2", instance_id="i")], lines, {}).history
    assert [record.member.member_id for record in history if isinstance(record, MemberExpired)] == ["a"]
    assert not any(isinstance(record, MemberGone) for record in history)


def test_a_static_member_that_an_admin_removed_is_the_cause() -> None:
    """The line of the rebalance names no member; the one before it does."""
    prepared = RebalancePrepared(
        group_id=GROUP,
        old_generation_id=1,
        trigger="member_left",
        member_ids=(),
        group_instance_id=None,
        reason="explicit `LeaveGroup` request for () members.",
        client_reason=None,
    )
    lines = [
        line(1, 1_100, MemberDeparted(group_id=GROUP, member_id="b", client_reason=None)),
        line(2, 1_100, prepared),
    ]
    history = observe([generation(0, 1, "a", "b"), generation(500, 2, "a")], lines, {}).history
    (left,) = [record for record in history if isinstance(record, MemberLeft)]
    _, started = [record for record in history if isinstance(record, RebalanceStarted)]
    assert started.caused_by == left.seq
    assert started.member == left.member
    _, row = [row for row in fold(history) if isinstance(row, Rebalance)]
    assert row.client_id == "b"
    assert row.cause_chain == "b left -> rebalance"


def _rebalance(
    number: int, at_ms: int, member_id: str, trigger: Literal["member_left", "member_expired"]
) -> BrokerLine:
    prepared = RebalancePrepared(
        group_id=GROUP,
        old_generation_id=1,
        trigger=trigger,
        member_ids=(member_id,),
        group_instance_id=None,
        reason=f"Removing member {member_id}",
        client_reason=None,
    )
    return line(number, at_ms, prepared)


def _left(number: int, at_ms: int, member_id: str) -> BrokerLine:
    return line(number, at_ms, MemberDeparted(group_id=GROUP, member_id=member_id, is_told_late=True))


STORY_OF_3 = {
    "one": [_rebalance(1, 1_100, "a", "member_left"), _left(2, 1_101, "a")],
    "a-second-one-ends-the-join-phase": [
        _rebalance(1, 1_100, "a", "member_left"),
        _left(2, 1_100, "a"),
        line(3, 1_300, JoinPhaseEnded(group_id=GROUP, generation_id=2, members=1)),
        _left(4, 1_301, "b"),
    ],
    "the-last-ones": [
        _rebalance(1, 1_100, "a", "member_left"),
        _left(2, 1_100, "a"),
        _left(3, 1_200, "b"),
        line(4, 1_300, GroupEmptied(group_id=GROUP, generation_id=2)),
        _left(5, 1_301, "c"),
    ],
    "one-alone": [
        _rebalance(1, 1_100, "a", "member_left"),
        line(2, 1_100, GroupEmptied(group_id=GROUP, generation_id=2)),
        _left(3, 1_101, "a"),
    ],
    "an-expiry": [
        line(1, 1_100, MemberFailed(group_id=GROUP, member_id="a")),
        _rebalance(2, 1_100, "a", "member_expired"),
    ],
}


@pytest.mark.parametrize("lines", STORY_OF_3.values(), ids=STORY_OF_3)
def test_brokers_of_3_tell_of_each_departure_once(lines: list[BrokerLine]) -> None:
    """They tell who left behind what followed from it."""
    gone = {each.event.member_id for each in lines if isinstance(each.event, MemberDeparted | MemberFailed)}
    before = generation(0, 1, *(["a"] if len(lines) == 3 and len(gone) == 1 else ["a", "b", "c"]))
    history = observe([before], lines, {}).history
    told = [record.member.member_id for record in history if isinstance(record, MemberLeft | MemberExpired)]
    assert sorted(told) == sorted(gone)
    unknown = {record.member.member_id for record in history if isinstance(record, MemberGone)}
    assert not unknown & gone
    starts = [record for record in history if isinstance(record, RebalanceStarted)]
    assert starts[-1].caused_by in [record.seq for record in history if isinstance(record, MemberLeft | MemberExpired)]


@pytest.mark.parametrize("name", ["old-3.9", "lifecycle-3.4", "failover-3.7"])
def test_of_recorded_clusters_nobody_goes_twice(name: str) -> None:
    gone: dict[tuple[str, str], int] = {}
    for record in observed(name, with_logs=True).history:
        if isinstance(record, MemberRestored):
            gone[record.group_id, record.member.member_id] -= 1
        elif isinstance(record, MemberLeft | MemberExpired | MemberGone):
            place = record.group_id, record.member.member_id
            gone[place] = gone.get(place, 0) + 1
    assert gone
    assert set(gone.values()) == {1}
