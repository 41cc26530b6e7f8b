"""The events that tell a group of the cluster's topics, of its expressions and of its own settings.

Source: `GroupMetadataManager.onMetadataUpdate` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.consumer.group import EXPIRED_DEADLINE, ConsumerGroup
from coordinator_state.consumer.regexes import regexes_resolved
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage, image_of
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata

_NOTHING = GroupConfiguration()


def learn(step: Step, fact: TopicMetadata | RegexesResolved | GroupConfiguration) -> None:
    """Take in an event. It has no answer; what follows from topics and settings is felt at the next heartbeat."""
    if isinstance(fact, TopicMetadata):
        if step.group is not None:
            learn_topics(step, fact)
    elif isinstance(fact, GroupConfiguration):
        _configure(step, fact)
    else:
        regexes_resolved(step, fact)


def learn_topics(step: Step, metadata: TopicMetadata) -> None:
    """Take in the cluster's topics. An older image, or the same, changes nothing."""
    group, before = step.group, step.image
    if metadata.version <= before.version:
        return
    image = image_of(metadata)
    if group is None:
        step.topics = image
        return
    group.topics = image
    body = group.body
    if type(body) is ConsumerGroup and any(body.is_subscribed_to_topic(name) for name in _changed(before, image)):
        body.metadata_deadline = EXPIRED_DEADLINE


def _changed(before: TopicsImage, after: TopicsImage) -> list[str]:
    """Return the names of topics that came, went or changed; one that came back under its name did so, too."""
    names = before.topics.keys() | after.topics.keys()
    return sorted(name for name in names if before.topics.get(name) != after.topics.get(name))


def _configure(step: Step, configuration: GroupConfiguration) -> None:
    """Replace the settings of the group's id; a timer that runs is not touched."""
    kept = None if configuration == _NOTHING else configuration
    if step.group is None:
        step.configuration = kept
    else:
        step.group.configuration = kept


