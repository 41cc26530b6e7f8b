"""The commands: `run --responder` answers, `responder` by itself goes on while the coordinator is away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from group_coordinator.ground.system.processor_time import SLICE_NS, slice_ns
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from schemas.messages import HeartbeatResponse
from schemas.query_progress import WRITER_HEADER
from streaming.config import StreamingConfig
from tests.command_line.processes import START_TIMEOUT_S, STOP_TIMEOUT_S, command, session_of, wait_for
from tests.crash.processes import responder_of
from tests.ground.system.short_slices import slices_are_known
from tests.making_topics import delete_topics
from tests.streaming.running_app import GROUP, HEARTBEAT, TIMEOUT_S, Client
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end
SESSION_TIMEOUT_MS = 300_000


def flags(config: StreamingConfig, *more: str) -> list[str]:
    values = {
        "bootstrap-servers": config.bootstrap_servers,
        "topic-prefix": config.topic_prefix,
        "checkpoint": config.checkpoint,
        "responses-partitions": config.responses_partitions,
        "offsets-partitions": config.offsets_partitions,
        "group-initial-rebalance-delay-ms": config.group_initial_rebalance_delay_ms,
    }
    return [*(text for name, value in values.items() for text in (f"--{name}", str(value))), *more]


def heartbeat_by(client: Client, config: StreamingConfig) -> str:
    """Send a heartbeat; return who has answered first."""
    request_id = client.send("Heartbeat", 4, HEARTBEAT)
    assert client.answer(request_id) == HeartbeatResponse()
    records = read_topic(config.client_properties, config.topics.responses)
    headers = next(headers_of(record) for record in records if record.key() == request_id.encode())
    return headers.get(WRITER_HEADER, "query")


def health(port: int) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=10) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as failing:  # the query has not ended a batch yet
        return dict(json.load(failing))


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    assert process.wait(STOP_TIMEOUT_S) == 0
    assert session_of(process) == []


def threads_of(process: int) -> list[int]:
    """Its first thread and those of its Kafka clients; libraries have others, which begin when they are imported."""
    threads = Path(f"/proc/{process}/task").iterdir()
    clients = [int(thread.name) for thread in threads if (thread / "comm").read_text().startswith("rdk:")]
    assert clients
    return [process, *clients]


def test_responders_beside_the_coordinator_and_by_themselves(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, tmp_path: Path
) -> None:
    """At the end the log is deleted: the coordinator ends, and names the remedy."""
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_prefix,
        responses_partitions=2,
        offsets_partitions=2,
        group_initial_rebalance_delay_ms=0,
        checkpoint=str(tmp_path / "checkpoint"),
    )
    here, apart = tmp_path / "here", tmp_path / "apart"
    here.mkdir()
    apart.mkdir()
    port = free_port()
    with command(here, "run", *flags(config, "--responder", f"--metrics-port={port}")) as coordinator:
        wait_for(coordinator, here, "A responder answers ahead of the query of each shard")
        client = Client(config)
        client.join(SESSION_TIMEOUT_MS)
        wait_until(lambda: heartbeat_by(client, config) == "responder-0", TIMEOUT_S, interval_s=0.5)
        wait_until(lambda: health(port) == {"status": "ok", "reasons": [], "responders": {"0": "answering"}}, TIMEOUT_S)
        own = responder_of(coordinator.pid)
        assert own is not None
        if slices_are_known():
            assert {slice_ns(thread_id) for thread_id in threads_of(own)} == {SLICE_NS}
            assert slice_ns(coordinator.pid) != SLICE_NS
        os.kill(own, signal.SIGKILL)
        wait_until(lambda: health(port)["status"] == "degraded", TIMEOUT_S)
        wait_until(lambda: health(port)["status"] == "ok", TIMEOUT_S)
        with command(apart, "responder", *flags(config)) as responder:
            wait_for(responder, apart, "shard 0: 1 group, ")
            end(coordinator)
            # Nobody but the responder is there.
            assert heartbeat_by(client, config) == "responder-0"
            end(responder)
    with command(here, "run", *flags(config, "--responders")) as coordinator:
        wait_for(coordinator, here, "The coordinator runs")
        assert heartbeat_by(client, config) == "query"
        require_the_querys_answers(config)
        client.write(GROUP.encode(), b"not JSON")
        delete_topics(admin, lambda name: name == config.topics.events)
        assert coordinator.wait(START_TIMEOUT_S) == 1
    error = (here / "err").read_text()
    assert config.topics.events in error.splitlines()[-1]
    assert "start under a new --topic-prefix" in error.splitlines()[-1]
    assert "Traceback" not in error
    assert session_of(coordinator) == []


def require_the_querys_answers(config: StreamingConfig) -> None:
    """The query has decided what was answered while it was away, and all its answers are the same bytes."""
    by_writer: dict[str, dict[bytes, bytes]] = {}
    for record in read_topic(config.client_properties, config.topics.responses):
        writer = headers_of(record).get(WRITER_HEADER, "query")
        by_writer.setdefault(writer, {})[bytes(record.key() or b"")] = record.value() or b""
    assert by_writer["responder-0"].items() <= by_writer["query"].items()
    assert len(by_writer["responder-0"]) >= 2
    assert not list(read_topic(config.client_properties, config.topics.differences))
