"""Kafka's own formatters of `__consumer_offsets` read our topic, and read in it what we do."""

from __future__ import annotations

import pytest

from group_coordinator.embedded_kafka.broker import EmbeddedKafka
from tests.offsets_log.live_topic import every_kind_of_record, make_topics, outputs_of, write
from tests.offsets_log.readers import require_kafka_reads_as_we_do
from tests.streaming.random_log import make_log


@pytest.mark.parametrize("value_version", [3, 4])
def test_kafkas_formatters_print_our_topic_as_we_read_it(
    kafka: EmbeddedKafka, topic_prefix: str, value_version: int
) -> None:
    config = make_topics(kafka.bootstrap_servers, topic_prefix)
    config = config.changed(offset_commit_value_version=value_version)
    topic = config.topic_settings.topics.offsets
    written = [output for output in outputs_of(make_log(3, groups=5, requests=250), config) if output.topic == topic]
    written += every_kind_of_record(config)
    write(config, written)
    expected = require_kafka_reads_as_we_do(config)
    assert len(expected) == len(written)
    types = {(record["key"]["type"], record["value"] and record["value"]["version"]) for record in expected}
    assert types == {(1, 1), (1, value_version), (1, None), (2, 3), (2, None)}
