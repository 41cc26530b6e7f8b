"""Kafka's own command line tools against a gateway."""

from __future__ import annotations

from group_coordinator.coordinating.gateway.server import Gateway
from tests.kafka_programs import run_tool


def tool(gateway: Gateway, *arguments: str) -> str:
    """`kafka-consumer-groups.sh` of Kafka 4.4."""
    return _run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", gateway.bootstrap_servers, *arguments)


def configs(bootstrap_servers: str, *arguments: str) -> str:
    """`kafka-configs.sh` of Kafka 4.4."""
    return _run("org.apache.kafka.tools.ConfigCommand", bootstrap_servers, *arguments)


def _run(program: str, bootstrap_servers: str, *arguments: str) -> str:
    done = run_tool(program, "--bootstrap-server", bootstrap_servers, *arguments)
    return done.stdout + done.stderr


def rows(printed: str) -> list[list[str]]:
    """The lines of a table, as words, without its head."""
    heads = ("GROUP ", "Consumer group")
    return [line.split() for line in printed.splitlines() if line.split() and not line.startswith(heads)]
