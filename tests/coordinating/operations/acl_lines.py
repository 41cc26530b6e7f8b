"""Lines for `kafka-acls.sh` in documents, pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.kafka_programs import run_tool


def acl_lines(document: Path) -> list[str]:
    return [line for line in document.read_text().splitlines() if line.startswith("kafka-acls.sh ")]


def paste(line: str, bootstrap_servers: str) -> None:
    """What `kafka-acls.sh` of Kafka 4.4 does."""
    arguments = [bootstrap_servers if word == "localhost:9092" else word for word in shlex.split(line)[1:]]
    done = run_tool("org.apache.kafka.tools.AclCommand", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
