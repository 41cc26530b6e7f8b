"""What brokers say of a topic when it is described: its id, its partitions and their racks."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, ResourceType, TopicDescription

from group_coordinator.ground.kafka_topics.cluster_topics import Racks
from schemas.wire import topic_id_text

_TIMEOUT_S = 10.0
_RACKS_BYTES_MAX = 262_144
"""Of one topic, in a record; the racks of a larger one are left out. Kafka's own assignors do not look at racks."""
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


def topic_ids_of(admin: AdminClient, names: Iterable[str]) -> dict[str, str | None]:
    """Return the ids of those of these topics that are there; None of one whose brokers have no ids (before 2.8).
    Raises KafkaException and TimeoutError where they do not answer."""
    futures = admin.describe_topics(TopicCollection(list(names)), request_timeout=_TIMEOUT_S)
    topics = {name: described(future) for name, future in futures.items()}
    return {name: topic_id_of(topic) for name, topic in topics.items() if topic is not None}


def racks_of(description: TopicDescription) -> Racks:
    """Return the racks of each partition's replicas, in the order of partitions; a broker without a rack has an empty
    one."""
    in_order = sorted(description.partitions, key=lambda partition: partition.id)
    racks = tuple([tuple(sorted([node.rack or "" for node in partition.replicas])) for partition in in_order])
    size = sum([len(rack) + 3 for replicas in racks for rack in replicas])
    return racks if size <= _RACKS_BYTES_MAX else ((),) * len(racks)


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
    names = [name for name, topic in metadata.topics.items() if topic.error is None]
    found = {}
    futures = admin.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT_S) if names else {}
    for name, future in futures.items():
        try:
            topic_id = topic_id_of(future.result(_TIMEOUT_S + 1.0))
        except (KafkaException, TimeoutError) as problem:
            _log.debug("%s: its id is not known: %s", name, problem)
            continue
        if topic_id is not None:
            found[topic_id.replace("-", "")] = name
    return found


def partitions_now(admin: AdminClient, topic: str) -> int | None:
    """Return how many partitions a topic has; None while the brokers do not answer."""
    (future,) = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT_S).values()
    try:
        return len(future.result(_TIMEOUT_S + 1.0).partitions)
    except (KafkaException, TimeoutError) as problem:
        _log.debug("%s: its partitions cannot be counted: %s", topic, problem)
        return None
