"""The events that tell a group of the cluster's topics, of its expressions and of its own settings.

Source: `GroupMetadataManager.onMetadataUpdate` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.consumer.group import EXPIRED_DEADLINE, ConsumerGroup
from coordinator_state.consumer.regexes import regexes_resolved
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata

_NAMES_MIN = 64
"""So many names are kept without a look at whether the group still has a use for them."""
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
    """Take in what is told of topics. What is older than what the group knows changes nothing."""
    group, before = step.group, step.image
    image = before.learn(metadata)
    if image is before:
        return
    if group is None:
        step.topics = image
        return
    body = group.body
    if type(body) is not ConsumerGroup:
        group.topics = image.only(_names_in(metadata).__contains__)
        return
    if len(image.topics) + len(image.absent) > _NAMES_MIN + 2 * (len(body.name_counts) + len(body.regex_topic_counts)):
        image = image.only(_wanted_names(body, image, metadata).__contains__)
    group.topics = image
    if any(body.is_subscribed_to_topic(name) for name in _changed(before, image)):
        body.metadata_deadline = EXPIRED_DEADLINE


def _names_in(metadata: TopicMetadata) -> set[str]:
    return {topic.name for topic in metadata.topics} | set(metadata.absent)


def _wanted_names(body: ConsumerGroup, image: TopicsImage, news: TopicMetadata) -> set[str]:
    """Return the names that the group has a use for: others may have come with subscriptions that are over."""
    targets = {topic_id for target in body.targets.values() for topic_id, _ in target}
    of_partitions = {image.names[topic_id] for topic_id in targets | body.owners.keys() if topic_id in image.names}
    return body.subscribed_topics | of_partitions | _names_in(news)


def _changed(before: TopicsImage, after: TopicsImage) -> list[str]:
    """Return the names of topics that came, went or changed; one that came back under its name did so, too."""
    names = before.topics.keys() | after.topics.keys()
    return sorted(name for name in names if _content(before, name) != _content(after, name))


def _content(image: TopicsImage, name: str) -> object:
    topic = image.topics.get(name)
    return None if topic is None else (topic.topic_id, topic.racks)


def _configure(step: Step, configuration: GroupConfiguration) -> None:
    """Replace the settings of the group's id, and publish them, with the group if there is one. A timer that runs is
    not touched."""
    kept = None if configuration == _NOTHING else configuration
    if step.group is None:
        step.configuration = kept
    else:
        step.group.configuration = kept
    step.note_assignment_change()


