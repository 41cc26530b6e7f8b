"""docker-compose.yml as a newcomer runs it: up, a member and a Kafka client from this machine, answered by the
responder also while the coordinator is stopped, all stopped, up again on its volumes, explained."""

from __future__ import annotations

import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from testcontainers.compose import DockerCompose
from testcontainers.core.docker_client import DockerClient

from group_coordinator.coordinating.operations.gateway_metrics import HANDED_OVER
from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from group_coordinator.proving.embedded_kafka.broker import free_port
from schemas.query_progress import WRITER_HEADER
from tests.docker import consumer
from tests.docker.engine import KAFKA_IMAGE, ROOT, wait_until_healthy

SERVICES = ("coordinator", "responder", "gateway")


class Project(DockerCompose):
    """One run of the file under a name and ports of its own, which this process's environment has."""

    def __init__(self, command: list[str], name: str, port: int, gateway_port: int) -> None:
        super().__init__(ROOT, build=True, wait=False)
        self.compose_command_property = command
        self.name = name
        self.servers = f"127.0.0.1:{port}"
        self.gateway = f"127.0.0.1:{gateway_port}"

    def start(self) -> None:
        """The image is built the first time. The older command of Compose cannot wait, hence we do."""
        super().start()
        self.build = False
        for service in SERVICES:
            wait_until_healthy(self.container(service))

    def container(self, service: str) -> Any:
        """A service's container, which runs or has stopped."""
        labels = [f"com.docker.compose.project={self.name}", f"com.docker.compose.service={service}"]
        (found,) = DockerClient().client.containers.list(all=True, filters={"label": labels})
        return found


def compose_command() -> list[str]:
    """Compose as a plugin of Docker, or as the older command. Skips where there is neither."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and not subprocess.run([*command, "version"], capture_output=True).returncode:
            return command
    pytest.skip("Docker: there is no compose command")


@pytest.fixture
def project(docker_engine: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    gateway_port = free_port()
    while not all(map(is_free, (gateway_port, gateway_port + 2))):
        gateway_port = free_port()
    made = Project(compose_command(), f"groups{uuid.uuid4().hex[:8]}", free_port(), gateway_port)
    for name, value in {
        "COMPOSE_PROJECT_NAME": made.name,
        "KAFKA_PORT": made.servers.rpartition(":")[2],
        "KAFKA_IMAGE": KAFKA_IMAGE,
        "GATEWAY_PORT": str(gateway_port),
        "GATEWAY_BROKER_PORT": str(gateway_port + 2),
    }.items():
        monkeypatch.setenv(name, value)
    with made as started:
        yield started


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def writer_of_the_last_answer(project: Project) -> str:
    records = read_topic({"bootstrap.servers": project.servers}, "coordinator.responses")
    last = max(records, key=lambda record: record.timestamp()[1])
    return headers_of(last).get(WRITER_HEADER, "query")


def answers_handed_over(project: Project) -> float:
    """The gateway's metric."""
    read = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9464/metrics').read().decode())"
    printed, _, _ = project.exec_in_container(["python", "-c", read], "gateway")
    return next(float(line.split()[1]) for line in printed.splitlines() if line.startswith(HANDED_OVER.name))


def test_up_and_down_and_up(project: Project) -> None:
    consumer.create_topic(project.servers)
    with consumer.new_member(project.servers) as member:
        consumer.poll_until(member, lambda: consumer.owns_all(member))
    with consumer.kafka_client(project.gateway) as client:
        consumer.wait_for_partitions(client)
        project.container("coordinator").stop(timeout=60)
        consumer.commit(client, 7)
        assert writer_of_the_last_answer(project) == "responder-0"
        assert answers_handed_over(project) > 0
        project.start()
        assert consumer.committed(client) == 7
    project.stop(down=False)
    assert [project.container(service).wait()["StatusCode"] for service in SERVICES] == [0, 0, 0]
    project.start()
    with consumer.new_member(project.servers) as member:
        consumer.poll_until(member, lambda: consumer.owns_all(member))
    question = ["group-coordinator", "explain", "--group", consumer.GROUP, "--bootstrap-servers", "kafka:9092"]
    explanation, _, _ = project.exec_in_container(question, "coordinator")
    assert "joined the empty group" in explanation
