"""What consumer groups are told of the cluster's topics, held against the machine that is told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from coordinator_state import AssignmentChange, Output
from coordinator_state.topics_image import NO_TOPICS
from group_coordinator.ground.kafka_topics.cluster_topics import ClusterTopics
from schemas.consumer_group_messages import TopicPartitions
from schemas.error_codes import ErrorCode
from schemas.events import encode_json
from schemas.group_metadata_events import RegexesResolved, TopicMetadata
from schemas.history import SnapshotSubscription
from schemas.known_topics import KnownTopic
from schemas.topic_regexes import matching_topics
from streaming.group_news import Event, GroupNews
from tests.coordinator_state.consumer.harness import ConsumerHarness, consumer_heartbeat
from tests.coordinator_state.harness import of_type

EVENT_BYTES_MAX = 400
OWN_PREFIX = "coordinator."
REFRESH_MS = 10_001
"""A group's expressions are resolved no more often."""


class World:
    """A cluster's topics, a group, and who tells the group."""

    def __init__(self) -> None:
        self.table = ClusterTopics()
        self.group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
        self.group.metadata = None  # type: ignore[assignment]
        self.subscription: SnapshotSubscription | None = None
        self.offset = 0
        self.made = 0
        self.ids: dict[str, str] = {}
        self.restart()

    def restart(self) -> None:
        """The watcher begins anew."""
        self.news = GroupNews(self.table, OWN_PREFIX, EVENT_BYTES_MAX)
        self.news.published({"g": self.subscription})

    # ------------------------------------------------------------------------------------------------------ the cluster

    def put(self, name: str, partitions: int) -> None:
        """A topic comes or changes."""
        if name not in self.ids:
            self.made += 1
            self.ids[name] = f"00000000-0000-0000-0000-{self.made:012}"
        before = self.table.described(name)
        self._record(name, max(partitions, 0 if before is None else len(before.partitions)))

    def delete(self, name: str) -> None:
        if name in self.ids:
            self._record(name, 0, is_gone=True)
            del self.ids[name]

    def _record(self, name: str, partitions: int, *, is_gone: bool = False) -> None:
        topic_id = self.ids[name]
        topic = KnownTopic(name=name, topic_id=topic_id, partitions=(("r",),) * partitions, is_gone=is_gone)
        self.table.take(topic_id.encode(), encode_json(topic), self.offset)
        self.offset += 1

    # -------------------------------------------------------------------------------------------------------- the group

    def publish(self, outputs: list[Output]) -> None:
        for change in of_type(outputs, AssignmentChange):
            snapshot = change.snapshot
            subscription = UNSET if snapshot is None else snapshot.subscription
            self.subscription = None if subscription is UNSET else subscription

    def join(self, member_id: str, *names: str, regex: str = "") -> None:
        self.publish(self.group.send(*consumer_heartbeat(member_id, 0, names, subscribed_topic_regex=regex)))

    def leave(self, member_id: str) -> None:
        self.publish(self.group.beat(member_id, -1))

    def beat(self) -> None:
        """Each member says what it has, and that is what it was given."""
        members = {} if self.group.group is None else self.group.body.members
        for member_id, member in members.items():
            owned = tuple(
                TopicPartitions(topic_id=topic_id, partitions=tuple(has)) for topic_id, has in member.assigned.items()
            )
            outputs = self.group.beat(member_id, member.member_epoch, topic_partitions=owned)
            assert self.group.heard(outputs).error_code is ErrorCode.NONE
            self.publish(outputs)

    # -------------------------------------------------------------------------------------------------- who tells it

    def tell(self) -> list[Event]:
        """The group is told what is due for it."""
        self.news.published({"g": self.subscription})
        told: list[Event] = []
        for group_id, events in self.news.due():
            assert group_id == "g"
            told += events
        for event in told:
            self.publish(self.group.tell(event))
        self.news.told(["g"] if told else [])
        return told

    def settle(self) -> None:
        """Heartbeats and time go by until nothing is due any more."""
        for _ in range(8):
            told = self.tell()
            self.beat()
            self.group.sleep(REFRESH_MS)
            self.beat()
            if not told and not self.tell():
                return
        pytest.fail("the group is told for ever")

    def assert_group_knows(self) -> None:
        """What the group has is what the cluster has."""
        if self.group.group is None:
            return
        image, body = self.group.group.topics or NO_TOPICS, self.group.body
        for regex in body.regex_counts:
            visible = [name for name in self.table.names if not name.startswith(OWN_PREFIX)]
            # A topic that is deleted starts no resolution, as in Kafka: it does not exist for the group.
            resolved = [name for name in body.resolved_regexes[regex].topics if name in image.topics]
            assert tuple(resolved) == matching_topics(regex, visible), regex
        for name in body.subscribed_topics:
            known, present = image.topics.get(name), self.table.described(name)
            if present is None:
                assert known is None, name
            else:
                assert known is not None, name
                assert (known.topic_id, known.racks) == (present.topic_id, present.partitions)
        assert body.regex_refresh_began_ms is None


NAMES = ["foo", "food", "bar", f"{OWN_PREFIX}food"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES), st.integers(1, 4)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("join"), st.sampled_from(NAMES), st.integers(0, 2)),
        st.tuples(st.just("join by regex"), st.sampled_from(["fo+d?", "b.*", ".*", "none"]), st.integers(0, 2)),
        st.tuples(st.just("leave"), st.just(""), st.integers(0, 2)),
        st.tuples(st.sampled_from(["beat", "tell", "restart", "sleep", "settle"]), st.just(""), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_in_the_end_a_group_knows_its_topics_and_is_told_no_more(steps: list[tuple[str, str, int]]) -> None:
    world = World()
    for kind, name, number in steps:
        if kind == "put":
            world.put(name, number)
        elif kind == "delete":
            world.delete(name)
        elif kind == "join":
            world.join(f"m{number}", name, "bar")
        elif kind == "join by regex":
            world.join(f"m{number}", regex=name)
        elif kind == "leave":
            world.leave(f"m{number}")
        elif kind == "sleep":
            world.group.sleep(REFRESH_MS)
        elif kind == "beat":
            world.beat()
        elif kind == "tell":
            world.tell()
        elif kind == "settle":
            world.settle()
        else:
            world.restart()
    world.settle()
    world.assert_group_knows()
    world.restart()
    assert world.tell() == [], "whoever begins anew tells nobody what is known"


def names_in(events: Iterable[Event]) -> list[tuple[str, ...]]:
    return [
        (*[topic.name for topic in event.topics], *event.absent) for event in events if isinstance(event, TopicMetadata)
    ]


def test_a_group_is_told_of_the_topic_that_changed_and_of_no_others() -> None:
    world = World()
    for name in NAMES:
        world.put(name, 1)
    world.join("m", "foo", "bar", "none")
    world.settle()
    world.put("food", 2)
    assert world.tell() == [], "it is a topic of others"
    world.put("foo", 2)
    (told,) = world.tell()
    assert isinstance(told, TopicMetadata)
    assert [(topic.name, len(topic.partitions)) for topic in told.topics] == [("foo", 2)]
    assert world.tell() == [], "it has yet to take in what it was told"
    world.put("none", 1)
    assert [names for names in names_in(world.tell()) if "none" in names]


def test_a_topic_with_many_partitions_reaches_the_member_at_its_next_heartbeat() -> None:
    world = World()
    world.put("foo", 1)
    world.join("m", "foo")
    world.settle()
    world.put("foo", 901)
    world.tell()
    world.beat()
    owned = world.group.body.members["m"].assigned
    assert {topic_id: len(partitions) for topic_id, partitions in owned.items()} == {world.ids["foo"]: 901}


def test_what_was_not_written_is_told_again() -> None:
    world = World()
    world.put("foo", 1)
    world.join("m", "foo")
    world.news.published({"g": world.subscription})
    first = [events for _, events in world.news.due()]
    assert first
    assert [events for _, events in world.news.due()] == first
    world.settle()
    world.assert_group_knows()


def test_many_topics_are_told_in_bounded_events() -> None:
    world = World()
    names = [f"topic-{number}" for number in range(50)]
    for name in names:
        world.put(name, 3)
    world.join("m", *names)
    told = world.tell()
    assert max(len(encode_json(event)) for event in told) < 2 * EVENT_BYTES_MAX
    assert sorted(name for piece in names_in(told) for name in piece) == sorted(names)


def test_results_of_many_expressions_are_one_event_for_each() -> None:
    world = World()
    for number in range(30):
        world.put(f"topic-{number}", 1)
    world.join("m0", regex="topic-1.*")
    world.join("m1", regex="topic-.*")
    results = [event for event in world.tell() if isinstance(event, RegexesResolved)]
    assert [set(event.resolved) for event in results] == [{"topic-.*"}, {"topic-1.*"}]
    world.settle()
    world.assert_group_knows()


def test_a_new_topic_that_matches_no_expression_is_nothing_to_the_group() -> None:
    world = World()
    world.put("foo", 1)
    world.join("m", regex="f.*")
    world.settle()
    world.put("bar", 1)
    assert world.tell() == []
    world.put("food", 1)
    told = [event for event in world.tell() if isinstance(event, TopicMetadata)]
    assert max(event.new_topics_version for event in told) == world.table.version


def test_versions_that_groups_were_told_are_known() -> None:
    world = World()
    world.put("foo", 1)
    world.join("m", "foo")
    world.group.tell(TopicMetadata(version=900, topics=(), absent=("bar",)))
    world.join("m2", "bar")
    world.news.published({"g": world.subscription})
    assert world.news.largest_version_told == 900


@pytest.mark.parametrize("version", [2**62, 2**63 - 1])
def test_a_version_that_nobody_can_have_told_is_not_counted_on_from(version: int) -> None:
    """Whoever may write events may name any. Versions that begin there would have no end to count to."""
    news = GroupNews(ClusterTopics(), OWN_PREFIX, EVENT_BYTES_MAX)
    told = SnapshotSubscription(
        topics=("foo",), regexes={}, resolving_since_ms=None, metadata_hash=0, topics_version=version
    )
    news.published({"g": told, "h": replace(told, topics_version=7)})
    assert news.largest_version_told == 7
