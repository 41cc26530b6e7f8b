"""The cluster's topics as a group knows them. The log tells: a group asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property

from msgspec import Struct, field

from coordinator_state.offsets import utf8_bytes
from schemas.group_metadata_events import TopicMetadata

_UNKNOWN = -1
_TOPIC_BYTES = 60
"""What a topic takes beside its name and its partitions: its id, as text, and numbers."""


class Topic(Struct, array_like=True, frozen=True, gc=False):
    """One topic that exists."""

    name: str
    topic_id: str
    racks: tuple[tuple[str, ...], ...]
    """For each partition the racks of its replicas."""
    version: int = _UNKNOWN
    """The last version of the cluster's topics that told of it."""

    @property
    def partition_count(self) -> int:
        return len(self.racks)

    @property
    def size_bytes(self) -> int:
        """About what it takes in a group's state."""
        racks = sum([1 + sum([1 + len(rack) for rack in partition]) for partition in self.racks])
        return _TOPIC_BYTES + utf8_bytes(self.name) + racks


class TopicsImage(Struct, array_like=True, frozen=True, dict=True):
    """What the group was told of topics. It never changes: a later one takes its place."""

    version: int = _UNKNOWN
    """The last one that told of any topic."""
    new_topics_version: int = _UNKNOWN
    """The last version in which the cluster got a topic."""
    topics: dict[str, Topic] = field(default_factory=dict)
    """By name."""
    absent: dict[str, int] = field(default_factory=dict)
    """Names of topics that do not exist -> the last version that said so."""
    former: dict[str, str] = field(default_factory=dict)
    """Topic id -> name, of topics that are gone and of which members still have partitions. History tells by it; for
    Kafka, and for every decision, such a topic has no name."""

    @cached_property
    def size_bytes(self) -> int:
        """About what it takes in a group's state."""
        return sum([topic.size_bytes for topic in self.topics.values()]) + sum(
            [_TOPIC_BYTES + utf8_bytes(name) for name in (*self.absent, *self.former.values())]
        )

    @cached_property
    def names(self) -> dict[str, str]:
        """Topic id -> name."""
        return {topic.topic_id: topic.name for topic in self.topics.values()}

    def name_of(self, topic_id: str) -> str:
        """Return the name that a topic has or had; the id itself if the group was never told."""
        return self.names.get(topic_id) or self.former.get(topic_id, topic_id)

    def by_id(self, topic_id: str) -> Topic | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def learn(self, news: TopicMetadata) -> TopicsImage:
        """Return the image with these news: of each topic the latest version counts. It is this one where nothing is
        new."""
        if not self._is_news(news):
            return self
        topics, absent, former = dict(self.topics), dict(self.absent), dict(self.former)
        for topic in news.topics:
            if news.version > self._version_of(topic.name):
                absent.pop(topic.name, None)
                if (before := topics.get(topic.name)) is not None:
                    former[before.topic_id] = before.name
                former.pop(topic.topic_id, None)
                topics[topic.name] = Topic(topic.name, topic.topic_id, topic.partitions, news.version)
        for name in news.absent:
            if news.version > self._version_of(name):
                if (before := topics.pop(name, None)) is not None:
                    former[before.topic_id] = name
                absent[name] = news.version
        new_topics_version = max(self.new_topics_version, news.new_topics_version)
        return TopicsImage(max(self.version, news.version), new_topics_version, topics, absent, former)

    def only(self, is_wanted: Callable[[str], bool]) -> TopicsImage:
        """Return the image without the topics whose names are not wanted."""
        return TopicsImage(
            self.version,
            self.new_topics_version,
            {name: topic for name, topic in self.topics.items() if is_wanted(name)},
            {name: version for name, version in self.absent.items() if is_wanted(name)},
            self.former,
        )

    def with_former(self, topic_ids: Collection[str]) -> TopicsImage:
        """Return the image with the names of these topics that are gone, and of no others."""
        if all(topic_id in topic_ids for topic_id in self.former):
            return self
        former = {topic_id: name for topic_id, name in self.former.items() if topic_id in topic_ids}
        return TopicsImage(self.version, self.new_topics_version, self.topics, self.absent, former)

    def _is_news(self, news: TopicMetadata) -> bool:
        version, version_of = news.version, self._version_of
        return (
            news.new_topics_version > self.new_topics_version
            or any(version > version_of(topic.name) for topic in news.topics)
            or any(version > version_of(name) for name in news.absent)
        )

    def _version_of(self, name: str) -> int:
        """Return the last version that told of a topic."""
        topic = self.topics.get(name)
        return self.absent.get(name, _UNKNOWN) if topic is None else topic.version


NO_TOPICS = TopicsImage()
