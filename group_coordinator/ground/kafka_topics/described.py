"""What brokers say of topics when they are described, and of themselves."""

from __future__ import annotations

import logging
import struct
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, ResourceType, TopicDescription

from schemas.wire import topic_id_text

_TIMEOUT_S = 10.0
_UUID = struct.Struct(">qq")
_ABSENT = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError.TOPIC_EXCEPTION)
_log = logging.getLogger(__name__)


def topic_id_of(topic: TopicDescription) -> str | None:
    """Return a topic's id as our events spell it; None if it has none, as with brokers before 2.8."""
    uuid: Any = topic.topic_id  # its methods are missing in the library's types
    return topic_id_text(_UUID.pack(uuid.get_most_significant_bits(), uuid.get_least_significant_bits()))


def described(future: Future[TopicDescription]) -> TopicDescription | None:
    """Return what brokers say of a topic; None: there is none of its name, or can be none. Raises KafkaException and
    TimeoutError where they do not answer, or say nothing about it."""
    try:
        return future.result(_TIMEOUT_S + 1.0)
    except KafkaException as problem:
        if problem.args[0].code() not in _ABSENT:
            raise
        return None


class TopicLook(NamedTuple):
    """What brokers say of topics at one moment."""

    topics: dict[str, TopicDescription]
    absent: list[str]
    problems: dict[str, KafkaException | TimeoutError]
    """Why they say nothing of the others."""


def look_at(admin: AdminClient, names: Collection[str], timeout_s: float = _TIMEOUT_S) -> TopicLook:
    """Ask brokers for topics by their names. Raises KafkaException where they cannot even be asked."""
    look = TopicLook({}, [], {})
    futures = admin.describe_topics(TopicCollection([*names]), request_timeout=timeout_s) if names else {}
    for name, future in futures.items():
        try:
            topic = described(future)
        except (KafkaException, TimeoutError) as problem:
            _log.debug("topic %s cannot be described: %s", name, problem)
            look.problems[name] = problem
            continue
        if topic is None:
            look.absent.append(name)
        else:
            look.topics[name] = topic
    return look


def topic_ids_of(admin: AdminClient, names: Collection[str]) -> dict[str, str | None]:
    """Return the ids of those of these topics that are there; None of one whose brokers have no ids (before 2.8).
    Raises KafkaException and TimeoutError where they do not answer."""
    topics, _, problems = look_at(admin, names)
    for problem in problems.values():
        raise problem
    return {name: topic_id_of(topic) for name, topic in topics.items()}


def brokers_of(metadata: ClusterMetadata) -> dict[int, str]:
    """Return host and port of each broker, by its number."""
    return {number: f"{broker.host}:{broker.port}" for number, broker in sorted(metadata.brokers.items())}


def broker_values(admin: AdminClient, metadata: ClusterMetadata) -> dict[str, str]:
    """Return the settings of one broker by Kafka's names; none where it does not tell (rights, managed clusters)."""
    resource = ConfigResource(ResourceType.BROKER, str(min(metadata.brokers)))
    (future,) = admin.describe_configs([resource], request_timeout=_TIMEOUT_S).values()
    try:
        return {name: entry.value for name, entry in future.result(_TIMEOUT_S + 1.0).items() if entry.value is not None}
    except (KafkaException, TimeoutError) as problem:
        _log.debug("settings of broker %s: %s", resource.name, problem)
        return {}


def topic_names(admin: AdminClient, metadata: ClusterMetadata) -> dict[str, str]:
    """Return the names of topics by id, in hexadecimal digits. `metadata` lists the topics. Raises KafkaException."""
    topics = look_at(admin, [name for name, topic in metadata.topics.items() if topic.error is None]).topics
    ids = {name: topic_id_of(topic) for name, topic in topics.items()}
    return {topic_id.replace("-", ""): name for name, topic_id in ids.items() if topic_id is not None}


def partitions_now(admin: AdminClient, topic: str) -> int | None:
    """Return how many partitions a topic has; None while the brokers do not answer."""
    found = look_at(admin, [topic]).topics.get(topic)
    return None if found is None else len(found.partitions)
