"""The embedded broker: real, small, faithful to its data, and gone when its parent is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from group_coordinator.coordinating.jars.resolving import jars_directory
from group_coordinator.proving.embedded_kafka import broker_properties
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, EmbeddedKafkaError, free_port
from tests.kafka_programs import run_tool
from tests.waiting import wait_until


def produce(bootstrap_servers: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, value)
    assert producer.flush(20) == 0


def values(bootstrap_servers: str, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "none", "auto.offset.reset": "earliest"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(end, timeout=20) if end else []
    consumer.close()
    return [message.value() or b"" for message in messages]


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def listening_child(process: subprocess.Popen[str]) -> int:
    """The broker's process id, of a `python -m group_coordinator.proving.embedded_kafka`."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(child) for child in children if b"kafka.Kafka" in Path(f"/proc/{child}/cmdline").read_bytes())


def require_served(port: int) -> None:
    """A new connection is answered: ApiVersions 0, without a client id."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        assert client.recv(8)[4:] == bytes.fromhex("00000001")


@pytest.mark.kafka
def test_lengths_without_requests_do_not_take_the_heap(kafka_jars: Path, tmp_path: Path) -> None:
    """A broker takes a request's memory when it sees its length:
    those of Kafka's own bound would be all of a small heap."""
    with EmbeddedKafka(tmp_path) as kafka:
        hostile = [socket.create_connection(("127.0.0.1", kafka.port)) for _ in range(12)]
        for number, connection in enumerate(hostile):
            connection.sendall((100_000_000 if number % 2 else 16_000_000).to_bytes(4, "big") + b"\x00\x00\x00\x09")
        for _ in range(12):  # the broker's threads take connections in turn: each has read the hostile ones before
            require_served(kafka.port)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
        produce(kafka.bootstrap_servers, "t", b"v")
        assert "OutOfMemoryError" not in kafka.log_file.read_text()
        for connection in hostile:
            connection.close()


@pytest.mark.kafka
def test_data_cluster_and_port_survive_stop_and_kill(kafka_jars: Path, tmp_path: Path) -> None:
    second = free_port()
    properties = {
        "listeners": f"SECOND://127.0.0.1:{second}",
        "advertised.listeners": f"SECOND://127.0.0.1:{second}",
        "listener.security.protocol.map": "SECOND:PLAINTEXT",
        "offsets.topic.num.partitions": "7",
    }
    broker = EmbeddedKafka(tmp_path / "data", properties=properties)
    try:
        # The thread that starts a broker may end; the broker stays.
        starter = threading.Thread(target=broker.start)
        starter.start()
        starter.join()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result()
        produce(f"127.0.0.1:{second}", "kept", b"before the stop")
        former = (broker.port, broker.cluster_id)

        broker.stop()
        assert not broker.running
        assert broker.pid is None
        broker.check()
        broker.start()
        assert (broker.port, broker.cluster_id) == former
        produce(broker.bootstrap_servers, "kept", b"before the kill")

        broker.kill()
        assert not broker.running
        broker.start()
        assert values(broker.bootstrap_servers, "kept") == [b"before the stop", b"before the kill"]
    finally:
        broker.close()
    assert (tmp_path / "data").exists()

    with EmbeddedKafka(tmp_path / "data") as again:
        assert (again.port, again.cluster_id) == former
        assert values(again.bootstrap_servers, "kept") == [b"before the stop", b"before the kill"]
        assert again.pid is not None
        os.kill(again.pid, signal.SIGKILL)
        wait_until(lambda: not again.running, 10)
        with pytest.raises(EmbeddedKafkaError, match="ended by itself with exit code -9"):
            again.check()


PROGRAM = """
import sys, time
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
with EmbeddedKafka(sys.argv[1]) as kafka:
    print(kafka.bootstrap_servers, flush=True)
    time.sleep(600)
"""


@pytest.mark.kafka
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_dies_with_the_process_that_started_it(
    kafka_jars: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("127.0.0.1:")
    broker = listening_child(process)
    process.send_signal(number)
    process.wait()
    wait_until(lambda: not lives(broker), 10, "the broker outlived its parent")


@pytest.mark.kafka
def test_topics_are_not_made_by_mistake(kafka: EmbeddedKafka, topic_prefix: str) -> None:
    problems: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.timeout.ms": 1000})
    producer.produce(f"{topic_prefix}-mistyped", b"", on_delivery=lambda error, _: problems.append(error))
    producer.flush(20)
    assert problems[0] is not None
    assert (
        f"{topic_prefix}-mistyped"
        not in AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics().topics
    )


@pytest.mark.kafka
def test_kafkas_own_tools_speak_to_it(kafka: EmbeddedKafka) -> None:
    done = run_tool("org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", kafka.bootstrap_servers)
    assert kafka.cluster_id in done.stdout


@pytest.mark.kafka
def test_a_new_cluster_has_the_features_of_its_version(kafka: EmbeddedKafka) -> None:
    """Also one whose storage was formatted without Kafka's tool, as the second one is."""
    with EmbeddedKafka() as second:
        described = [
            run_tool("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", servers, "describe").stdout
            for servers in (kafka.bootstrap_servers, second.bootstrap_servers)
        ]
        assert "Formatting" not in second.log_file.read_text() or not os.access(jars_directory(), os.W_OK)
    first_features, second_features = (
        [line.partition("Epoch")[0] for line in text.splitlines() if line.startswith("Feature")] for text in described
    )
    assert second_features == first_features
    levels = {line.split()[1]: (line.split()[5], line.split()[7]) for line in first_features}
    assert levels.pop("kraft.version") == ("1", "0"), "it has one node"
    assert all(supported == finalized for supported, finalized in levels.values())
    assert levels["group.version"] == ("1", "1")


@pytest.mark.kafka
def test_a_broker_that_cannot_start_shows_why(kafka_jars: Path) -> None:
    broker = EmbeddedKafka(properties={"num.io.threads": "none"})
    with pytest.raises(
        EmbeddedKafkaError, match=r"(?s)ended by itself.*Invalid value none for configuration num.io.threads"
    ):
        broker.__enter__()
    assert not broker.data_directory.exists()


@pytest.mark.kafka
def test_a_broker_that_ends_while_it_starts_shows_why(kafka_jars: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        listener = f"SECOND://127.0.0.1:{holder.getsockname()[1]}"
        properties = {
            "listeners": listener,
            "advertised.listeners": listener,
            "listener.security.protocol.map": "SECOND:PLAINTEXT",
        }
        broker = EmbeddedKafka(port=free_port(), properties=properties)
        with pytest.raises(
            EmbeddedKafkaError, match=r"(?s)ended by itself with exit code 1.*Address already in use"
        ) as raised:
            broker.__enter__()
    assert "\tat " not in str(raised.value)
    assert not broker.running


def test_a_free_port_is_none_that_the_system_gives_to_outgoing_connections() -> None:
    with socket.socket() as outgoing, socket.socket() as holder:
        outgoing.bind(("127.0.0.1", 0))
        lowest = outgoing.getsockname()[1]
        ranges = Path("/proc/sys/net/ipv4/ip_local_port_range")
        if ranges.exists():
            lowest = int(ranges.read_text().split()[0])
        held = free_port()
        holder.bind(("127.0.0.1", held))
        ports = {free_port(but=held + 1) for _ in range(2_000)}
    assert max(ports) < lowest
    assert not {held, held + 1} & ports
    with pytest.raises(OSError, match="Cannot assign"):
        free_port("192.0.2.1")


def test_a_port_that_is_taken() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(EmbeddedKafkaError, match=f"cannot listen on 127.0.0.1:{port}"):
            EmbeddedKafka(port=port).__enter__()


def test_before_the_first_start_nothing_is_known(tmp_path: Path) -> None:
    broker = EmbeddedKafka(tmp_path)
    assert not broker.running
    broker.check()
    with pytest.raises(EmbeddedKafkaError, match="not started yet"):
        _ = broker.bootstrap_servers
    with pytest.raises(EmbeddedKafkaError, match="not started yet"):
        _ = broker.cluster_id


def test_properties_of_the_caller(tmp_path: Path) -> None:
    own_properties = {"listeners": "SECOND://127.0.0.1:7", "log.dirs": "/elsewhere", "compression.type": "zstd"}
    settings = broker_properties.server("127.0.0.1", 5, 6, tmp_path, own_properties)
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:5,CONTROLLER://127.0.0.1:6,SECOND://127.0.0.1:7"
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:5"
    assert settings["compression.type"] == "zstd"
    assert settings["log.dirs"] == "/elsewhere"
    assert settings["auto.create.topics.enable"] == "false"
    broker_properties.write(tmp_path / "server.properties", settings)
    assert broker_properties.read(tmp_path / "server.properties") == settings
