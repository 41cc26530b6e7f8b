"""What the dashboard shows of groups that are polled, held against what an admin client saw of the same clusters."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.polled import PolledGroup, Polls
from group_coordinator.watching.watch.index_updater import IndexUpdater
from schemas.history import AssignedTopic
from tests.watching.observed.polls import polled_group, recorded_polls

IN_PLACE = ("Stable", "Empty", "Reconciling", "Assigning")
"""States in which a poll shows the members. While a classic group rebalances, its last members are shown."""


def shared_out(group: PolledGroup) -> Iterable[tuple[AssignedTopic, ...]]:
    """The target where there is one. An admin client asks for it and for the state at different times."""
    return group.targets.values() if group.kind == "consumer" else (topics for _, topics in group.members.values())


@pytest.mark.parametrize("name", ["consumer-protocol", "migration", "three-brokers", "old-3.9"])
def test_kind_members_and_state_are_those_of_each_poll(name: str) -> None:
    polls, index = Polls(), Index()
    updater = IndexUpdater(index)
    stable = 0
    for poll in recorded_polls(name):
        groups = [polled_group(group) for group in poll["groups"]]
        updater.apply(polls.take(poll["at_ms"], groups))
        for group in groups:
            facts = index.facts(group.group_id)
            if facts is None or group.state not in IN_PLACE:
                continue
            assert facts.kind == group.kind
            assert {member_id: member.client_id for member_id, member in facts.members.items()} == {
                member_id: identity.client_id for member_id, (identity, _) in group.members.items()
            }
            if group.state == "Stable":
                stable += 1
                assert facts.state == "Stable"
                assert facts.partitions == sum(
                    len(topic.partitions) for topics in shared_out(group) for topic in topics
                )
    assert stable > 50
