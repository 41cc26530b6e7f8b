"""Lines for `kafka-acls.sh` in documents, pasted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from group_coordinator.proving.embedded_kafka.broker import free_port
from tests.kafka_programs import run_tool

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def acl_lines(document: Path) -> list[str]:
    return [line for line in document.read_text().splitlines() if line.startswith("kafka-acls.sh ")]


def paste(line: str, bootstrap_servers: str) -> None:
    """What `kafka-acls.sh` of Kafka 4.4 does."""
    arguments = [bootstrap_servers if word == "localhost:9092" else word for word in shlex.split(line)[1:]]
    done = run_tool("org.apache.kafka.tools.AclCommand", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def listener_with_rights(users: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Return the address of a listener for users, each of whom is its own password, and the properties of a broker that
    has it beside its plain listener, by which everybody may do all."""
    address = f"127.0.0.1:{free_port()}"
    logins = " ".join(f'user_{user}="{user}"' for user in users)
    return address, {
        "listeners": f"SASL_PLAINTEXT://{address}",
        "advertised.listeners": f"SASL_PLAINTEXT://{address}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN_LOGIN} {logins};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
