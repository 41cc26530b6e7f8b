"""The events that tell a group of the cluster's topics, of its expressions and of its own settings.

Source: `GroupMetadataManager.onMetadataUpdate` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.consumer.group import EXPIRED_DEADLINE, ConsumerGroup
from coordinator_state.consumer.regexes import regexes_resolved
from coordinator_state.errors import Refusal
from coordinator_state.refused import record_kept_out
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage
from schemas.error_codes import ErrorCode
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
    """Take in what is told of topics. An event that is older than what the group knows changes nothing. An event that
    would make the group exceed `group_topics_max_bytes` is kept out as a whole; a group that already exceeds it takes
    in what makes it no larger."""
    group, before = step.group, step.image
    image = before.learn(metadata)
    if image is before:
        return
    body = None if group is None else group.body
    most = step.config.group_topics_max_bytes
    if image.former:
        image = image.with_former(_held_ids(body) if type(body) is ConsumerGroup else ())
    if type(body) is ConsumerGroup:
        names = len(image.topics) + len(image.absent)
        has_many = names > _NAMES_MIN + 2 * (len(body.name_counts) + len(body.regex_topic_counts))
        # Of the topics that match its expressions a group is told before it hears which they are.
        has_many = has_many and body.regex_refresh_began_ms is None
        if has_many or image.size_bytes > most:
            image = image.only(_wanted_names(body, image, metadata).__contains__)
    elif group is not None:
        image = image.only(_names_in(metadata).__contains__)
    if image.size_bytes > max(most, before.size_bytes):
        image = image.with_former(())
    if image.size_bytes > max(most, before.size_bytes):
        detail = f"of topics the group would keep {image.size_bytes} bytes; group_topics_max_bytes is {most}"
        record_kept_out(step, "topic_metadata", Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, "topics_too_large", detail))
        return
    if group is None:
        step.topics = image
        return
    group.topics = image
    if type(body) is ConsumerGroup and any(map(body.is_subscribed_to_topic, _changed(before, image))):
        body.metadata_deadline = EXPIRED_DEADLINE


def _names_in(metadata: TopicMetadata) -> set[str]:
    return {topic.name for topic in metadata.topics} | set(metadata.absent)


def _held_ids(body: ConsumerGroup) -> set[str]:
    """Return the ids of topics of which members have partitions, or are to have some."""
    return {topic_id for target in body.targets.values() for topic_id, _ in target} | body.owners.keys()


def _wanted_names(body: ConsumerGroup, image: TopicsImage, news: TopicMetadata) -> set[str]:
    """Return the names that the group has a use for: others may have come with subscriptions that are over."""
    of_partitions = {image.names[topic_id] for topic_id in _held_ids(body) if topic_id in image.names}
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
    step.assignment_changed = True


