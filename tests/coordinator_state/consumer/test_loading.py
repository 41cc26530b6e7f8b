"""A consumer group whose coordinator moves, as a recording tells: all goes on, and sessions begin anew."""

from __future__ import annotations

import pytest

from schemas.consumer_group_messages import LEAVE_STATIC_EPOCH
from schemas.history import MemberDropped, MemberExpired
from schemas.observed_history import CoordinatorChanged
from schemas.recorded import RecordedLoad
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, owned
from tests.coordinator_state.harness import of_type

SESSION_MS = 45_000


def test_members_go_on_where_they_were_and_have_a_new_session() -> None:
    group = ConsumerHarness()
    assert group.joins("a", "foo").member_epoch == 2
    group.sleep(20_000)
    loaded_ms = group.now_ms + 5_000
    told = group.recorded(RecordedLoad(loaded_ms=loaded_ms, group_metadata=None, broker_id=2))
    (changed,) = of_type(told, CoordinatorChanged)
    assert changed.broker_id == 2
    assert not of_type(group.sleep(5_000 + SESSION_MS - 1), MemberExpired)
    (expired,) = of_type(group.sleep(1), MemberExpired)
    assert expired.member.member_id == "a"


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("leaves_again", [True, False])
def test_who_is_away_and_had_to_give_up_partitions_is_put_out_after_a_load(loaded: bool, leaves_again: bool) -> None:
    """It keeps its state, and the timer is bound to the epoch that it has when the group is loaded: -2
    (`onLoaded`, `consumerGroupStaticMemberGroupLeave`). Without a load it is bound to the epoch that it had."""
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("a", "foo", instance_id="i", rebalance_timeout_ms=30_000)
    group.joins("b", "foo")
    group.told("a", 2, topic_partitions=owned(FOO, 0, 1, 2, 3))
    group.told("a", LEAVE_STATIC_EPOCH, instance_id="i")
    if loaded:
        group.recorded(RecordedLoad(loaded_ms=group.now_ms, group_metadata=None))
    if leaves_again:
        group.told("a", LEAVE_STATIC_EPOCH, instance_id="i")
    told = group.sleep(30_000)
    dropped = [(record.member.member_id, record.reason) for record in of_type(told, MemberDropped)]
    assert dropped == ([("a", "did_not_revoke")] if loaded else [])
    assert ("a" in group.body.members) != loaded


def test_a_member_that_must_give_up_partitions_has_its_whole_time_again() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("a", "foo", rebalance_timeout_ms=30_000)
    group.joins("b", "foo")
    assert group.told("a", 2, topic_partitions=owned(FOO, 0, 1, 2, 3)).assignment is not None
    group.sleep(20_000)
    group.recorded(RecordedLoad(loaded_ms=group.now_ms, group_metadata=None))
    group.told("b", 3)
    group.sleep(29_999)
    assert set(group.body.members) == {"a", "b"}
    group.sleep(1)
    assert set(group.body.members) == {"b"}
