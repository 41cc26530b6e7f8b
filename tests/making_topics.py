"""Topics for tests: there is one when its partitions are led, some moments after a broker has said that it is made."""

from __future__ import annotations

import time

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

TIMEOUT_S, ATTEMPT_S = 60.0, 3.0


def make_topic(admin: AdminClient, name: str, partitions: int = 1) -> None:
    """Make a topic and wait for it. Raises KafkaException."""
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(TIMEOUT_S)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    places = {TopicPartition(name, number): latest for number in range(partitions)}
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            # The brokers are asked anew: what librdkafka has kept of a topic it may believe for long.
            admin.list_topics(name, timeout=ATTEMPT_S)
            for found in admin.list_offsets(places, request_timeout=ATTEMPT_S).values():
                found.result(TIMEOUT_S)
            return
        except KafkaException:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
