"""What a world's groups are told of its topics: events of their log, as a coordinator's watcher writes them."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_state import Coordinator
from coordinator_state.consumer.group import ConsumerGroup
from schemas.group_metadata_events import RegexesResolved
from schemas.topic_regexes import matching_topics


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
