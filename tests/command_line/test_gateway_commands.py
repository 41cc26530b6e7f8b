"""`gateway`, `tap` and `run --gateway` as processes:
they say when they are ready, serve clients, end clean, fail with a cause."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import NewTopic

from group_coordinator.coordinating.gateway.config import GatewaySettings, TapSettings
from group_coordinator.coordinating.operations.gateway_metrics import HANDED_OVER
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.settings.loading import ConfigError
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from schemas.settings import settings_of
from streaming.topics import TopicSettings, ensure_topics
from tests.command_line.calls import call, text_of
from tests.command_line.processes import STOP_TIMEOUT_S, command, session_of, wait_for
from tests.waiting import wait_until

API_VERSIONS_REQUEST = bytes.fromhex("0000000a" "0012" "0000" "00000001" "ffff")
"""Version 0: its length, the API's key and version, a correlation id, no client id."""


def consume(bootstrap_servers: str, group: str, topic: str, count: int) -> list[str]:
    """Make a topic, produce, and read the records by a group; then leave it."""
    admin = new_admin_client({"bootstrap.servers": bootstrap_servers})  # held: without it there is no answer
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": "0"})
    for number in range(count):
        producer.produce(topic, str(number))
    assert producer.flush(20) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "client.id": "one",
            "log_level": "0",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    values: list[str] = []
    for _ in range(600):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
        if len(values) == count:
            break
    consumer.close()
    return values


# --------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(("name", "settings"), [("gateway", GatewaySettings), ("tap", TapSettings)])
def test_a_flag_with_help_for_every_setting(name: str, settings: type[GatewaySettings | TapSettings]) -> None:
    text = re.sub(r"\s+", " ", text_of(call(name, "--help")))
    assert f"group-coordinator {name} " in text
    for setting_name, setting in settings_of(settings).items():
        assert f"--{setting_name.replace('_', '-')}" in text
        assert setting.text, setting_name


def test_settings_become_the_gateways() -> None:
    settings = GatewaySettings(
        listen="[::1]:9192", bootstrap_servers="b:1", kafka={"security.protocol": "SSL"},
        coordinator_bootstrap_servers="c:1", routes={"127.0.0.1:9193": "b:2"},
    )  # fmt: skip
    assert (str(settings.address), settings.brokers_speak_tls) == ("[::1]:9192", True)
    assert [tuple(map(str, route)) for route in settings.routes_to_brokers] == [("127.0.0.1:9193", "b:2")]
    assert settings.broker_client_properties == {"bootstrap.servers": "b:2", "security.protocol": "SSL"}
    assert settings.coordinator_client_properties == {"bootstrap.servers": "c:1"}, (
        "the other cluster has its own properties"
    )


_GSSAPI = {
    "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka",
    "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;",
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"listen": "9192"}, "listen is '9192', but must be HOST:PORT"),
        ({"listen": "h:70000"}, "listen is 'h:70000'"),
        ({"listen": "0.0.0.0:9192"}, "say by which host clients are to reach it"),
        ({"connections_max": 0}, "connections_max is 0, but must be at least 1"),
        ({"routes": {"a:1": "b"}}, "routes is 'b', but must be HOST:PORT"),
        ({"coordinator_kafka": {"client.id": "x"}}, "say where that cluster is"),
        ({"tls_key": "k.pem"}, "a TLS key without a certificate"),
        ({"answer_timeout_ms": 1}, "answer_timeout_ms is 1"),
        ({"kafka": _GSSAPI}, "GSSAPI does not pass"),
    ],
)
def test_what_is_wrong_is_told(given: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        GatewaySettings.load(given)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tap", "--upstream", "b:1"), "Name the request log by --out FILE"),
        (("tap", "--upstream", "b:1", "--out", "recording.jsonl"), "Name the request log by --out FILE"),
        (("run", "--gateway-config-file", "x.toml"), "say by --gateway where it listens"),
        (("run", "--gateway", "here"), "listen is 'here', but must be HOST:PORT"),
    ],
)
def test_wrong_use_is_told_before_anything_starts(arguments: tuple[str, ...], told: str) -> None:
    result = call(*arguments)
    assert (result.exit_code, told in result.stderr) == (2, True), result.output


# -------------------------------------------------------------------------------------------------------- processes


@pytest.mark.end_to_end
def test_a_gateway_without_a_coordinator_says_so(kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path) -> None:
    arguments = (
        "gateway", "--bootstrap-servers", kafka.bootstrap_servers, "--topic-prefix", topic_prefix, "--listen",
        "127.0.0.1:0",
    )  # fmt: skip
    with command(tmp_path, *arguments) as process:
        assert process.wait(STOP_TIMEOUT_S) == 1
    assert "start the coordinator first, it creates its topics." in (tmp_path / "err").read_text()


@pytest.mark.end_to_end
def test_a_gateway_listens_is_measured_and_ends(kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path) -> None:
    admin = new_admin_client({"bootstrap.servers": kafka.bootstrap_servers})
    ensure_topics(admin, TopicSettings(topic_prefix=topic_prefix, offsets_partitions=1))
    metrics_port = free_port()
    arguments = (
        "gateway", "--bootstrap-servers", kafka.bootstrap_servers, "--topic-prefix", topic_prefix,
        "--listen", "127.0.0.1:0", "--metrics-port", str(metrics_port), "--log-format", "json",
    )  # fmt: skip
    with command(tmp_path, *arguments) as process:
        wait_for_log(tmp_path, "The gateway is ready")
        lines = [json.loads(line)["message"] for line in (tmp_path / "err").read_text().splitlines()]
        (address,) = re.findall(r"clients bootstrap at (\S+)\.$", "\n".join(lines), re.MULTILINE)
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(API_VERSIONS_REQUEST)
            assert connection.recv(4), "what is answered is accepted; a connection alone may still wait for that"
            text = scrape(f"http://127.0.0.1:{metrics_port}/metrics")
        assert "group_coordinator_gateway_connections_accepted_total 1.0" in text
        assert 'group_coordinator_gateway_coordinator_seconds_bucket{le="0.025"} 0.0' in text
        assert json.loads(scrape(f"http://127.0.0.1:{metrics_port}/health/ready"))["status"] == "ok"
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert (tmp_path / "out").read_text() == ""


@pytest.mark.end_to_end
def test_a_tap_records_and_its_recording_is_explained(kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path) -> None:
    recording = tmp_path / "tap.log"
    arguments = ("tap", "--listen", "127.0.0.1:0", "--upstream", kafka.bootstrap_servers, "--out", str(recording))
    with command(tmp_path, *arguments) as process:
        (address,) = re.findall(r"bootstrap at (\S+) instead of", wait_for(process, tmp_path, "is ready"))
        assert len(consume(address, f"{topic_prefix}-group", topic_prefix, 10)) == 10
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert re.search(r"^\d+ requests in ", (tmp_path / "out").read_text(), re.MULTILINE)
    assert call("verify", "recording", recording).exit_code == 0
    assert call("replay", recording, "--in-process", "--out", tmp_path / "replayed").exit_code == 0
    explanation = call(
        "explain", "--group", f"{topic_prefix}-group", "--generation", "1", "--from", tmp_path / "replayed"
    )
    assert "one-" in explanation.stdout, explanation.output


@pytest.mark.end_to_end
def test_run_with_a_gateway_of_its_own_ends_cleanly(tmp_path: Path, kafka_jars: Path) -> None:
    port, metrics_port, data = free_port(), free_port(), str(tmp_path / "data")
    arguments = (
        "run", "--embedded", "--embedded-data", data, "--group-initial-rebalance-delay-ms", "0", "--gateway",
        f"127.0.0.1:{port}", "--metrics-port", str(metrics_port),
    )  # fmt: skip
    with (
        TemporaryDirectory() as answers,
        command(tmp_path, *arguments, "--trigger-interval-ms", "8000", "--answers-directory", answers) as process,
    ):
        text = wait_for(process, tmp_path, rf"The gateway is ready: Kafka clients bootstrap at 127\.0\.0\.1:{port}\.")
        assert re.search(r"coordinator\.history +1 partition, created now", text)
        assert "A responder answers ahead of the query of each shard." in text
        assert len(os.listdir(answers)) == 1
        assert consume(f"127.0.0.1:{port}", "own", "data", 10) == [str(number) for number in range(10)]
        metrics = scrape(f"http://127.0.0.1:{metrics_port}/metrics")
        assert re.search(rf"^{HANDED_OVER.name} [1-9]", metrics, re.MULTILINE)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert (tmp_path / "out").read_text().endswith("Stopped.\n")
    assert session_of(process) == []
    with command(tmp_path, *arguments, "--group-max-size", "1000") as process:
        wait_for(process, tmp_path, "The gateway is ready")  # other settings, but nothing is left that was answered
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0


def wait_for_log(tmp_path: Path, pattern: str) -> None:
    """As `wait_for`, in the log."""
    wait_until(lambda: re.search(pattern, (tmp_path / "err").read_text()), 60, (tmp_path / "err").read_text)


def scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())
