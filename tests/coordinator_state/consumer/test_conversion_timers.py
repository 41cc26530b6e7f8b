"""What becomes of the timers of members when the group, or the member, changes its kind.

As in Kafka, those by which a classic member must join or sync go on. Unlike in Kafka, those of members that are gone
end, so that they do not pile up.
"""

from __future__ import annotations

import pytest

from schemas.consumer_group_messages import JOIN_EPOCH, LEAVE_EPOCH
from schemas.consumer_protocol import Subscription, TopicPartition, encode_subscription
from schemas.error_codes import ErrorCode
from schemas.history import MemberDropped, MemberExpired
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import assignment, of_type, subscription

PROTOCOLS = {"range": subscription("foo")}
SYNC_BY_MS = 60_000


@pytest.fixture
def group() -> ConsumerHarness:
    """A classic group that was a consumer group a moment ago, where `m` had joined and not yet synced."""
    group = ConsumerHarness()
    group.joins("a", "foo")
    group.add("m", protocols=PROTOCOLS, session_timeout_ms=45_000, rebalance_timeout_ms=SYNC_BY_MS)
    group.beat("a", LEAVE_EPOCH)
    group.join("m", protocols=PROTOCOLS, session_timeout_ms=45_000, rebalance_timeout_ms=SYNC_BY_MS)
    group.sync("m", group.classic.generation_id, {"m": assignment("foo", 0, 1, 2, 3)})
    assert group.state == "Stable"
    return group


def timers_of(group: ConsumerHarness) -> set[str]:
    assert group.group is not None
    return set(group.group.timers)


def keep_alive(group: ConsumerHarness, duration_ms: int) -> None:
    """`m` is heard every 10 s."""
    until_ms = group.now_ms + duration_ms
    while group.now_ms < until_ms:
        group.sleep(min(10_000, until_ms - group.now_ms))
        group.heartbeat("m", group.classic.generation_id)


def test_a_classic_group_does_not_look_at_them(group: ConsumerHarness) -> None:
    assert timers_of(group) == {"session:m", "sync:m"}
    keep_alive(group, SYNC_BY_MS - 1)
    assert group.sleep(1) == []
    assert group.state == "Stable"
    assert timers_of(group) == {"session:m"}


def test_they_count_when_it_is_a_consumer_group_again(group: ConsumerHarness) -> None:
    keep_alive(group, 30_000)
    group.joins("b", "foo")
    assert timers_of(group) == {"session:m", "session:b", "sync:m"}
    assert of_type(group.sleep(29_999), MemberDropped) == []
    (dropped,) = of_type(group.sleep(1), MemberDropped)
    assert (dropped.member.member_id, dropped.reason) == ("m", "did_not_sync")
    assert set(group.body.members) == {"b"}


def test_a_renewal_of_the_classic_group_ends_them(group: ConsumerHarness) -> None:
    """They would count time in which nobody could be heard."""
    group.renew_sessions()
    assert timers_of(group) == {"session:m"}


def test_those_of_members_that_are_gone_end_with_the_upgrade(group: ConsumerHarness) -> None:
    group.add("n", protocols=PROTOCOLS)
    group.leave("m")
    generation_id = group.classic.generation_id
    group.sync("n", generation_id, {"n": assignment("foo", 0)})
    assert timers_of(group) == {"session:n", "sync:m"}
    group.joins("b", "foo")
    assert timers_of(group) == {"session:n", "session:b"}


def test_those_of_an_empty_group_end_when_it_is_a_consumer_group(group: ConsumerHarness) -> None:
    group.leave("m")
    assert "sync:m" in timers_of(group)
    group.joins("b", "foo")
    assert timers_of(group) == {"session:b"}


@pytest.mark.parametrize("gives_up", [True, False])
def test_the_time_to_give_up_partitions_ends_with_the_epoch(gives_up: bool) -> None:
    """A member goes on with the classic protocol. Kafka's timer is bound to the epoch in which it was armed."""
    group = ConsumerHarness()
    group.joins("m", "foo", rebalance_timeout_ms=10_000)
    group.joins("n", "foo")
    group.sleep(1_000)
    answer = group.told("m", 2)
    assert answer.assignment is not None
    (kept,) = answer.assignment.topic_partitions
    owned = kept.partitions if gives_up else (0, 1, 2, 3)
    subscribed = Subscription(topics=("foo",), owned_partitions=tuple(TopicPartition("foo", each) for each in owned))
    group.join("m", protocols={"range": encode_subscription(subscribed)}, session_timeout_ms=45_000)
    assert group.body.members["m"].member_epoch == (3 if gives_up else 2)
    dropped = of_type(group.sleep(10_000), MemberDropped)
    assert [(record.member.member_id, record.reason) for record in dropped] == (
        [] if gives_up else [("m", "did_not_revoke")]
    )


@pytest.mark.parametrize(("is_new", "asks_for_ms"), [(True, 10_000), (False, 45_000)])
def test_an_expiry_tells_the_session_that_is_over(is_new: bool, asks_for_ms: int) -> None:
    """A conversion that fails answers those who wait to join, as in Kafka. So a newcomer has its own session from its
    next heartbeat on, no longer five minutes; and who asked for another session still has the one before."""
    fields = {"protocols": PROTOCOLS, "rebalance_timeout_ms": 1_000_000}
    group = ConsumerHarness()
    generation_id = group.stable("m", *(() if is_new else ("n",)), session_timeout_ms=10_000, **fields)
    if is_new:
        group.add("n", session_timeout_ms=asks_for_ms, **fields)
    else:
        group.join("n", session_timeout_ms=asks_for_ms, **fields | {"protocols": {"range": subscription("bar")}})
    assert group.state == "PreparingRebalance"
    refused = group.beat("a", JOIN_EPOCH, subscribed_topic_regex="(", rebalance_timeout_ms=1, topic_partitions=())
    assert group.heard(refused).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    if is_new:
        group.heartbeat("n", generation_id)
    group.sleep(5_000)
    group.heartbeat("m", generation_id)
    (expired,) = of_type(group.sleep(5_000), MemberExpired)
    assert expired.member.member_id == "n"
    assert expired.last_heard_ms is not None
    assert expired.session_timeout_ms == expired.time_ms - expired.last_heard_ms == 10_000
