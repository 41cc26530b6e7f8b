"""What a world's groups are told of its topics: events of their log, as a coordinator's watcher writes them."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import NAMESPACE_DNS, uuid5

from coordinator_state import Coordinator
from coordinator_state.consumer.group import ConsumerGroup
from schemas.group_metadata_events import DescribedTopic, RegexesResolved, TopicMetadata
from schemas.topic_regexes import matching_topics


def topic_id(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def names_of(topic_ids: tuple[str, ...], topics: Mapping[str, int]) -> dict[str, str]:
    """The names of these topics, of those that exist."""
    names = {topic_id(name): name for name in topics}
    return {key: names[key] for key in topic_ids if key in names}


def topic_metadata(topics: Mapping[str, int], version: int) -> TopicMetadata:
    described = tuple(
        DescribedTopic(name=name, topic_id=topic_id(name), partitions=((),) * count) for name, count in topics.items()
    )
    return TopicMetadata(version=version, topics=described, new_topics_version=version)


def answers_to_expressions(
    coordinator: Coordinator, topics: Mapping[str, int], version: int
) -> dict[str, RegexesResolved]:
    """By group, the topics of its expressions, for groups that wait for them."""
    waiting = {
        group_id: group.body
        for group_id, group in coordinator.groups.items()
        if isinstance(group.body, ConsumerGroup) and group.body.regex_refresh_began_ms is not None
    }
    return {
        group_id: RegexesResolved(
            version=version,
            resolved={
                member.subscribed_topic_regex: matching_topics(member.subscribed_topic_regex, topics)
                for member in body.members.values()
                if member.subscribed_topic_regex
            },
            began_ms=body.regex_refresh_began_ms or 0,
        )
        for group_id, body in waiting.items()
    }
