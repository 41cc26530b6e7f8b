"""A small checkpoint of a real query: made once for each state version, opened by every version that follows.

The query has handled the first half of a fixed log. Record times are those of the log, so that whoever opens the
checkpoint over the same log must write exactly what is missing.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.job import coordinate_stream, start_query
from streaming.session import open_session, prepare_session
from streaming.source import events_stream
from streaming.topics import TopicReport, ensure_topics
from tests.making_topics import delete_topics
from tests.streaming.random_log import make_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS = 1


def log() -> list[Record]:
    return make_log(31, groups=3, requests=120, renewals=False)


def first_half() -> list[Record]:
    return log()[:80]


def config_of(bootstrap_servers: str, checkpoint: Path) -> StreamingConfig:
    """The topics' names are part of the checkpoint."""
    return StreamingConfig(
        bootstrap_servers=bootstrap_servers, topic_prefix="kept-checkpoint", responses_partitions=8,
        offsets_partitions=2,
        checkpoint=str(checkpoint), ticker=False, shuffle_partitions=SHUFFLE_PARTITIONS, max_events_per_batch=60,
        group_initial_rebalance_delay_ms=1_000,
    )  # fmt: skip


def make_topics(config: StreamingConfig) -> TopicReport:
    """New ones, whatever there was. The events keep the times that they are produced with."""
    admin = new_admin_client(config.client_properties)
    delete_topics(admin, lambda name: name.startswith(f"{config.topic_prefix}."))
    report = ensure_topics(admin, config.topic_settings)
    senders_times = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=AlterConfigOpType.SET)
    events = ConfigResource(ResourceType.TOPIC, report.topics.events, incremental_configs=[senders_times])
    for future in admin.incremental_alter_configs([events]).values():
        future.result(30)
    return report


def append(config: StreamingConfig, records: list[Record]) -> None:
    producer = Producer({"enable.idempotence": True, "log_level": 0, **config.client_properties})
    topic = config.topics.events
    for record in records:
        producer.produce(topic, key=record.key, value=record.value, partition=0, timestamp=record.timestamp_ms or 0)
    assert producer.flush(30) == 0


def run_to_the_end(spark: SparkSession, config: StreamingConfig, report: TopicReport) -> None:
    """Handle what the events topic has."""
    prepare_session(spark, config)
    bound_ms = config.group.tick_ahead_bound_ms
    events = events_stream(
        spark, report.topics.events, 0, config.source_options, config.max_events_per_batch, tick_ahead_max_ms=bound_ms
    )
    outputs = coordinate_stream(events, config.operator_config(report.partitions, 0))
    query = start_query(outputs, "kept", config.checkpoint, config.sink_options, available_now=True)
    query.awaitTermination()


def make(archive: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as directory:
        config = config_of(kafka.bootstrap_servers, Path(directory) / "checkpoint")
        report = make_topics(config)
        append(config, first_half())
        spark = open_session(config)
        run_to_the_end(spark, config, report)
        spark.stop()
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(config.checkpoint, arcname="checkpoint")
