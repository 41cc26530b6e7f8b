"""The query away for a minute, which is some sessions, while a responder of its own answers: no client notices, and
when it is back it gives the same answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.history import RebalanceStarted, decode_history
from streaming.config import StreamingConfig
from tests.coordinating.gateway.answer_audit import wait_for_the_query
from tests.coordinating.gateway.clients.consumers import Library, consumers_of, share
from tests.coordinating.gateway.clients.reading import reads
from tests.coordinating.gateway.commands import Command
from tests.coordinating.gateway.conftest import PARTITIONS, produce_to

pytestmark = [pytest.mark.end_to_end, pytest.mark.spark]

SESSION_S, AWAY_S = 20, 60
MEMBERS: tuple[Library, ...] = ("librdkafka", "java", "librdkafka")
SETTINGS = {
    "session_timeout_ms": SESSION_S * 1_000, "heartbeat_interval_ms": 3_000, "enable_auto_commit": False
}  # fmt: skip
TIMEOUT_S = 120.0


@pytest.fixture
def config(kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path) -> StreamingConfig:
    return StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_prefix,
        checkpoint=str(tmp_path / "checkpoint"),
        group_initial_rebalance_delay_ms=0,
    )


@pytest.fixture
def coordinator(config: StreamingConfig, tmp_path: Path) -> Iterator[Command]:
    """The coordinator, with a responder that is a process of its own."""
    settings = (
        "--bootstrap-servers", config.bootstrap_servers, "--topic-prefix", config.topic_prefix, "--checkpoint",
        config.checkpoint, "--group-initial-rebalance-delay-ms", "0", "--spark", "spark.driver.memory=512m",
    )  # fmt: skip
    apart = ("--responders", "--trigger-interval-ms", "2000")
    coordinator = Command(tmp_path / "run.log", "The coordinator runs", "run", *settings, *apart)
    responder = Command(tmp_path / "responder.log", " at offset ", "responder", *settings)
    with ExitStack() as stack:
        for command in (coordinator, responder):
            stack.callback(command.kill)
            command.start()
        yield coordinator


def rebalances_of(config: StreamingConfig) -> int:
    history = read_topic(config.client_properties, config.topics.history)
    return sum(isinstance(decode_history(record.value() or b""), RebalanceStarted) for record in history)


def test_nobody_notices_that_the_query_was_away(
    config: StreamingConfig, coordinator: Command, topic: str, java_classes: Path
) -> None:
    gateway_config = GatewaySettings(
        listen="127.0.0.1:0", bootstrap_servers=config.bootstrap_servers, topic_prefix=config.topic_prefix
    )
    topics = config.topics
    with (
        Gateway(gateway_config) as gateway,
        consumers_of(gateway.bootstrap_servers, topic, java_classes) as consumers,
    ):
        produce = produce_to(gateway.bootstrap_servers, topic)
        members = [consumers.start(library, "readers", None, **SETTINGS) for library in MEMBERS]
        share(members, PARTITIONS, timeout_s=TIMEOUT_S)
        produce(0, 30)
        reads(30, *members)
        time.sleep(5)  # so that the query has decided what came of the joins
        events, rebalances = [len(member.events) for member in members], rebalances_of(config)
        heartbeats, doubts = gateway.metrics.answer_ms["Heartbeat"].count, gateway.metrics.in_doubt

        gone_ms = int(time.time() * 1_000)
        coordinator.kill()
        produce(30, 60)
        reads(60, *members)
        for member in members:
            assert member.commit() == ["committed"]
        time.sleep(AWAY_S)
        assert gateway.metrics.answer_ms["Heartbeat"].count > heartbeats + AWAY_S // 4 * len(members)
        produce(60, 90)
        reads(90, *members)
        for member in members:
            assert member.commit() == ["committed"]
        back_ms = int(time.time() * 1_000)
        coordinator.start()

        audit = wait_for_the_query(config.bootstrap_servers, topics.responses, gone_ms, back_ms)
        assert (audit.problems, dict(audit.errors), gateway.metrics.in_doubt) == ([], {}, doubts)
        assert audit.by_responders > AWAY_S // 4 * len(members)
        assert gateway.metrics.answers_handed_over > audit.by_responders // 2
        assert gateway.metrics.answers_not_recorded == 0
        time.sleep(2 * SESSION_S)  # nobody is expired for what was before
        said = [member.events[count:] for member, count in zip(members, events, strict=True)]
        assert [words for each in said for _, words in each] == [["committed"]] * 2 * len(members)
        assert rebalances_of(config) == rebalances
        assert not list(read_topic(config.client_properties, topics.differences))
