"""The demo's unmodified Kafka clients, of three libraries, behind the gateway."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Mapping

from confluent_kafka import Consumer

from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from group_coordinator.coordinating.jars.resolving import tools_jars
from group_coordinator.proving.commands.demo_members import DemoClient, Ending

_POLL_S = 0.3
_JAVA_OPTIONS = ("-Xmx64m", *SHORT_LIVED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


class LibraryClient(DemoClient):
    """One consumer of a library."""

    def __init__(
        self, bootstrap_servers: str, group_id: str, name: str, topic: str, times_ms: Mapping[str, int]
    ) -> None:
        """`times_ms`: settings by Kafka's names, without the unit at their end."""
        super().__init__(group_id, name)
        self._topic = topic
        self._settings: dict[str, str | int] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group_id,
            "client.id": name,
            "auto.offset.reset": "earliest",
            **{f"{key}.ms": value for key, value in times_ms.items()},
        }


class LibrdkafkaClient(LibraryClient):
    """librdkafka, as confluent-kafka has it."""

    def _consume(self) -> None:
        consumer = Consumer({**self._settings, "log_level": 0})
        consumer.subscribe([self._topic])
        while not self._ended.is_set():
            message = consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                self.records += 1
        consumer.close()


class KafkaPythonClient(LibraryClient):
    """kafka-python."""

    def _consume(self) -> None:
        from kafka import KafkaConsumer  # it takes its time to import
        from kafka.errors import KafkaError

        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # a display is on the screen
        options = {key.replace(".", "_"): value for key, value in self._settings.items()}
        consumer = KafkaConsumer(self._topic, **options)
        while not self._ended.is_set():
            try:
                polled = consumer.poll(timeout_ms=int(_POLL_S * 1_000))
            except KafkaError:
                continue  # a commit that came too late for its generation
            self.records += sum(map(len, polled.values()))
        consumer.close()


class JavaClient(LibraryClient):
    """Apache Kafka's own client: its console consumer, a process of its own that can be killed."""

    _process: subprocess.Popen[bytes] | None = None

    def end(self, ending: Ending) -> None:
        super().end(ending)
        process = self._process
        if process is not None:
            (process.kill if ending == "crash" else process.terminate)()

    def _consume(self) -> None:
        properties = [
            part for key, value in self._settings.items() for part in ("--command-property", f"{key}={value}")
        ]
        class_path = os.pathsep.join(map(str, tools_jars()))
        command = [str(find_java()), *_JAVA_OPTIONS, "-cp", class_path, _CONSOLE_CONSUMER, "--topic", self._topic]
        # Should this process be killed, the consumer ends at its next record: nobody reads it.
        self._process = process = subprocess.Popen(
            [*command, "--bootstrap-server", str(self._settings["bootstrap.servers"]), *properties],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0,
        )  # fmt: skip
        if self._ended.is_set():
            process.kill()
        assert process.stdout is not None
        for _ in process.stdout:
            self.records += 1
        if process.wait() and not self._ended.is_set():
            self.failure = f"it ended with exit code {process.returncode}"
