"""docker-compose.yml as a newcomer runs it: up, a member and a Kafka client from this machine, answered by the
responder also while the coordinator is stopped, all stopped, up again on its volumes, explained."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator

import pytest
from msgspec import Struct

from group_coordinator.coordinating.operations.gateway_metrics import HANDED_OVER
from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from group_coordinator.proving.embedded_kafka.broker import free_port
from schemas.query_progress import WRITER_HEADER
from tests.docker import consumer
from tests.docker.engine import (
    BUILD_TIMEOUT_S,
    KAFKA_IMAGE,
    command,
    compose_command,
    docker,
    inspect,
    wait_until_healthy,
)

SERVICES = ("coordinator", "responder", "gateway")


class Project(Struct, frozen=True):
    """One run of the file under a name and a port of its own."""

    compose: tuple[str, ...]
    name: str
    port: int
    gateway_port: int

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def run(self, *arguments: str, timeout_s: float = BUILD_TIMEOUT_S) -> str:
        environment = {
            "KAFKA_PORT": str(self.port),
            "KAFKA_IMAGE": KAFKA_IMAGE,
            "GATEWAY_PORT": str(self.gateway_port),
            "GATEWAY_BROKER_PORT": str(self.gateway_port + 2),
        }
        return command(
            *self.compose, "--project-name", self.name, *arguments, timeout_s=timeout_s, environment=environment
        )

    def container(self, service: str) -> str:
        """The id of a service's container, which runs or has stopped."""
        labels = f"label=com.docker.compose.project={self.name}", f"label=com.docker.compose.service={service}"
        return docker("ps", "--all", "--quiet", "--filter", labels[0], "--filter", labels[1]).strip()

    def up(self, *options: str) -> None:
        self.run("up", "--detach", *options)
        for service in SERVICES:
            wait_until_healthy(self.container(service))


@pytest.fixture
def project(docker_engine: None) -> Iterator[Project]:
    compose = compose_command()
    if compose is None:
        pytest.skip("Docker: there is no compose command")
    gateway_port = free_port()
    while not all(map(is_free, (gateway_port, gateway_port + 2))):
        gateway_port = free_port()
    started = Project(compose, f"groups{uuid.uuid4().hex[:8]}", free_port(), gateway_port)
    try:
        yield started
    finally:
        started.run("down", "--volumes", "--timeout", "60")


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
    lines = project.run("exec", "-T", "gateway", "python", "-c", read).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(HANDED_OVER.name))


def test_up_and_down_and_up(project: Project) -> None:
    project.up("--build")
    consumer.create_topic(project.servers)
    with consumer.new_member(project.servers) as member:
        consumer.poll_until(member, lambda: consumer.owns_all(member))
    with consumer.kafka_client(f"127.0.0.1:{project.gateway_port}") as client:
        consumer.wait_for_partitions(client)
        project.run("stop", "coordinator")
        consumer.commit(client, 7)
        assert writer_of_the_last_answer(project) == "responder-0"
        assert answers_handed_over(project) > 0
        project.up()
        assert consumer.committed(client) == 7
    project.run("stop")
    assert [inspect(project.container(service))["ExitCode"] for service in SERVICES] == [0, 0, 0]
    project.up()
    with consumer.new_member(project.servers) as member:
        consumer.poll_until(member, lambda: consumer.owns_all(member))
    explanation = project.run(
        "exec", "-T", "coordinator", "group-coordinator", "explain", "--group", consumer.GROUP, "--bootstrap-servers",
        "kafka:9092",
    )  # fmt: skip
    assert "joined the empty group" in explanation
