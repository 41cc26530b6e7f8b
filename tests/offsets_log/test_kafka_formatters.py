"""Kafka's own formatters and dump of `__consumer_offsets` read our topic, and read in it what we do."""

from __future__ import annotations

import pytest

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from tests.offsets_log.live_topic import every_kind_of_record, make_topics, outputs_of, write
from tests.offsets_log.readers import CONSUMER_TYPES, require_kafka_reads_as_we_do
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log


@pytest.mark.parametrize("value_version", [3, 4])
def test_kafkas_formatters_print_our_topic_as_we_read_it(
    kafka: EmbeddedKafka, topic_prefix: str, value_version: int
) -> None:
    config = make_topics(kafka.bootstrap_servers, topic_prefix)
    config = config.changed(offset_commit_value_version=value_version, **SETTINGS)
    topic = config.topics.offsets
    log = make_log(3, groups=5, mixed_groups=4, requests=500)
    written = [output for output in outputs_of(log, config) if output.topic == topic]
    written += every_kind_of_record(config)
    write(config, written)
    expected = require_kafka_reads_as_we_do(kafka, config)
    assert len(expected) == len(written)
    types = {(record["key"]["type"], record["value"] and record["value"]["version"]) for record in expected}
    consumer = {(key_type, version) for key_type in CONSUMER_TYPES for version in (0, None)} - {(4, 0)}
    assert types == {(1, 1), (1, value_version), (1, None), (2, 3), (2, None)} | consumer
