"""TLS and SASL by the usual `kafka` settings, for every client that we have. (Spark's own: `test_cluster.py`.)"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from group_coordinator.coordinating.members.kafka_member import Member
from group_coordinator.coordinating.operations.group_log import GroupLog
from group_coordinator.coordinating.operations.topics_reader import TopicsReader
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.watching.group_metrics.group_table import GroupTable
from group_coordinator.watching.group_metrics.tally import Tally
from streaming.config import StreamingConfig
from streaming.ticker import Ticker
from streaming.topics import TopicError, ensure_topics
from tests.coordinating.operations.secure_broker import KINDS, PASSWORD, USER, Listener, secure_broker
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory, kafka_jars: Path) -> Iterator[dict[str, Listener]]:
    with secure_broker(tmp_path_factory.mktemp("certificates")) as started:
        yield started


def settings(listener: Listener, prefix: str) -> StreamingConfig:
    return StreamingConfig(
        bootstrap_servers=listener.bootstrap_servers,
        kafka=listener.kafka,
        topic_prefix=prefix,
        responses_partitions=1,
        offsets_partitions=1,
        tick_interval_ms=100,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_our_clients_comes_in(kind: str, listeners: dict[str, Listener], topic_prefix: str) -> None:
    config = settings(listeners[kind], topic_prefix)
    properties = config.client_properties
    report = ensure_topics(new_admin_client(properties), config.topic_settings)
    metrics = Metrics()
    tally = Tally(metrics, GroupTable(0, lambda group: 0, time.monotonic), lambda group: 0)
    reader = TopicsReader(properties, report.topics, (0,), tally, GroupLog(), for_metrics=True)
    reader.start(report.partitions)
    ticks: list[None] = []
    ticker = Ticker(
        report.topics.events, 0, properties,
        interval_ms=100, lead_ms=3_000, pause_ms=3_000, session_max_ms=60_000, ahead_max_ms=3_000,
        on_tick=lambda: ticks.append(None),
    )  # fmt: skip
    ticker.start()
    wait_until(lambda: ticker.clock_ms)  # in a log with records it would wait for a query to go on
    try:
        joining = Member(config.bootstrap_servers, "g", ["t"], prefix=topic_prefix, client_properties=properties)
        with joining as member:
            wait_until(lambda: (member.poll(0.05), ticks and {"JoinGroup", "tick"} <= apis(metrics))[1])
        wait_until(lambda: reader.end_offset(0))
        assert {value.value for value in reader.values() if value.metric is m.READER_LAG} == {0.0}
    finally:
        ticker.stop()
        reader.stop()
    assert any(message.key() == b"g" for message in read_topic(properties, report.topics.events))


def apis(metrics: Metrics) -> set[str]:
    """Of the events that were counted."""
    families = {family.name: family for family in metrics.registry.collect()}
    return {sample.labels.get("api", "") for sample in families[m.EVENTS.name.removesuffix("_total")].samples}


def test_a_wrong_password_is_refused_and_not_told(listeners: dict[str, Listener], topic_prefix: str) -> None:
    listener = listeners["SASL_PLAINTEXT"]
    properties = listener.kafka | {"sasl.jaas.config": listener.kafka["sasl.jaas.config"].replace("hush", "hash")}
    config = settings(listener._replace(kafka=properties), topic_prefix)
    with pytest.raises(TopicError) as refused:
        ensure_topics(
            new_admin_client(config.client_properties), config.topic_settings, timeout_s=3
        )
    assert f"refuses the login of '{USER}' by PLAIN" in str(refused.value)
    assert "hash" not in str(refused.value)


def test_the_commands_that_read_take_the_same_settings(
    listeners: dict[str, Listener], topic_prefix: str, tmp_path: Path
) -> None:
    config = settings(listeners["SASL_SSL"], topic_prefix)
    ensure_topics(new_admin_client(config.client_properties), config.topic_settings)
    kafka_flags = [f"--kafka={name}={value}" for name, value in config.kafka.items()]
    flags = ["--bootstrap-servers", config.bootstrap_servers, "--topic-prefix", topic_prefix, *kafka_flags]
    result = CliRunner().invoke(app, ["groups", *flags])
    assert result.exit_code == 0, result.output
    assert PASSWORD not in result.output


def test_what_is_printed_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush";'
    monkeypatch.setenv("GROUP_COORDINATOR_KAFKA", '{"ssl.key.password": "hush", "client.id": "me"}')
    flags = [
        "--spark=spark.hadoop.fs.s3a.secret.key=hush",
        "--spark=spark.ssl.keyStorePassword=hush",
        "--spark=spark.a.b=hush",
    ]
    for arguments in (flags, [*flags, f"--kafka=sasl.jaas.config={jaas}"]):
        result = CliRunner().invoke(app, ["run", "--dry-run", *arguments])
        assert result.exit_code == 0, result.output
        assert "hush" not in result.output
        assert "********" in result.output
        assert '"spark.a.b" = "********"' in result.output
    mistake = CliRunner().invoke(app, ["run", "--dry-run", "--kafka", "ssl.key.password:hush"])
    assert mistake.exit_code == 2
    assert "hush" not in mistake.output
    assert "--kafka ssl.key.password: write NAME=VALUE" in mistake.output
