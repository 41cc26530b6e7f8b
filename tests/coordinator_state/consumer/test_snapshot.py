"""What is published of a consumer group's subscription: whoever watches the cluster's topics goes by it."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from coordinator_state import AssignmentChange, Output
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved
from schemas.history import SnapshotSubscription
from tests.coordinator_state.consumer.harness import ConsumerHarness, consumer_heartbeat, topics
from tests.coordinator_state.harness import of_type


def subscription(outputs: list[Output]) -> SnapshotSubscription:
    snapshot = of_type(outputs, AssignmentChange)[-1].snapshot
    assert snapshot is not None
    assert snapshot.subscription is not UNSET
    return snapshot.subscription


def joined(group: ConsumerHarness, member_id: str, *names: str, regex: str | None = None) -> SnapshotSubscription:
    heartbeat = consumer_heartbeat(member_id, 0, names, subscribed_topic_regex=regex)
    return subscription(group.send(*heartbeat, topic_metadata=group.metadata))


def test_names_of_all_members_and_what_is_known_of_them() -> None:
    group = ConsumerHarness()
    group.metadata = topics(7, foo=4)
    assert joined(group, "a", "foo") == SnapshotSubscription(
        topics=("foo",), regexes={}, resolving_since_ms=None, metadata_hash=group.body.metadata_hash, topics_version=7
    )
    assert group.body.metadata_hash != 0
    assert joined(group, "b", "none", "foo").topics == ("foo", "none")


def test_the_wish_to_resolve_expressions_is_published_until_it_is_fulfilled() -> None:
    group = ConsumerHarness()
    wish = joined(group, "a", regex="f.*")
    assert (wish.regexes, wish.resolving_since_ms) == ({"f.*": None}, group.now_ms)
    event = RegexesResolved(version=1, resolved={"f.*": ("foo",)}, began_ms=group.now_ms)
    fulfilled = subscription(group.tell(event))
    assert (fulfilled.regexes, fulfilled.resolving_since_ms) == ({"f.*": ("foo",)}, None)
    group.sleep(11_000)
    group.tell(topics(2, foo=4, bar=1))
    assert subscription(group.beat("a", 1)).resolving_since_ms == group.now_ms, "although no record is written"
    unchanged = RegexesResolved(version=2, resolved={}, began_ms=group.now_ms)
    assert subscription(group.tell(unchanged)).resolving_since_ms is None


def test_own_settings_are_published_with_the_group() -> None:
    group = ConsumerHarness()
    own = GroupConfiguration(consumer_session_timeout_ms=50_000)
    group.tell(own)
    published = group.send(*consumer_heartbeat("a", 0, ("foo",)))
    assert configuration(published) == own
    changed = GroupConfiguration(consumer_heartbeat_interval_ms=6_000)
    assert configuration(group.tell(changed)) == changed
    assert configuration(group.tell(GroupConfiguration())) is UNSET


def test_settings_without_a_group_are_published_as_those_of_a_dead_one() -> None:
    group = ConsumerHarness()
    own = GroupConfiguration(consumer_session_timeout_ms=50_000)
    assert configuration(group.tell(own)) == own
    assert not exists(group.tell(own))
    assert exists(group.send(*consumer_heartbeat("a", 0, ("foo",))))
    group.told("a", -1)
    gone = group.delete()
    assert (exists(gone), configuration(gone)) == (False, own)
    cleared = of_type(group.tell(GroupConfiguration()), AssignmentChange)
    assert [change.snapshot for change in cleared] == [None]


def exists(outputs: list[Output]) -> bool:
    snapshot = of_type(outputs, AssignmentChange)[-1].snapshot
    assert snapshot is not None
    return snapshot.exists


def configuration(outputs: list[Output]) -> GroupConfiguration | UnsetType:
    snapshot = of_type(outputs, AssignmentChange)[-1].snapshot
    assert snapshot is not None
    return snapshot.configuration
