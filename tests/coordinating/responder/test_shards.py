"""Two shards, each with its query and its responder, in one coordinator: the outputs are those of the core. The groups
are of both protocols, and migrate."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.query_progress import WRITER_HEADER
from streaming.config import StreamingConfig
from tests.command_line.processes import STOP_TIMEOUT_S, command, session_of, wait_for
from tests.coordinating.gateway.answer_audit import audit_answers
from tests.crash.coordinators import append
from tests.crash.outputs import Outputs, count, events_of, expected_of, has_written, require_same, written_of
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log, resharded
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end
PIECES, TIMEOUT_S = 5, 120.0
END_OF_TIME_MS = 1 << 62


def flags(config: StreamingConfig) -> list[str]:
    values = {
        "bootstrap-servers": config.bootstrap_servers,
        "topic-prefix": config.topic_prefix,
        "checkpoint": config.checkpoint,
        "shards": config.shards,
        "responses-partitions": config.responses_partitions,
        "offsets-partitions": config.offsets_partitions,
        **{name.replace("_", "-"): getattr(config, name) for name in SETTINGS},
    }
    texts = (text for name, value in values.items() for text in (f"--{name}", str(value)))
    return ["--no-ticker", "--responder", *texts]


def wait_for_all_outputs(config: StreamingConfig) -> Outputs:
    """Those of the log as it is; returns them."""
    expected = expected_of(config, events_of(config))
    wait_until(lambda: has_written(config, count(expected)), TIMEOUT_S)
    return expected


def test_each_shard_has_a_responder_and_the_answers_are_the_querys(
    kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path
) -> None:
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix, checkpoint=str(tmp_path / "checkpoint"),
        shards=2, responses_partitions=8, offsets_partitions=4, ticker=False, **SETTINGS,
    )  # fmt: skip
    topics = config.topics
    log = resharded(make_log(5, groups=5, mixed_groups=4, requests=450), config.shards)
    size = len(log) // PIECES + 1
    with command(tmp_path, "run", *flags(config)) as process:
        wait_for(process, tmp_path, "A responder answers ahead of the query of each shard")
        for start in range(0, len(log), size):
            append(config, log[start : start + size])
            expected = wait_for_all_outputs(config)
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0
        assert session_of(process) == []
    require_same(written_of(config).outputs, expected)
    audit = audit_answers(config.bootstrap_servers, topics.responses, 0, END_OF_TIME_MS)
    assert (audit.problems, audit.waiting) == ([], 0)
    writers: defaultdict[str, set[str]] = defaultdict(set)
    for record in read_topic(config.client_properties, topics.responses):
        writers[headers_of(record).get(WRITER_HEADER, "query")].add(json.loads(record.value() or b"")["api"])
    assert writers["responder-0"] & writers["responder-1"] >= {"JoinGroup", "ConsumerGroupHeartbeat", "OffsetCommit"}
    history = [json.loads(record.value() or b"") for record in read_topic(config.client_properties, topics.history)]
    converted = {record["to_protocol"] for record in history if record["type"] == "group_converted"}
    assert converted == {"consumer", "classic"}
    assert not list(read_topic(config.client_properties, topics.differences))
