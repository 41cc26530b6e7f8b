"""The topic of the log of transactions: one partition for each shard, made where it is absent."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from group_coordinator.ground.errors import ExpectedError
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.errors import NoSuchTopicError
from group_coordinator.ground.kafka_topics.reader import partition_count

_RETENTION_MS = 7 * 24 * 3_600_000
_MESSAGE_BYTES_MAX = 1_048_588
_REPLICAS = 3
_TIMEOUT_S, _LOOK_INTERVAL_S = 30.0, 0.1


class TransactionLogError(ExpectedError):
    """The log of transactions cannot be used. The message is a sentence."""


def topic_name(topic_prefix: str) -> str:
    """Return the name of the topic beside the coordinator's others."""
    return f"{topic_prefix}.transactions"


def ensure_log_topic(properties: Mapping[str, str], topic: str, shards: int) -> None:
    """Make the topic where it is absent, and check its partitions. Raises TransactionLogError.

    It keeps records for a week: longer than a relay is away, and than a transaction lasts.
    """
    admin = new_admin_client(properties)
    try:
        metadata = admin.list_topics(timeout=_TIMEOUT_S)
        if topic not in metadata.topics:
            config = {
                "cleanup.policy": "delete", "retention.ms": str(_RETENTION_MS), "compression.type": "uncompressed",
                "max.message.bytes": str(_MESSAGE_BYTES_MAX), "message.timestamp.type": "LogAppendTime",
            }  # fmt: skip
            wanted = NewTopic(topic, shards, min(_REPLICAS, len(metadata.brokers)), config=config)
            admin.create_topics([wanted], operation_timeout=_TIMEOUT_S)[topic].result()
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise TransactionLogError(
                f"{topic} cannot be made at {properties['bootstrap.servers']}: {problem.args[0].str().rstrip('.')}. "
                f"Make it yourself with {shards} partitions, cleanup.policy=delete and "
                "message.timestamp.type=LogAppendTime."
            ) from problem
    give_up_at_s = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            return insist_on_partitions(properties, topic, shards)
        except NoSuchTopicError:
            if time.monotonic() > give_up_at_s:
                raise
            time.sleep(_LOOK_INTERVAL_S)  # not all brokers know it yet


def insist_on_partitions(properties: Mapping[str, str], topic: str, shards: int) -> None:
    """Raises TransactionLogError where the topic is not there with as many partitions as there are shards, and
    TopicReadError."""
    partitions = partition_count(properties, topic)
    if partitions != shards:
        raise TransactionLogError(
            f"{topic} has {partitions} partitions, but there are {shards} shards: a group's transactions lie in the "
            "partition with the number of its shard."
        )
