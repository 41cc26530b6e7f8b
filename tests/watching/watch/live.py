"""Clients of a real broker that is watched, and what an index knows of them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.index import Index


def consumer(kafka: EmbeddedKafka, group_id: str, **properties: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **properties,
        }
    )


def with_topic(kafka: EmbeddedKafka, admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(10):
        producer.produce(topic, b"x", partition=number % 2)
    producer.flush()


def owned(index: Index, group_id: str) -> int:
    """Return how many partitions have an owner."""
    facts = index.facts(group_id)
    return 0 if facts is None else facts.partitions


def committed(index: Index, group_id: str, topic: str, partition: int) -> int | None:
    facts = index.facts(group_id)
    if facts is None:
        return None
    committed_offset = facts.offsets.get((topic, partition))
    return None if committed_offset is None else committed_offset.offset
