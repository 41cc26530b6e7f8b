"""What goes with a request that joins a group: topics as the brokers have them now, in versions that all share."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET, UnsetType

from group_coordinator.coordinating.gateway.joined_topics import PUBLISHED_WITHIN_S, JoinedTopics
from group_coordinator.coordinating.gateway.published_groups import PublishedGroup
from group_coordinator.coordinating.gateway.topic_cache import ABSENT, Answers, Topic, TopicCache, Verdict
from group_coordinator.coordinating.gateway.topic_images import TopicImages
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.group_metadata_events import TopicMetadata
from schemas.messages import JoinGroupRequest
from schemas.query_progress import GroupsAsked, SeenTopic, TopicsSeen
from tests.coordinating.gateway.topic_records import SHARD, SHARDS, described, heartbeat, record, topic_id


class World:
    """Brokers that answer at once, a watcher that hears, and a clock."""

    def __init__(self, shards: int = SHARDS, **topics: Verdict) -> None:
        self.topics = topics
        self.shards = shards
        self.told: list[tuple[int, TopicsSeen]] = []
        self.questions = 0
        self.published: PublishedGroup | None = None
        self.cluster_id: str | None = "cluster"
        self.answers: list[TopicMetadata | UnsetType] = []
        self.now_s = 100.0
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.images = TopicImages(SHARDS)
        self.images.take([record(1, "old", 1)])
        self.joined = JoinedTopics(
            self.images, lambda _: self.published, TopicCache(self._ask, self._call_later, lambda: self.now_s), self,
            lambda: self.cluster_id, self._call_later, lambda: self.now_s,
        )  # fmt: skip

    def write(self, shard: int, record: TopicsSeen | GroupsAsked) -> None:
        assert isinstance(record, TopicsSeen)
        self.told.append((shard, record))

    def _ask(self, names: list[str], on_answers: Callable[[Answers], None]) -> None:
        self.questions += 1
        self._call_later(0.0, lambda: on_answers({name: self.topics.get(name, ABSENT) for name in names}))

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self._later.append((self.now_s + delay_s, call))

    def pass_time(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while due := sorted([each for each in self._later if each[0] <= end_s], key=lambda each: each[0]):
            self._later.remove(due[0])
            self.now_s = max(self.now_s, due[0][0])
            due[0][1]()
        self.now_s = end_s

    def send(self, request: ConsumerGroupHeartbeatRequest | JoinGroupRequest) -> None:
        attached = self.joined.attached(request)
        if attached is None:
            self.joined.look_up(request, self.answers.append)
        else:
            self.answers.append(attached)


def of_version(version: int, *topics: int | str) -> TopicMetadata:
    """Numbers: of topics that are there under the name `new`; names: of those that are not."""
    return TopicMetadata(
        version=version,
        topics=tuple([described(number, "new") for number in topics if isinstance(number, int)]),
        absent=tuple([name for name in topics if isinstance(name, str)]),
    )


def test_a_topic_that_the_watcher_has_not_seen_is_waited_for_and_has_its_version() -> None:
    world = World(new=Topic(topic_id(2), 2))
    world.send(heartbeat("new"))
    world.pass_time(0.1)
    assert (world.answers, world.questions) == ([], 1)
    seen = TopicsSeen(cluster_id="cluster", topics=(SeenTopic("new", topic_id(2)),))
    assert world.told == [(SHARD, seen)], "the watcher of the group's shard looks at once"
    world.images.take([record(3, "another", 2)])
    assert world.answers == []
    world.images.take([record(2, "new", 3)])
    assert world.answers == [of_version(3, 2)]
    world.pass_time(2 * PUBLISHED_WITHIN_S)
    assert len(world.answers) == 1
    world.send(heartbeat("new"))
    world.pass_time(0.1)
    assert world.answers == 2 * [of_version(3, 2)], "and then nobody waits"
    assert len(world.told) == 1


def test_a_member_that_has_joined_waits_for_no_brokers_while_its_group_is_not_yet_published() -> None:
    """It says at once what it has given up. Another member that asks a moment before waits for a heartbeat interval."""
    world = World(new=Topic(topic_id(2), 2))
    world.images.take([record(2, "new", 2)])
    world.send(heartbeat("new"))
    world.pass_time(5.0)
    assert (world.answers, world.questions) == ([of_version(2, 2)], 1)
    world.send(heartbeat("new", epoch=1))
    assert (world.answers, world.questions) == (2 * [of_version(2, 2)], 1)
    world.topics["new"] = Topic(topic_id(2), 3)
    world.images.take([record(2, "new", 3, partitions=3)])
    world.send(heartbeat("new", epoch=1))
    world.pass_time(0.1)
    assert (len(world.answers), world.questions) == (3, 2), "a version that brokers have not been asked about"
    world.pass_time(5.0)
    world.send(heartbeat("new"))
    world.send(heartbeat("later", epoch=1))
    world.pass_time(0.1)
    asked = world.questions
    assert len(world.answers) == 5
    assert asked > 2, "who joins is told what is there now"
    world.topics["later"] = Topic(topic_id(4), 1)
    world.pass_time(5.0)
    world.send(heartbeat("later", epoch=1))
    world.pass_time(0.1)
    assert world.questions > asked, "and a topic that was not there is asked for"


def test_one_that_was_made_again_is_not_assigned_as_it_was() -> None:
    world = World(new=Topic(topic_id(3), 2))
    world.images.take([record(2, "new", 2)])
    world.send(heartbeat("new"))
    world.pass_time(0.1)
    assert world.answers == []
    world.images.take([record(3, "new", 3)])
    assert world.answers == [of_version(3, 3)]


def test_where_nobody_watches_the_request_goes_on_and_says_nothing_untrue() -> None:
    world = World(new=Topic(topic_id(2), 2))
    world.send(heartbeat("new", "nowhere"))
    world.pass_time(PUBLISHED_WITHIN_S + 0.1)
    assert world.answers == [of_version(1, "nowhere")]


def test_a_topic_that_is_gone_is_not_brought_along() -> None:
    world = World()
    world.send(heartbeat("old", "nowhere"))
    world.pass_time(0.1)
    assert world.answers == [of_version(1, "nowhere")]
    assert world.told == [(SHARD, TopicsSeen(cluster_id="cluster", topics=(SeenTopic("old"),)))]


def test_a_name_that_does_not_exist_costs_no_question_for_each_heartbeat() -> None:
    world = World()
    for _ in range(20):
        world.send(heartbeat("nowhere"))
    world.pass_time(0.1)
    assert (len(world.answers), world.questions) == (20, 2), "one question, and once more before it is believed"
    world.published = PublishedGroup(
        "g", "Stable", "consumer", is_consumer_group=True, subscribed_topics=frozenset(["nowhere"])
    )
    world.pass_time(60.0)
    for _ in range(20):
        world.send(heartbeat("nowhere", epoch=4))
        world.pass_time(5.0)
    assert (world.answers[20:], world.questions) == (20 * [UNSET], 2), "its group hears of it when it comes"


def test_without_watchers_that_can_be_told_it_is_as_it_was_published() -> None:
    world = World(shards=0, new=Topic(topic_id(2), 2))
    world.send(heartbeat("new"))
    assert (world.answers, world.questions) == ([of_version(1, "new")], 0)


def test_ids_are_told_only_with_the_cluster_that_has_them() -> None:
    """The watcher may watch another cluster than that of the gateway's brokers."""
    world = World(new=Topic(topic_id(2), 2))
    world.cluster_id = None
    world.joined.tell_of("g", {"new": Topic(topic_id(2), 2), "old": ABSENT})
    world.joined.tell_of_past("g", {"new": {topic_id(9)}})
    assert world.told == [(SHARD, TopicsSeen(cluster_id=None, topics=(SeenTopic("new"), SeenTopic("old"))))]
    world.cluster_id = "cluster"
    world.joined.tell_of_past("g", {"new": {topic_id(9)}})
    assert world.told[1:] == [(SHARD, TopicsSeen(cluster_id="cluster", topics=(SeenTopic("new", topic_id(9)),)))]
    world.joined.tell_of_past("g", {"new": {topic_id(9)}})
    assert len(world.told) == 2, "not again at once"
    world.pass_time(1.0)
    world.joined.tell_of_past("g", {"new": {topic_id(9)}})
    assert len(world.told) == 3


def test_that_a_topic_is_gone_is_told_although_it_was_told_that_it_is_there() -> None:
    world = World(new=Topic(topic_id(2), 2))
    world.joined.tell_of("g", {"new": Topic(topic_id(2), 2)})
    world.joined.tell_of_past("g", {"new": {topic_id(2)}})
    assert len(world.told) == 2
