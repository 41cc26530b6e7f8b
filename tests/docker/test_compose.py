"""docker-compose.yml as a newcomer runs it:
up, a member from this machine, stopped, up again on its volumes, explained."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from msgspec import Struct

from group_coordinator.embedded_kafka.broker import free_port
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


class Project(Struct, frozen=True):
    """One run of the file under a name and a port of its own."""

    compose: tuple[str, ...]
    name: str
    port: int

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def run(self, *arguments: str, timeout_s: float = BUILD_TIMEOUT_S) -> str:
        environment = {"KAFKA_PORT": str(self.port), "KAFKA_IMAGE": KAFKA_IMAGE}
        return command(
            *self.compose, "--project-name", self.name, *arguments, timeout_s=timeout_s, environment=environment
        )

    @property
    def coordinator(self) -> str:
        """The id of its container, which runs or has stopped."""
        label = f"label=com.docker.compose.project={self.name}"
        return docker(
            "ps", "--all", "--quiet", "--filter", label, "--filter", "label=com.docker.compose.service=coordinator"
        ).strip()


@pytest.fixture
def project(docker_engine: None) -> Iterator[Project]:
    compose = compose_command()
    if compose is None:
        pytest.skip("Docker: there is no compose command")
    started = Project(compose, f"groups{uuid.uuid4().hex[:8]}", free_port())
    try:
        yield started
    finally:
        started.run("down", "--volumes", "--timeout", "60")


def test_up_and_down_and_up(project: Project) -> None:
    project.run("up", "--detach", "--build")
    wait_until_healthy(project.coordinator)
    consumer.create_topic(project.servers)
    with consumer.new_member(project.servers) as member:
        consumer.poll_until(member, lambda: consumer.owns_all(member))
    project.run("stop")
    assert inspect(project.coordinator)["ExitCode"] == 0
    project.run("up", "--detach")
    wait_until_healthy(project.coordinator)
    with consumer.new_member(project.servers) as member:
        consumer.poll_until(member, lambda: consumer.owns_all(member))
    explanation = project.run(
        "exec", "-T", "coordinator", "group-coordinator", "explain", "--group", consumer.GROUP, "--bootstrap-servers",
        "kafka:9092",
    )  # fmt: skip
    assert "joined the empty group" in explanation
