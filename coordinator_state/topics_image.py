"""The cluster's topics as a group knows them. The log tells: a group asks nobody."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct, field

from schemas.group_metadata_events import TopicMetadata


class Topic(Struct, array_like=True, frozen=True, gc=False):
    """One topic that exists."""

    name: str
    topic_id: str
    racks: tuple[tuple[str, ...], ...]
    """For each partition the racks of its replicas."""

    @property
    def partition_count(self) -> int:
        return len(self.racks)


class TopicsImage(Struct, array_like=True, frozen=True, dict=True):
    """All topics that the group may see. It never changes: a later one takes its place."""

    version: int = -1
    new_topics_version: int = -1
    """The last version in which the cluster got a topic."""
    topics: dict[str, Topic] = field(default_factory=dict)
    """By name."""

    @cached_property
    def names(self) -> dict[str, str]:
        """Topic id -> name."""
        return {topic.topic_id: topic.name for topic in self.topics.values()}

    def by_id(self, topic_id: str) -> Topic | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]


NO_TOPICS = TopicsImage()


def image_of(metadata: TopicMetadata) -> TopicsImage:
    """Return the image that an event tells of."""
    topics = {topic.name: Topic(topic.name, topic.topic_id, topic.partitions) for topic in metadata.topics}
    return TopicsImage(metadata.version, metadata.new_topics_version, topics)
