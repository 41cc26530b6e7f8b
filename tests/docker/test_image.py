"""Our image beside Kafka's: healthy, a member joins, stopped, started again on its volume,
and every rebalance explained."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from msgspec import Struct

from group_coordinator.proving.embedded_kafka.broker import free_port
from tests.docker import consumer
from tests.docker.engine import KAFKA_IMAGE, docker, inspect, remove, wait_until_healthy


class Place(Struct, frozen=True):
    """A broker in a container, and the names that belong to it."""

    network: str
    volume: str
    broker: str
    coordinator: str
    servers: str
    """Where this machine reaches the broker."""


@pytest.fixture
def place(image: str) -> Iterator[Place]:
    name, port = f"group-coordinator-{uuid.uuid4().hex[:8]}", free_port()
    made = Place(name, f"{name}-data", f"{name}-kafka", f"{name}-coordinator", f"127.0.0.1:{port}")
    try:
        docker("network", "create", made.network)
        docker("volume", "create", made.volume)
        _start_kafka(made, port)
        yield made
    finally:
        remove(["rm", "--force", "--volumes"], made.coordinator, made.broker)
        remove(["volume", "rm", "--force"], made.volume)
        remove(["network", "rm"], made.network)


def _start_kafka(place: Place, port: int) -> None:
    settings = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "INTERNAL://:9092,CONTROLLER://:9093,HOST://:19092",
        "KAFKA_ADVERTISED_LISTENERS": f"INTERNAL://kafka:9092,HOST://{place.servers}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,HOST:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    }
    variables = [part for name, value in settings.items() for part in ("--env", f"{name}={value}")]
    docker(
        "run", "--detach", "--name", place.broker, "--network", place.network, "--network-alias", "kafka",
        "--publish", f"127.0.0.1:{port}:19092", *variables, KAFKA_IMAGE,
    )  # fmt: skip


def test_it_lives_beside_kafka(place: Place, image: str) -> None:
    docker(
        "run", "--detach", "--init", "--name", place.coordinator, "--network", place.network, "--volume",
        f"{place.volume}:/data",
        image, "run", "--bootstrap-servers", "kafka:9092", "--checkpoint", "/data/checkpoint",
        "--group-initial-rebalance-delay-ms", "0",
    )  # fmt: skip
    wait_until_healthy(place.coordinator)
    consumer.create_topic(place.servers)
    with consumer.new_member(place.servers) as member:
        consumer.poll_until(member, lambda: consumer.owns_all(member))
        generation = consumer.generation_of(member)
        docker("stop", "--time", "60", place.coordinator)
        state = inspect(place.coordinator)
        log = docker("logs", place.coordinator)
        assert (state["ExitCode"], "Stopped." in log, "Traceback" in log) == (0, True, False), log[-4_000:]
        docker("start", place.coordinator)
        wait_until_healthy(place.coordinator)
        consumer.poll_until(member, lambda: "Stable" in _groups(place))
        assert (consumer.owns_all(member), consumer.generation_of(member)) == (True, generation)
        with consumer.new_member(place.servers) as second:
            consumer.poll_until(second, lambda: member.poll(0.1) is None or bool(second.assignment))
    explanation = _ask(place, "explain", "--group", consumer.GROUP)
    assert "reader" in explanation
    assert "joined the empty group" in explanation


def _groups(place: Place) -> str:
    return _ask(place, "groups", "--group", consumer.GROUP, "--state")


def _ask(place: Place, *arguments: str) -> str:
    return docker("exec", place.coordinator, "group-coordinator", *arguments, "--bootstrap-servers", "kafka:9092")
