"""Coordinators over topics that a test fills."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from schemas.records_file import Record
from streaming.application import Application
from streaming.config import StreamingConfig
from streaming.topics import TopicReport, ensure_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TIMEOUT_S = 90.0


def make_topics(config: StreamingConfig) -> TopicReport:
    return ensure_topics(new_admin_client(config.client_properties), config.topic_settings)


def append(config: StreamingConfig, records: list[Record]) -> None:
    producer = Producer({"enable.idempotence": True, "log_level": 0, **config.client_properties})
    topic = config.topics.events
    for record in records:
        producer.produce(topic, key=record.key, value=record.value, partition=record.partition or 0)
    assert producer.flush(30) == 0


@contextmanager
def running(config: StreamingConfig, spark: SparkSession, **options: Any) -> Iterator[list[BaseException]]:
    """The app in a thread; what it raised."""
    stop, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            Application(config, spark=spark, **options).run(stop)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join(TIMEOUT_S)
    assert not failures
