"""Lines for `kafka-acls.sh` in documents, pasted."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from group_coordinator.coordinating.jars.resolving import tools_jars


def acl_lines(document: Path) -> list[str]:
    return [line for line in document.read_text().splitlines() if line.startswith("kafka-acls.sh ")]


def paste(line: str, bootstrap_servers: str) -> None:
    """What `kafka-acls.sh` of Kafka 4.4 does."""
    arguments = [bootstrap_servers if word == "localhost:9092" else word for word in shlex.split(line)[1:]]
    command = [
        str(find_java()), "-Xmx128m", *SHORT_LIVED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp", os.pathsep.join(map(str, tools_jars())), "org.apache.kafka.tools.AclCommand", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
