"""The target assignment: what an assignor sees of a group, and what becomes of one that fails."""

from __future__ import annotations

import pytest

from coordinator_state import encode_group
from coordinator_state.consumer import target
from coordinator_state.consumer.assignors import AssignorGroup, UniformAssignor
from coordinator_state.consumer.assignors.java_order import subscribed_topic_id_order
from coordinator_state.consumer.member import TargetAssignment
from schemas.error_codes import ErrorCode
from schemas.history import RequestRefused
from tests.coordinator_state.consumer.harness import ConsumerHarness, topics
from tests.coordinator_state.harness import LogRecord, assignment, of_type, subscription


def test_members_that_subscribe_alike_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand members have a thousand partitions or more: each may not look at all topics."""
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.metadata = topics(foo=4, bar=4)
    for number in range(5):
        group.joins(f"m{number}", "foo", "bar")
    group.joins("other", "foo")
    calls: list[tuple[str, ...]] = []

    def counted(names: tuple[str, ...], topic_ids: dict[str, str]) -> tuple[str, ...]:
        calls.append(tuple(names))
        return subscribed_topic_id_order(names, topic_ids)

    monkeypatch.setattr(target, "subscribed_topic_id_order", counted)
    group.joins("m5", "foo", "bar")
    assert sorted(calls) == [("bar", "foo"), ("foo",)]


def test_an_assignor_that_fails_is_a_refusal_that_changes_nothing() -> None:
    """A topic that has lost partitions: Kafka's assignor throws, and the member is told UNKNOWN_SERVER_ERROR."""
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.metadata = topics(foo=4, bar=4)
    group.joins("a", "foo", "bar")
    group.joins("b", "foo")
    group.metadata = topics(version=2, foo=1, bar=4)
    before = group.body
    outputs = group.beat("c", 0, subscribed_topic_names=("foo",), rebalance_timeout_ms=60_000, topic_partitions=())
    assert group.heard(outputs).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert of_type(outputs, RequestRefused)[0].rule == "no_target_assignment"
    assert not of_type(outputs, LogRecord)
    assert (group.body.members, group.body.group_epoch) == (before.members, before.group_epoch)


@pytest.mark.parametrize("partition", [-1, -3, -1_000, 4, 2**31 - 1])
@pytest.mark.parametrize("joins_with", [("foo",), ("bar",), ("foo", "bar")])
def test_an_upgrade_with_partitions_that_there_are_not_fails(partition: int, joins_with: tuple[str, ...]) -> None:
    """The leader of a classic group says who has what, and nobody checks it. Kafka's assignor throws."""
    group = ConsumerHarness()
    group.metadata = topics(foo=4, bar=4)
    group.add("leader", protocols={"range": subscription("foo")})
    group.sync("leader", group.classic.generation_id, {"leader": assignment("foo", 0, partition)})
    assert group.joins("a", *joins_with).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.classic.members.keys() == {"leader"}


def test_a_target_in_another_order_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards(UniformAssignor):
        def assign(self, group: AssignorGroup) -> dict[str, TargetAssignment]:
            targets = super().assign(group)
            return {
                member_id: tuple([(topic_id, partitions[::-1]) for topic_id, partitions in target_of[::-1]])
                for member_id, target_of in targets.items()
            }

    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.metadata = topics(foo=4, bar=4)
    group.joins("a", "foo", "bar")
    stored = group.body.targets
    monkeypatch.setattr(target, "server_assignor", lambda name: Backwards())
    group.joins("a", "foo", "bar", "baz")
    assert group.body.assignment_epoch == group.body.group_epoch == 3
    assert group.body.targets == stored


def test_an_assignor_that_was_taken_from_the_settings_is_not_used() -> None:
    """A member may have asked for it before. Kafka finds none then, and fails with UNKNOWN_SERVER_ERROR."""
    before = ConsumerHarness()
    epoch = before.joins("a", "foo", server_assignor="range").member_epoch
    assert before.group is not None
    group = ConsumerHarness(group_consumer_assignors="uniform")
    group.restore(encode_group(before.group))
    group.sleep(2_000)
    answer = group.told("a", epoch, subscribed_topic_names=("bar",))
    assert answer.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
