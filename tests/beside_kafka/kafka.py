"""Kafka's own coordinator classes under a virtual clock, in a JVM beside us (`java/BesideKafka.java`)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from benchmarks.jvm import SOURCES, JvmError, compiled, kafka_version
from group_coordinator.coordinating.jars.java import SHORT_LIVED
from group_coordinator.coordinating.jars.resolving import broker_jars
from tests.clusters.versions import Version

Json = dict[str, Any]


class KafkaCoordinator:
    """One history at a time."""

    def __init__(self, version: str, requests: IO[str], answers: IO[str], log: IO[str]) -> None:
        self.release = tuple(map(int, version.split(".")[:2]))
        self.rules = ".".join(map(str, self.release))
        """The version by whose rules our core decides as these classes do: `4.4`."""
        self._requests, self._answers, self._log = requests, answers, log

    def begin(self, config: Json, seed: int) -> None:
        """Begin a history with a new coordinator. The ids of members that it makes depend on the seed."""
        self._ask({"config": config, "seed": seed})

    def play(self, step: Json) -> Json:
        """Return the answers and the records of a step."""
        return self._ask(step)

    def _ask(self, told: Json) -> Json:
        self._requests.write(json.dumps(told) + "\n")
        self._requests.flush()
        line = self._answers.readline()
        if not line:
            self._log.seek(0)
            raise JvmError("Kafka's coordinator ended:\n" + "".join(self._log.readlines()[-30:]))
        told_back: Json = json.loads(line)
        return told_back


@contextmanager
def kafka_coordinator(version: str = "") -> Iterator[KafkaCoordinator]:
    """Compile the classes of a Kafka version and start them, or those of the embedded broker. Raises `JvmError` where
    that is not possible."""
    kafka_jars = Version(version).jars if version else broker_jars
    with (
        compiled(Path(__file__).with_name("java"), beside=SOURCES, kafka_jars=kafka_jars) as command,
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [*command(*SHORT_LIVED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"), "BesideKafka"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield KafkaCoordinator(kafka_version(kafka_jars()), process.stdin, process.stdout, log)
        finally:
            process.kill()
