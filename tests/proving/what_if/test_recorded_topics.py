"""The topics of a log as they are at a moment of a play."""

from __future__ import annotations

from itertools import permutations

import pytest

from coordinator_state.topics_image import NO_TOPICS
from group_coordinator.proving.what_if.recorded_topics import KnownTopics
from schemas.group_metadata_events import DescribedTopic, TopicMetadata


def told(version: int, partitions: int | None) -> TopicMetadata:
    """That there is a topic `t` with so many partitions; None: that there is none."""
    if partitions is None:
        return TopicMetadata(version=version, topics=(), absent=("t",))
    topic = DescribedTopic(name="t", topic_id=f"00000000-0000-0000-0000-{version:012}", partitions=((),) * partitions)
    return TopicMetadata(version=version, topics=(topic,))


@pytest.mark.parametrize("order", permutations([told(1, 2), told(2, None), told(3, 4)]))
def test_of_each_topic_the_latest_version_counts_as_in_the_group(order: tuple[TopicMetadata, ...]) -> None:
    """A request may bring along what its gateway knew, after the watcher has told of something later."""
    known, image = KnownTopics(), NO_TOPICS
    for metadata in order:
        known.learn(metadata)
        image = image.learn(metadata)
        assert known.partition_counts == {name: topic.partition_count for name, topic in image.topics.items()}
        assert set(known.matching("t")) == set(image.topics)
    assert known.partition_counts == {"t": 4}
