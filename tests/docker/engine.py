"""What the tests of the image ask of the Docker engine beside what testcontainers does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docker.errors import DockerException
from testcontainers.core.docker_client import DockerClient

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
KAFKA_IMAGE = "apache/kafka:4.3.1"
BASE_IMAGE = "python:3.11-slim-bookworm"
SERVERS = "kafka:9092"
"""Where other containers reach the broker."""
HEALTH_TIMEOUT_S = 240
PATIENT = {"timeout": 1_500}
"""For the engine's clients: a step of a build and a command in a container may print nothing for long."""


def why_not() -> str | None:
    """Why nothing can be tested with Docker here; None: it can."""
    try:
        images = DockerClient(**PATIENT).client.images
    except DockerException:
        return "no Docker engine answers"
    for image in (KAFKA_IMAGE, BASE_IMAGE):
        try:
            if not images.list(image):
                images.pull(image)
        except DockerException:
            return f"the image {image} is not here and cannot be pulled"
    return None


def wait_until_healthy(container: Any) -> None:
    """Returns when the image's own health check says so. A failure shows the end of the log."""

    def is_healthy() -> bool:
        container.reload()
        assert container.status == "running", otherwise()
        return bool(container.health == "healthy")

    def otherwise() -> str:
        log = container.logs(tail=50).decode()
        return f"{container.name} is {container.status}, {container.health}\n{log}"

    wait_until(is_healthy, HEALTH_TIMEOUT_S, otherwise, interval_s=0.5)
