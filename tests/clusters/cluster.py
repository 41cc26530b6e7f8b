"""Brokers of one Kafka version, with the logs that they write. A version without KRaft has a ZooKeeper beside it."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from group_coordinator.proving.embedded_kafka import broker_properties
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from tests.clusters.logging_config import java_options
from tests.clusters.versions import Version

SESSION_TIMEOUT_MS = 8_000
"""Of the members of both protocols."""
_HEARTBEAT_INTERVAL_MS = 2_000
_HEAP_MB = 400
_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "2000",
    "offsets.topic.num.partitions": "8",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": str(_HEARTBEAT_INTERVAL_MS),
} | {
    f"group.{kind}.{limit}": value
    for kind in ("share", "streams")
    for limit, value in (
        ("min.session.timeout.ms", "6000"),
        ("session.timeout.ms", str(SESSION_TIMEOUT_MS)),
        ("min.heartbeat.interval.ms", "1000"),
        ("heartbeat.interval.ms", str(_HEARTBEAT_INTERVAL_MS)),
    )
}
_REPLICATED = {
    f"{topic}.replication.factor": "3"
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
}
_CONTROLLER_IS_ANOTHER = {
    "process.roles": "broker",
    "controller.listener.names": "UPSTREAM",
    "listener.security.protocol.map": "UPSTREAM:PLAINTEXT",
}
CLIENT_PROPERTIES = {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": _HEARTBEAT_INTERVAL_MS}


class Broker(EmbeddedKafka):
    """A broker whose logs lie in files, and which can be made to stand still."""

    def __init__(self, number: int, directory: Path, version: Version, properties: dict[str, str]) -> None:
        self.number = number
        self.logs = directory / "logging"
        super().__init__(
            directory,
            heap_mb=_HEAP_MB,
            properties=_PROPERTIES | properties,
            java_options=java_options(self.logs, has_log4j2=version.has_log4j2),
            jars=version.jars(),
        )

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def segments(self, topic: str) -> Iterator[tuple[int, Path]]:
        """Yield partitions of a topic with the folder of each."""
        for folder in self.data_directory.glob(f"logs/{topic}-*"):
            yield int(folder.name.rpartition("-")[2]), folder

    def _signal(self, number: int) -> None:
        assert self.pid is not None
        os.kill(self.pid, number)


@contextmanager
def running_cluster(
    version: Version, directory: Path, brokers: int, further: Mapping[str, str]
) -> Iterator[dict[int, Broker]]:
    """Yield the running brokers by their ids, with further properties. In KRaft the first is the controller, too."""
    with ExitStack() as stack:
        shared = {**(_REPLICATED if brokers > 1 else {}), **further}
        if version.has_zookeeper:
            shared = shared | _with_zookeeper(stack.enter_context(_zookeeper(version, directory / "zookeeper")))
        cluster: dict[int, Broker] = {}
        for number in range(1, brokers + 1):
            home = directory / str(number)
            properties = {"node.id": str(number)}
            if version.has_zookeeper:
                properties["broker.id"] = str(number)
                _format(home / "logs", {"version": "0", "broker.id": str(number)})
            elif number > 1:
                voters = broker_properties.read(directory / "1" / "server.properties")["controller.quorum.voters"]
                properties |= _CONTROLLER_IS_ANOTHER | {"controller.quorum.voters": voters}
                identity = base64.urlsafe_b64encode(b"\x01" + secrets.token_bytes(15)).rstrip(b"=").decode()
                known = {"version": "1", "cluster.id": cluster[1].cluster_id, "directory.id": identity}
                _format(home / "logs", known | {"node.id": str(number)})
            cluster[number] = stack.enter_context(Broker(number, home, version, shared | properties))
        yield cluster


def _format(storage: Path, properties: dict[str, str]) -> None:
    storage.mkdir(parents=True)
    broker_properties.write(storage / "meta.properties", properties)


def _with_zookeeper(port: int) -> dict[str, str]:
    kraft = {"process.roles": "", "controller.quorum.voters": ""}
    return kraft | {"zookeeper.connect": f"127.0.0.1:{port}", "zookeeper.session.timeout.ms": "6000"}


@contextmanager
def _zookeeper(version: Version, directory: Path) -> Iterator[int]:
    directory.mkdir(parents=True)
    port = free_port()
    settings = {"dataDir": str(directory), "clientPort": str(port), "admin.enableServer": "false"}
    broker_properties.write(directory / "zookeeper.properties", settings | {"clientPortAddress": "127.0.0.1"})
    class_path = os.pathsep.join(map(str, version.jars()))
    main = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(directory / "zookeeper.properties")]
    logging = java_options(directory / "logging", has_log4j2=False)
    command = [str(find_java()), *SHORT_LIVED, "-Xmx96m", *logging, "-cp", class_path, *main]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        process.wait()
