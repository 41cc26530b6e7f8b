"""Tests that need a Docker engine. Where none answers they are skipped, with the reason."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import BuildError
from testcontainers.community.kafka import KafkaContainer
from testcontainers.core.config import testcontainers_config
from testcontainers.core.image import DockerImage
from testcontainers.core.network import Network

from tests.docker import engine
from tests.docker.engine import HEALTH_TIMEOUT_S, KAFKA_IMAGE, SERVERS

testcontainers_config.ryuk_disabled = True  # it would be one more image to pull


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(folder):  # of all tests there are: `parents` would take half a second
            item.add_marker("docker")


@pytest.fixture(scope="session")
def docker_engine() -> None:
    """Skips where there is none."""
    reason = engine.why_not()
    if reason is not None:
        pytest.skip(f"Docker: {reason}")


@pytest.fixture(scope="session")
def image(docker_engine: None) -> Iterator[str]:
    """Our image, built as its users build it."""
    yield from built_image("Dockerfile", "group-coordinator-tests")


@pytest.fixture(scope="session")
def watch_image(docker_engine: None) -> Iterator[str]:
    """The image of `watch` alone."""
    yield from built_image("Dockerfile.watch", "group-coordinator-watch-tests")


def built_image(dockerfile: str, tag: str) -> Iterator[str]:
    """Builds an image, and takes its tag away in the end."""
    try:
        with DockerImage(
            engine.ROOT, engine.PATIENT, tag=tag, clean_up=False, dockerfile_path=dockerfile
        ) as built:
            yield str(built)
            # Its tag alone, which testcontainers would not: compose's image is built upon this one.
            built.get_docker_client().client.images.remove(str(built))
    except BuildError as error:
        error.add_note("".join(line.get("stream", "") for line in error.build_log)[-4_000:])
        raise


class ApacheKafka(KafkaContainer):
    """The image of Kafka itself, whose versions and entry point are not those of Confluent's."""

    MIN_KRAFT_TAG = "4.0.0"

    def start(self, timeout: int = HEALTH_TIMEOUT_S) -> ApacheKafka:
        return super().start(timeout)

    def tc_start(self) -> None:
        """Write what the container waits for: only now is the port known that it has on this machine."""
        listeners = f"{self.listener_name}://{self.get_bootstrap_server()},BROKER://{SERVERS}"
        script = f"export KAFKA_ADVERTISED_LISTENERS={listeners}\nexec /etc/kafka/docker/run\n"
        self.create_file(script.encode(), self.TC_START_SCRIPT)


@pytest.fixture
def network(docker_engine: None) -> Iterator[Network]:
    with Network() as created:
        yield created


@pytest.fixture
def servers(network: Network) -> Iterator[str]:
    """Where this machine reaches the broker."""
    with ApacheKafka(KAFKA_IMAGE, network=network, network_aliases=["kafka"]).with_kraft() as broker:
        yield broker.get_bootstrap_server()
