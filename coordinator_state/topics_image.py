"""The cluster's topics as a group knows them. The log tells: a group asks nobody."""

from __future__ import annotations

from collections.abc import Callable
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

    @cached_property
    def size_bytes(self) -> int:
        """About what it takes in a group's state."""
        return sum([topic.size_bytes for topic in self.topics.values()]) + sum(
            [_TOPIC_BYTES + utf8_bytes(name) for name in self.absent]
        )

    @cached_property
    def names(self) -> dict[str, str]:
        """Topic id -> name."""
        return {topic.topic_id: topic.name for topic in self.topics.values()}

    def by_id(self, topic_id: str) -> Topic | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def learn(self, news: TopicMetadata) -> TopicsImage:
        """Return the image with these news: of each topic the latest version counts. It is this one where nothing is
        new."""
        if not self._is_news(news):
            return self
        topics, absent = dict(self.topics), dict(self.absent)
        for topic in news.topics:
            if news.version > self._version_of(topic.name):
                absent.pop(topic.name, None)
                topics[topic.name] = Topic(topic.name, topic.topic_id, topic.partitions, news.version)
        for name in news.absent:
            if news.version > self._version_of(name):
                topics.pop(name, None)
                absent[name] = news.version
        return TopicsImage(
            max(self.version, news.version), max(self.new_topics_version, news.new_topics_version), topics, absent
        )

    def only(self, is_wanted: Callable[[str], bool]) -> TopicsImage:
        """Return the image without the topics whose names are not wanted."""
        return TopicsImage(
            self.version,
            self.new_topics_version,
            {name: topic for name, topic in self.topics.items() if is_wanted(name)},
            {name: version for name, version in self.absent.items() if is_wanted(name)},
        )

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
