"""Our image beside Kafka's: healthy, a member joins, stopped, started again on its volume,
and every rebalance explained."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tests.docker import consumer
from tests.docker.engine import PATIENT, SERVERS, wait_until_healthy


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
