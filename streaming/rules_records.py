"""The records of an events topic that say by which rules its groups are decided, written and found without Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from confluent_kafka import KafkaError, Message
from pyspark.sql import SparkSession

from coordinator_state import RuleChange
from coordinator_state.kafka_versions import OF_OLD_LOGS
from coordinator_state.rule_changes import rules_in
from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.clients import new_producer
from group_coordinator.ground.kafka_topics.reader import TopicReader, offset_of
from schemas.rules_events import encode_rules
from schemas.ticks import NO_CLOCK
from streaming.checkpoints import Directory, checkpoint_of
from streaming.config import StreamingConfig
from streaming.events_tail import find_clock_position, open_reader, read_backwards
from streaming.log_rules import RulesScan
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
    for records in read_backwards(reader, (topic, partition), reader.bounds(topic, partition)):
        last = None
        for record in records:
            if record.key() is None and (rules := rules_in(record.value())) is not None:
                last = offset_of(record), rules
        if last is not None:
            return last
    return None


_log = logging.getLogger(__name__)


def begin_new_logs(config: StreamingConfig) -> None:
    """Give rules to each shard's log that no coordinator has ever ticked to: it begins now. A log that somebody else
    ticks to brings its own. Raises TopicError and KafkaException."""
    if not config.ticker:
        return
    for shard in config.shards_here:
        if _is_new(config, shard):
            write_rules(config, [shard], config.kafka_rules)


def _is_new(config: StreamingConfig, shard: int) -> bool:
    events = config.topics.events
    with open_reader(config.client_properties) as reader:
        if reader.bounds_when_led(events, shard).end == 0:
            return True
        position = find_clock_position(reader, events, shard, config.group.tick_ahead_bound_ms)
    return position is not None and not position.has_ticks and position.is_whole


def rules_of_shard(spark: SparkSession, config: StreamingConfig, shard: int) -> tuple[RuleChange, ...]:
    """Return the changes of the rules that a shard's query begins with. Where there is no batch yet, the beginning of
    the log is looked at. Raises CheckpointError and KafkaException."""
    directory = Directory(spark, checkpoint_of(config, shard))
    changes = directory.rule_changes() if directory.has_batches() else _look_up(directory, config, shard)
    _log.debug("Shard %d is decided by the rules of Kafka %s.", shard, changes[-1].rules if changes else OF_OLD_LOGS)
    return changes


def look_up_changes(spark: SparkSession, config: StreamingConfig, shard: int) -> tuple[RuleChange, ...]:
    """Look up the changes in the batch that a shard's query has begun and could not work, and note them. Raises
    CheckpointError and KafkaException."""
    return _look_up(Directory(spark, checkpoint_of(config, shard)), config, shard)


def _look_up(directory: Directory, config: StreamingConfig, shard: int) -> tuple[RuleChange, ...]:
    events = config.topics.events
    batch = directory.begun_batch(events, shard)
    scan = RulesScan(config.group.tick_ahead_bound_ms, NO_CLOCK if batch is None else batch.clock_ms)
    with open_reader(config.client_properties) as reader:
        low, high = reader.bounds_when_led(events, shard)
        begin = low if batch is None or batch.start_offset is None else batch.start_offset
        end = min(high, low + config.max_events_per_batch) if batch is None else batch.end_offset
        for record in reader.read({(events, shard): Bounds(begin, end)}):
            if record.key() is None:
                scan.take(offset_of(record), record.value(), record.timestamp()[1])
    noted = () if batch is None else directory.rule_changes()
    known = {change.offset for change in noted}
    changes = (*noted, *(change for change in scan.changes if change.offset not in known))
    directory.note_rule_changes(changes)
    return changes
