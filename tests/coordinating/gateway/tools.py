"""Kafka's own command line tools against a gateway."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from group_coordinator.coordinating.jars.resolving import tools_jars


def tool(gateway: Gateway, *arguments: str) -> str:
    """`kafka-consumer-groups.sh` of Kafka 4.4."""
    return _run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", gateway.bootstrap_servers, *arguments)


def configs(bootstrap_servers: str, *arguments: str) -> str:
    """`kafka-configs.sh` of Kafka 4.4."""
    return _run("org.apache.kafka.tools.ConfigCommand", bootstrap_servers, *arguments)


def _run(program: str, bootstrap_servers: str, *arguments: str) -> str:
    command = [
        str(find_java()), "-Xmx128m", *SHORT_LIVED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp", os.pathsep.join(map(str, tools_jars())), program, "--bootstrap-server", bootstrap_servers, *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path("/"))
    return done.stdout + done.stderr


def rows(printed: str) -> list[list[str]]:
    """The lines of a table, as words, without its head."""
    heads = ("GROUP ", "Consumer group")
    return [line.split() for line in printed.splitlines() if line.split() and not line.startswith(heads)]
