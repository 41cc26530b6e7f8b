"""What a log tells of the cluster's topics, as those must be told who play it again.

The log of a consumer group has events that tell of topics. That of a classic group has none: what its leaders shared
out shows which topics there are and how many partitions each has; ids are made of the names.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import NAMESPACE_URL, uuid5

from coordinator_state.topics_image import NO_TOPICS
from schemas.consumer_protocol import TopicPartition
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from schemas.topic_regexes import InvalidTopicRegex, matching_topics

_NO_RACKS = ("",)
"""The racks of a partition's replicas, where nothing is known of them."""


class RecordedTopics:
    """The topics of a log."""

    def __init__(self) -> None:
        self._told: list[tuple[int, TopicMetadata]] = []
        self._shared_out: dict[str, int] = {}
        self._shared_since_ms: dict[str, int] = {}

    @property
    def are_told(self) -> bool:
        """The log itself tells of topics."""
        return bool(self._told)

    def tell(self, time_ms: int, metadata: TopicMetadata) -> None:
        """Take what the log tells of topics at this time."""
        self._told.append((time_ms, metadata))

    def share_out(self, time_ms: int, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions that a leader has shared out."""
        for topic, partition in partitions:
            self._shared_since_ms.setdefault(topic, time_ms)
            self._shared_out[topic] = max(self._shared_out.get(topic, 0), partition + 1)

    def events(self, begins_ms: int) -> list[tuple[int, TopicMetadata]]:
        """Return when a coordinator is to be told what of topics. Those that leaders shared out
        before the log told of them, if it ever did, are told of when it begins."""
        first_told = {
            topic.name: (time_ms, topic) for time_ms, metadata in reversed(self._told) for topic in metadata.topics
        }
        from_the_start = []
        for name, count in sorted(self._shared_out.items()):
            time_ms, topic = first_told.get(name, (None, _made(name, count)))
            if time_ms is None or self._shared_since_ms[name] < time_ms:
                from_the_start.append(topic)
        before = [(begins_ms, TopicMetadata(version=0, topics=tuple(from_the_start)))] if from_the_start else []
        return [*before, *self._told]


def _made(name: str, count: int) -> DescribedTopic:
    return DescribedTopic(name=name, topic_id=str(uuid5(NAMESPACE_URL, name)), partitions=(_NO_RACKS,) * count)


class KnownTopics:
    """The topics as they are at a moment of the play. Of each the latest version counts, as in a group."""

    def __init__(self) -> None:
        self._image = NO_TOPICS

    @property
    def version(self) -> int:
        """The last version that told of any topic."""
        return max(self._image.version, 0)

    @property
    def names(self) -> dict[str, str]:
        """The names of all topics that were told of, by their ids."""
        return self._image.former | self._image.names

    @property
    def metadata(self) -> TopicMetadata:
        """All of them, for a group that knows none yet."""
        topics = [
            DescribedTopic(name=topic.name, topic_id=topic.topic_id, partitions=topic.racks)
            for topic in self._image.topics.values()
        ]
        return TopicMetadata(version=self.version, topics=tuple(topics))

    @property
    def partition_counts(self) -> dict[str, int]:
        """How many partitions each has."""
        return {name: topic.partition_count for name, topic in self._image.topics.items()}

    def learn(self, metadata: TopicMetadata) -> None:
        """Take what is told of topics."""
        self._image = self._image.learn(metadata)

    def matching(self, regex: str) -> tuple[str, ...]:
        """Return the topics that an expression matches; none where it is no expression."""
        try:
            return matching_topics(regex, self._image.topics)
        except InvalidTopicRegex:
            return ()
