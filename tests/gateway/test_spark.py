"""The real thing: consumers of three libraries in one group that a Spark query runs, a restart of Spark in the middle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.config import Address, GatewayConfig
from gateway.server import Gateway
from streaming.application import Application
from streaming.config import StreamingConfig
from streaming.embedded_kafka import EmbeddedKafka
from tests.gateway.clients.consumers import LIBRARIES, Consumers, share
from tests.gateway.conftest import PARTITIONS, produce_to
from tests.gateway.test_clients import reads, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.end_to_end

TIMEOUT_S = 120.0


@pytest.fixture
def config(kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path) -> StreamingConfig:
    return StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_prefix,
        checkpoint=str(tmp_path / "checkpoint"),
        group_initial_rebalance_delay_ms=0,
    )


@contextmanager
def coordinator(config: StreamingConfig, spark: SparkSession) -> Iterator[None]:
    """The app in a thread."""
    started, stop = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            Application(config, spark=spark, on_start=lambda report: started.set()).run(stop)
        except BaseException as failure:
            failures.append(failure)
        started.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(TIMEOUT_S)
    try:
        yield
    finally:
        stop.set()
        thread.join(TIMEOUT_S)
        assert failures == []


def test_a_group_of_three_libraries_lives_through_a_restart_of_spark(
    config: StreamingConfig,
    spark: SparkSession,
    topic: str,
    java_classes: Path,
    record_property: Callable[[str, object], None],
) -> None:
    gateway_config = GatewayConfig(
        listen=Address("127.0.0.1", 0), bootstrap_servers=config.bootstrap_servers, topic_prefix=config.topic_prefix
    )
    with coordinator(config, spark):
        gateway = Gateway(gateway_config)
        gateway.start()
        consumers = Consumers(gateway.bootstrap_servers, topic, java_classes)
        try:
            produce = produce_to(gateway.bootstrap_servers, topic)
            members = []
            for library in LIBRARIES:
                since = time.monotonic()
                members.append(consumers.start(library, "real", session_timeout_ms=45_000, heartbeat_interval_ms=3_000))
                share(members, PARTITIONS, timeout_s=TIMEOUT_S)
                record_property(f"{library} joined after s", round(time.monotonic() - since, 1))
            produce(0, 60)
            reads(60, *members)
            left = members.pop(1)
            left.close()
            share(members, PARTITIONS, timeout_s=TIMEOUT_S)
        except BaseException:
            consumers.end()
            gateway.stop()
            raise
    try:
        before = [each.rebalances for each in members]
        with coordinator(config, spark):
            produce(60, 120)
            reads(120, left, *members)
            for member in members:
                assert member.commit(timeout_s=60) == ["committed"]
            time.sleep(7)  # two heartbeats
            assert [each.rebalances for each in members] == before, "nobody noticed that the coordinator was away"
            assert set(values(left, *members)) == set(range(120))
            members[0].kill()
            newcomer = consumers.start("kafka-python", "real")
            newcomer.wait_until(lambda: len(newcomer.owned) > 0, TIMEOUT_S)
            for api, histogram in gateway.metrics.answer_ms.items():
                record_property(f"{api} answer ms, mean", round(histogram.sum / histogram.count))
            assert gateway.metrics.in_doubt == 0
    finally:
        consumers.end()
        gateway.stop()
