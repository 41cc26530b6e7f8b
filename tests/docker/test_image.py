"""Our image beside Kafka's: healthy, a member joins, stopped, started again on its volume,
and every rebalance explained."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testcontainers.community.kafka import KafkaContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tests.docker import consumer
from tests.docker.engine import HEALTH_TIMEOUT_S, KAFKA_IMAGE, PATIENT, wait_until_healthy

SERVERS = "kafka:9092"
"""Where other containers reach the broker."""


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


@pytest.fixture
def coordinator(image: str, network: Network, servers: str) -> Iterator[DockerContainer]:
    command = ["run", "--bootstrap-servers", SERVERS, "--checkpoint", "/data/checkpoint"]
    made = DockerContainer(image, PATIENT, network=network, init=True)
    with made.with_command([*command, "--group-initial-rebalance-delay-ms", "0"]) as started:
        yield started


def test_it_lives_beside_kafka(servers: str, coordinator: DockerContainer) -> None:
    container = coordinator.get_wrapped_container()
    wait_until_healthy(container)
    consumer.create_topic(servers)
    with consumer.new_member(servers) as member:
        consumer.poll_until(member, lambda: consumer.owns_all(member))
        generation = consumer.generation_of(member)
        container.stop(timeout=60)
        log = container.logs().decode()
        assert (coordinator.wait(), "Stopped." in log, "Traceback" in log) == (0, True, False), log[-4_000:]
        container.start()
        wait_until_healthy(container)
        consumer.poll_until(member, lambda: "Stable" in _groups(coordinator))
        assert (consumer.owns_all(member), consumer.generation_of(member)) == (True, generation)
        with consumer.new_member(servers) as second:
            consumer.poll_until(second, lambda: member.poll(0.1) is None or bool(second.assignment))
    explanation = _ask(coordinator, "explain", "--group", consumer.GROUP)
    assert "reader" in explanation
    assert "joined the empty group" in explanation


def _groups(coordinator: DockerContainer) -> str:
    return _ask(coordinator, "groups", "--group", consumer.GROUP, "--state")


def _ask(coordinator: DockerContainer, *arguments: str) -> str:
    answer = coordinator.exec(["group-coordinator", *arguments, "--bootstrap-servers", SERVERS])
    printed = answer.output.decode()
    assert answer.exit_code == 0, printed
    return printed
