"""Metrics of consumer groups and of offsets in transactions, held against what a story's members and producers did."""

from __future__ import annotations

from collections import Counter

import pytest

from coordinator_state import AssignmentChange
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.watching.group_metrics import pending_offsets
from group_coordinator.watching.group_metrics.group_table import STATES, GroupTable
from group_coordinator.watching.group_metrics.light_records import read_snapshot
from group_coordinator.watching.group_metrics.pending_offsets import PendingOffsets
from group_coordinator.watching.group_metrics.tally import HistoryCounts
from group_coordinator.watching.history.fold import tell
from schemas.consumer_group_history import GroupEpochBumped, TargetAssignmentComputed
from schemas.events import encode_json
from schemas.history import HistoryRecord
from schemas.transaction_history import TransactionalOffsetsPending
from tests.coordinating.operations import tally_bench
from tests.coordinator_state.harness import GroupHarness, of_type
from tests.watching.dashboard.consumer_members import DrivenMember, Story, cluster
from tests.watching.dashboard.consumer_scene import CULPRIT, scene


class Counted:
    """What the metrics say of a group after all that it put out, at a time of its clock."""

    def __init__(self, group: GroupHarness, now_ms: int | None = None) -> None:
        now = group.now_ms if now_ms is None else now_ms
        self.metrics = Metrics()
        self.groups = GroupTable(5, lambda _: now, lambda: 0.0)
        self.metrics.values_from(self.groups.values)
        self._counts = HistoryCounts(self.metrics, self.groups)
        for output in group.outputs:
            if isinstance(output, AssignmentChange):
                snapshot = output.snapshot
                self.groups.put(
                    output.group_id, None if snapshot is None else read_snapshot(encode_json(snapshot))
                )
        for record in of_type(group.outputs, HistoryRecord):
            tell(record, self._counts)  # type: ignore[arg-type]

    def value(self, metric: m.Metric, suffix: str = "", **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(metric.name + suffix, labels)


def test_types_states_protocols_and_who_holds_up_the_group() -> None:
    story = scene()
    counted = Counted(story.group)
    for state in STATES:
        assert counted.value(m.GROUPS, type="consumer", state=state) == (1 if state == "Reconciling" else 0)
        assert counted.value(m.GROUPS, type="classic", state=state) == 0
    assert counted.value(m.MEMBERS, protocol="consumer") == 3
    assert counted.value(m.MEMBERS, protocol="classic") == 1
    (told_ms,) = set(story.members[CULPRIT].must_go.values())
    assert counted.value(m.GROUP_HELD_UP, cluster="", group="orders") == (story.now_ms - told_ms) / 1_000


def test_epochs_by_cause_and_targets() -> None:
    story = scene()
    counted = Counted(story.group)
    reasons = Counter(reason for bump in of_type(story.group.outputs, GroupEpochBumped) for reason in bump.reasons)
    assert set(reasons) == {"converted", "member_joined", "regexes_resolved"}
    for reason, number in reasons.items():
        assert counted.value(m.EPOCH_BUMPS, reason=reason) == number
    targets = of_type(story.group.outputs, TargetAssignmentComputed)
    assert counted.value(m.TARGETS) == len(targets)


def test_who_is_fenced_for_it() -> None:
    story = Story("orders", cluster(orders=6))
    ids = ("q7PSb5mLRyGCVxRVgnDvwQ", "zP8ZtVkqTTa6c1sJfYj4xw")
    story.join(
        DrivenMember(
            member_id=ids[0], client_id="a", topics=("orders",), revokes=False, rebalance_timeout_ms=20_000
        )
    )
    story.go_on(10_000)
    story.join(DrivenMember(member_id=ids[1], client_id="b", topics=("orders",)))
    story.go_on(60_000)
    counted = Counted(story.group)
    assert counted.value(m.MEMBERS_GONE, reason="did_not_revoke") == 1
    assert counted.value(m.GROUP_HELD_UP, cluster="", group="orders") is None


def test_expressions_that_wait() -> None:
    story = Story("orders", cluster(orders=6))
    story.join(DrivenMember(member_id="q7PSb5mLRyGCVxRVgnDvwQ", client_id="a", topics=None, regex="ord.*"))
    assert Counted(story.group).value(m.REGEXES_UNRESOLVED) == 1
    story.go_on(10_000)
    story.leave("a")
    assert Counted(story.group).value(m.REGEXES_UNRESOLVED) == 0


# -------------------------------------------------------------------------------------------- offsets in transactions


def age(group: GroupHarness) -> float | None:
    return Counted(group).value(m.GROUP_PENDING_OFFSETS, cluster="", group="g")


@pytest.mark.parametrize("committed", [True, False])
def test_the_oldest_pending_offset(committed: bool) -> None:
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", 0): 5, ("t", 1): 6})
    group.sleep(10_000)
    group.commit_in_transaction(8, {("t", 0): 9})
    group.sleep(20_000)
    assert age(group) == 30.0
    group.commit_in_transaction(7, {("t", 0): 6})  # again, in the same transaction
    assert age(group) == 30.0
    group.end_transaction(8, committed=committed)
    assert age(group) == 30.0
    group.end_transaction(7, committed=committed)
    assert age(group) is None


def test_offsets_that_later_commits_have_replaced_wait_until_their_transaction_ends() -> None:
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", 0): 5, ("t", 1): 5})
    group.commit("", -1, {("t", 0): 9})
    bench = tally_bench.bench()

    def kept() -> int:
        for record in of_type(group.outputs, HistoryRecord):
            bench.tally.history(record)  # type: ignore[arg-type]
        return bench.groups.pending.kept

    assert kept() == 2
    group.end_transaction(7, committed=True)
    assert kept() == 0


def test_a_commit_outside_of_transactions_ends_none() -> None:
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", 0): 5})
    group.sleep(10_000)
    group.commit("", -1, {("t", 0): 3})
    assert age(group) == 10.0


def test_offsets_that_are_deleted_wait_no_longer() -> None:
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", 0): 5})
    group.sleep(10_000)
    group.delete_offsets(("t", 0))
    assert group.group is None or not group.group.offsets.has_pending
    assert age(group) is None


def test_made_up_groups_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_offsets, "KEPT_MAX", 10)
    pending = PendingOffsets()
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", partition): 1 for partition in range(25)})
    for record in of_type(group.outputs, TransactionalOffsetsPending):
        pending.written(record)
    assert pending.kept == 10
