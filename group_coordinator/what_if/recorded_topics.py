"""What a log tells of the cluster's topics, as those must be told who play it again.

The log of a consumer group has events that tell of topics. That of a classic group has none: what its leaders shared
out shows which topics there are and how many partitions each has; ids are made of the names.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import NAMESPACE_URL, uuid5

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

    def tell(self, time_ms: int, metadata: TopicMetadata) -> None:
        """Take what the log tells of topics at this time."""
        self._told.append((time_ms, metadata))

    def share_out(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions that a leader has shared out."""
        for topic, partition in partitions:
            self._shared_out[topic] = max(self._shared_out.get(topic, 0), partition + 1)

    def events(self, begins_ms: int) -> list[tuple[int, TopicMetadata]]:
        """Return when a coordinator is to be told what of topics. Those of which the log does not tell are told of
        when it begins."""
        told = {topic.name for _, metadata in self._told for topic in metadata.topics}
        untold = tuple([
            DescribedTopic(name=name, topic_id=str(uuid5(NAMESPACE_URL, name)), partitions=(_NO_RACKS,) * count)
            for name, count in sorted(self._shared_out.items())
            if name not in told
        ])
        made = [(begins_ms, TopicMetadata(version=0, topics=untold))] if untold else []
        return [*made, *self._told]


class KnownTopics:
    """The topics as they are at a moment of the play."""

    def __init__(self) -> None:
        self.partition_counts: dict[str, int] = {}
        self.version = 0

    def learn(self, metadata: TopicMetadata) -> None:
        """Take what is told of topics."""
        self.version = max(self.version, metadata.version)
        self.partition_counts.update({topic.name: len(topic.partitions) for topic in metadata.topics})
        for name in metadata.absent:
            self.partition_counts.pop(name, None)

    def matching(self, regex: str) -> tuple[str, ...]:
        """Return the topics that an expression matches; none where it is no expression."""
        try:
            return matching_topics(regex, self.partition_counts)
        except InvalidTopicRegex:
            return ()
