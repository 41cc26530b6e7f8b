"""The records of an events topic that say by which rules its groups are decided, written and found without Spark."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, Message

from coordinator_state.rule_changes import rules_in
from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.clients import new_producer
from group_coordinator.ground.kafka_topics.reader import TopicReader, offset_of
from schemas.rules_events import encode_rules
from streaming.config import StreamingConfig
from streaming.events_tail import TAIL_RECORDS
from streaming.topics import TopicError


def write_rules(config: StreamingConfig, shards: Iterable[int], rules: str) -> dict[int, int]:
    """Write to the logs of shards by which rules they are decided from here on; return the offsets. Raises TopicError
    where Kafka does not take one."""
    offsets: dict[int, int] = {}

    def delivered(error: KafkaError | None, record: Message) -> None:
        if error is None:
            offsets[record.partition() or 0] = offset_of(record)

    events, shards = config.topics.events, tuple(shards)
    producer = new_producer(config.client_properties, {"enable.idempotence": True})
    for shard in shards:
        producer.produce(events, value=encode_rules(rules), partition=shard, on_delivery=delivered)
    producer.flush()
    if missing := [shard for shard in shards if shard not in offsets]:
        raise TopicError([f"{events}, partition {shard}, takes no record." for shard in missing])
    return offsets


def last_rules(reader: TopicReader, topic: str, partition: int) -> tuple[int, str] | None:
    """Return the last change of the rules of a log, which is read backwards: its offset and their name. None if there
    is none. Raises KafkaException."""
    low, end = reader.bounds(topic, partition)
    count = TAIL_RECORDS
    while end > low:
        start = max(low, end - count)
        last = None
        for record in reader.read({(topic, partition): Bounds(start, end)}):
            if record.key() is None and (rules := rules_in(record.value())) is not None:
                last = offset_of(record), rules
        if last is not None:
            return last
        end, count = start, count * 2
    return None
