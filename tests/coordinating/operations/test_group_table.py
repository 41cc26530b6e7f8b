"""Groups as gauges: the sums are those of all groups, names are bounded."""

from __future__ import annotations

import random
from collections import Counter

from group_coordinator.ground.monitoring import metrics
from group_coordinator.watching.group_metrics import group_table
from group_coordinator.watching.group_metrics.group_table import GroupTable
from group_coordinator.watching.group_metrics.light_records import CountedSnapshot, read_snapshot
from schemas.group_states import REBALANCING, GroupState

NAMED = (metrics.GROUP_REBALANCING, metrics.GROUP_REBALANCES, metrics.GROUP_MEMBERS)


def snapshot(group_id: str, state: str, members: int, since_ms: int = 0) -> CountedSnapshot:
    text = '{"group_id":"%s","state":"%s","state_since_ms":%d,"members":[%s],"more":1}'
    return read_snapshot((text % (group_id, state, since_ms, ",".join(['{"member_id":"m"}'] * members))).encode())


def table(top: int = 3, now_s: float = 0.0) -> GroupTable:
    return GroupTable(top, lambda group_id: 60_000, lambda: now_s)


def test_sums_follow_every_change() -> None:
    groups, chance = table(), random.Random(1)
    truth: dict[str, tuple[str, int]] = {}
    for _ in range(500):
        name, state = f"g{chance.randrange(20)}", chance.choice(group_table.STATES)
        if chance.random() < 0.2:
            truth.pop(name, None)
            groups.put(name, None)
        else:
            truth[name] = state, chance.randrange(5)
            groups.put(name, snapshot(name, *truth[name]))
    states = {value.labels: value.value for value in groups.values() if value.metric is metrics.GROUPS}
    counts = Counter(state for state, _ in truth.values())
    assert states == {
        (kind, state): counts[state] if kind == "classic" else 0
        for kind in group_table.TYPES
        for state in group_table.STATES
    }
    members = {value.labels: value.value for value in groups.values() if value.metric is metrics.MEMBERS}
    assert members == {("classic",): sum(number for _, number in truth.values()), ("consumer",): 0}


def test_only_the_groups_that_stand_out_have_names() -> None:
    groups = table()
    for number in range(50):
        groups.put(f"g{number:02}", snapshot(f"g{number:02}", "PreparingRebalance", number, since_ms=1_000 * number))
        for _ in range(number):
            groups.happened(groups.rebalances, f"g{number:02}")
    named_groups = {metric: [(v.labels[1], v.value) for v in groups.values() if v.metric is metric] for metric in NAMED}
    assert named_groups[metrics.GROUP_REBALANCING] == [("g00", 60.0), ("g01", 59.0), ("g02", 58.0)]
    assert named_groups[metrics.GROUP_REBALANCES] == [("g49", 49), ("g48", 48), ("g47", 47)]
    assert named_groups[metrics.GROUP_MEMBERS] == [("g49", 49), ("g48", 48), ("g47", 47)]
    assert not any(value.metric.name.startswith(f"{metrics.PREFIX}group_") for value in table(top=0).values())


def test_recently_is_the_last_ten_minutes() -> None:
    now_s = [0.0]
    recently = group_table.Recently(lambda: now_s[0])
    recently.add("old")
    now_s[0] = 599.0
    recently.add("new")
    assert recently.most(5) == [("new", 1), ("old", 1)]
    now_s[0] = 660.0
    assert recently.most(5) == [("new", 1)]
    now_s[0] = 10_000.0
    assert recently.most(5) == []


def test_made_up_names_do_not_fill_the_memory() -> None:
    recently = group_table.Recently(lambda: 0.0)
    recently.add("known")
    for number in range(group_table.NAMES_PER_SLICE + 10):
        recently.add(f"made-up-{number}")
    recently.add("known")
    assert len(recently.most(10**9)) == group_table.NAMES_PER_SLICE
    assert recently.most(1) == [("known", 2)]


def test_groups_are_counted_in_every_state_that_the_core_publishes() -> None:
    assert {*(state.value for state in GroupState), *REBALANCING} - {GroupState.DEAD.value} == {*group_table.STATES}
