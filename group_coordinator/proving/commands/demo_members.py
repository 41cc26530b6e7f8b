"""The demo's clients: each consumes real records in a thread and can be made to fail. Those of this file are members of
`group_coordinator/coordinating/members/`."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from confluent_kafka import Consumer, KafkaException

from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from group_coordinator.coordinating.jars.resolving import tools_jars
from group_coordinator.coordinating.members.host import HostError, MemberHost
from group_coordinator.coordinating.members.kafka_member import Member, MemberError
from group_coordinator.ground.kafka_topics.clients import new_producer

_POLL_S = 0.3
_RECORDS_PER_POLL = 20
_PACE_S = 0.1
"""Between two records: slow enough to watch."""

Ending = Literal["leave", "crash", "bounce"]


class DemoClient:
    """One program that consumes. `start` and `end` it as often as you like: each start is a new member."""

    def __init__(self, group_id: str, name: str) -> None:
        self.name = name
        self.group_id = group_id
        self.records = 0
        """How many it has consumed."""
        self.failure: str | None = None
        self._ending: Ending = "leave"
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin to consume, as a new member. One that is still ending ends first."""
        self.join()
        self._ended.clear()
        self._thread = threading.Thread(target=self._consume_unless_it_fails, name=self.name, daemon=True)
        self._thread.start()

    def end(self, ending: Ending) -> None:
        """`leave` the group, `crash` (fall silent), or `bounce` (a static member that stops without leaving)."""
        self._ending = ending
        self._ended.set()

    def join(self) -> None:
        """Wait until it has ended."""
        if self._thread is not None:
            self._thread.join()

    def _consume_unless_it_fails(self) -> None:
        try:
            self._consume()
        except Exception as problem:
            self.failure = str(problem)

    def _consume(self) -> None:
        """Consume until it is to end."""
        raise NotImplementedError


class DemoMember(DemoClient):
    """A member of `group_coordinator/coordinating/members/`."""

    def __init__(
        self,
        host: MemberHost,
        group_id: str,
        name: str,
        topics: Iterable[str],
        *,
        commits_itself: bool = False,
        **settings: Any,
    ) -> None:
        """`settings`: as `configure` takes them. `commits_itself`: by hand after each record, with metadata."""
        super().__init__(group_id, name)
        self._host = host
        self._topics = tuple(topics)
        self._commits_itself = commits_itself
        self._settings: Mapping[str, Any] = {}
        self.configure(**settings)
        self._stall_s = 0.0

    def configure(self, **settings: Any) -> None:
        """Have these settings, of `group_coordinator.coordinating.members.config.MemberConfig`, from the next start
        on."""
        self._settings = {
            "client_id": self.name,
            "enable_auto_commit": not self._commits_itself,
            "max_poll_records": _RECORDS_PER_POLL,
            "auto_offset_reset": "earliest",
            **settings,
        }

    def stall(self, duration_s: float) -> None:
        """Take that long for the next record."""
        self._stall_s = duration_s

    def _consume(self) -> None:
        self._stall_s = 0.0
        try:
            member = Member(self._host, self.group_id, self._topics, **self._settings)
            while not self._ended.is_set():
                for record in member.poll(_POLL_S):
                    self.records += 1
                    if self._commits_itself:
                        member.commit({record.topic_partition: record.offset + 1}, wait=False)
                    if self._ended.wait(_PACE_S):
                        break
                if self._stall_s:
                    stall_s, self._stall_s = self._stall_s, 0.0
                    self._ended.wait(stall_s)
            if self._ending == "crash":
                member.abandon()
            else:
                member.close()  # a static member stays in the group by itself
        except (HostError, MemberError):
            if not self._ended.is_set():
                raise


class RecordSource:
    """Writes records to topics, evenly over their partitions, from `start` until `stop`."""

    def __init__(self, properties: Mapping[str, str], partitions: Mapping[str, int], records_per_second: int) -> None:
        self._producer = new_producer(properties, {"linger.ms": 50})
        self._places = [(topic, number) for topic, count in partitions.items() for number in range(count)]
        self._pause_s = 1.0 / records_per_second
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="records", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _produce(self) -> None:
        number = 0
        while not self._stopped.wait(self._pause_s):
            topic, partition = self._places[number % len(self._places)]
            number += 1
            try:
                self._producer.produce(topic, f"{topic} number {number}".encode(), partition=partition)
                self._producer.poll(0)
            except (BufferError, KafkaException):
                continue  # the broker is gone for a moment; the demo's records are nobody's loss
        self._producer.purge()


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
