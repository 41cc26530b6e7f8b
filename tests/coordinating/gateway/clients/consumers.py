"""Unmodified consumers of several libraries, each in a process of its own, that one test can hold, watch,
stop and kill."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import pytest

from group_coordinator.coordinating.jars.resolving import tools_jars
from tests import kafka_programs
from tests.kafka_programs import java
from tests.waiting import wait_until

Library = Literal["librdkafka", "kafka-python", "java", "franz-go", "sarama"]
LIBRARIES: tuple[Library, ...] = ("librdkafka", "kafka-python", "java")
GO_LIBRARIES: tuple[Library, ...] = ("franz-go", "sarama")
"""Where Go is."""

with_kafka_python = pytest.mark.flaky(reruns=3)
"""Marks each test that has a consumer of kafka-python, which gets three more chances: on a busy machine that consumer
stands still now and then after it gave up its partitions. pytest counts and names the reruns;
what fails each time is ours."""

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[3]
GO_MODULE = _HERE / "go"
JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
_OF_CLASSIC_MEMBERS = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
"""Settings that members of the consumer protocol (KIP-848) may not have: the coordinator decides."""


class Read(NamedTuple):
    """One record that a consumer has read."""

    partition: int
    offset: int
    value: str


class ConsumerProcess:
    """One consumer. `settings` have the names that librdkafka and Java share."""

    def __init__(self, library: Library, programs: Path, topic: str, name: str, settings: dict[str, str]) -> None:
        self.library = library
        self.name = name
        self._may_commit_nothing = library != "librdkafka" or settings.get("enable.auto.commit") == "false"
        self.events: list[tuple[float, list[str]]] = []
        """(monotonic time, words) of all that it said but records."""
        self.records: list[Read] = []
        self.owned: set[int] = set()
        self.owned_names: set[str] = set()
        """The same with their topics, for one of several topics."""
        self.strays = 0
        """Records of partitions that it did not own by its own words."""
        self.jumps: list[str] = []
        """Where the records of a partition, while it owned it, did not follow one upon the other."""
        self._next: dict[int, int] = {}
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [
                *_command(library, programs),
                topic,
                *(f"{key}={value}" for key, value in _translated(library, settings).items()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if "SHOW_CLIENTS" not in os.environ else None,
            text=True,
            cwd=_ROOT,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def commit(self, timeout_s: float = 30.0) -> list[str]:
        """Commit and wait for what came of it: `committed`, or `error` and why. An automatic commit may leave nothing
        to do for this one, which librdkafka calls an error: it is refused here."""
        assert self._may_commit_nothing, f"{self.name} commits by itself: start it with enable_auto_commit=False"
        before = len(self.events)
        self.tell("commit")
        self.wait_until(lambda: any(words[0] in ("committed", "error") for _, words in self.events[before:]), timeout_s)
        return next(words for _, words in self.events[before:] if words[0] in ("committed", "error"))

    def close(self, timeout_s: float = 30.0) -> None:
        """Leave and end."""
        if self._process.poll() is None:
            self.tell("close")
            self._process.wait(timeout_s)

    def kill(self) -> None:
        """End without a word."""
        self._process.kill()
        self._process.wait()

    def said(self, *kinds: str) -> list[list[str]]:
        return [words for _, words in list(self.events) if words[0] in kinds]

    @property
    def rebalances(self) -> int:
        """How often its partitions were newly assigned."""
        return len(self.said("assigned"))

    def wait_until(self, is_so: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(is_so, timeout_s):
                raise AssertionError(
                    f"{self.name} ({self.library}): not within {timeout_s} s; owned {self.owned}, events {self.events}"
                )

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # it was killed while it spoke
            kind, *parts = line.rstrip("\n").split("\t")
            with self._changed:
                if kind == "record":
                    self._note_record(Read(int(parts[1]), int(parts[2]), parts[3]))
                else:
                    self.events.append((time.monotonic(), [kind, *parts]))
                    self._note(kind, parts)
                self._changed.notify_all()
        with self._changed:
            self.events.append((time.monotonic(), ["ended"]))
            self._changed.notify_all()

    def _note_record(self, read: Read) -> None:
        self.records.append(read)
        self.strays += read.partition not in self.owned
        expected = self._next.get(read.partition, read.offset)
        if read.offset != expected:
            self.jumps.append(f"partition {read.partition}, offset {read.offset} instead of {expected}")
        self._next[read.partition] = read.offset + 1

    def _note(self, kind: str, parts: list[str]) -> None:
        if kind in ("assigned", "revoked", "lost"):
            partitions = {int(name.rsplit("-", 1)[1]) for name in parts[0].split()}
            self.owned_names = _after(kind, self.owned_names, set(parts[0].split()))
            for partition in partitions:
                self._next.pop(partition, None)
            self.owned = _after(kind, self.owned, partitions)


_Partition = TypeVar("_Partition", int, str)


def _after(kind: str, owned: set[_Partition], partitions: set[_Partition]) -> set[_Partition]:
    return owned | partitions if kind == "assigned" else owned - partitions


class Consumers:
    """The consumers of one test, on one topic behind one gateway."""

    def __init__(self, bootstrap_servers: str, topic: str, programs: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self._programs = programs
        self._all: list[ConsumerProcess] = []

    def start(
        self, library: Library, group: str, name: str | None = None, **settings: str | int | bool
    ) -> ConsumerProcess:
        """A consumer; further settings with underscores for dots."""
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}
        return self.start_with(library, group, {key.replace("_", "."): text for key, text in texts.items()}, name)

    def start_with(
        self, library: Library, group: str, settings: dict[str, str], name: str | None = None
    ) -> ConsumerProcess:
        """A consumer; further settings with Java's names."""
        name = name or f"{library}-{len(self._all)}"
        client_settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "500",
            "partition.assignment.strategy": "range",
            **settings,
        }
        if client_settings.get("group.protocol") == "consumer":
            client_settings = {key: text for key, text in client_settings.items() if key not in _OF_CLASSIC_MEMBERS}
        topic = client_settings.pop("topic", self.topic)
        consumer = ConsumerProcess(library, self._programs, topic, name, client_settings)
        self._all.append(consumer)
        return consumer

    @property
    def all(self) -> list[ConsumerProcess]:
        """All that were started, those that ended among them."""
        return list(self._all)

    def close_all(self) -> None:
        for consumer in self._all:
            consumer.close()

    def end(self) -> None:
        for consumer in self._all:
            consumer.kill()


def share(consumers: list[ConsumerProcess], partitions: int, timeout_s: float = 40.0) -> None:
    """Wait until these own all partitions, each one once, as evenly as can be."""

    def is_shared() -> bool:
        owned = [partition for consumer in consumers for partition in consumer.owned]
        sizes = [len(consumer.owned) for consumer in consumers]
        return sorted(owned) == list(range(partitions)) and max(sizes) - min(sizes) <= 1

    def otherwise() -> str:
        lines = [
            f"{consumer.name}: {sorted(consumer.owned)} {[words for _, words in consumer.events]}"
            for consumer in consumers
        ]
        return "\n".join([f"not shared within {timeout_s} s:", *lines])

    wait_until(is_shared, timeout_s, otherwise)


@contextmanager
def consumers_of(bootstrap_servers: str, topic: str, programs: Path) -> Iterator[Consumers]:
    """`programs`: the directory with what was compiled."""
    consumers = Consumers(bootstrap_servers, topic, programs)
    try:
        yield consumers
    finally:
        consumers.end()


def compile_java(
    directory: Path, programs: Sequence[str] = ("ConsumerProgram", "TransformingProgram"), jars: Sequence[Path] = ()
) -> Path:
    """Compile Java programs into a directory, which is returned; `jars`: what they need beside Kafka's own."""
    sources = [_HERE / f"{name}.java" for name in programs]
    return kafka_programs.compile_java(sources, directory, [*tools_jars(), *jars])


def compile_go(directory: Path, timeout_s: float = 300.0) -> None:
    """Compile the consumers and the loop in Go into a directory.
    Raises OSError where there is no Go, SubprocessError where it fails."""
    command = ["go", "build", "-o", f"{directory}/", "./..."]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, cwd=GO_MODULE, timeout=timeout_s)


def _command(library: Library, programs: Path) -> list[str]:
    if library == "java":
        return [*java(heap_mb=64, classes=[programs]), "ConsumerProgram"]
    if library in GO_LIBRARIES:
        return [str(programs / library)]
    # kafka-python spins while a heartbeat is unanswered for longer than its interval: ten of it would leave the
    # coordinator that they wait for no core to start on.
    polite = ["nice", "-n", "10"] if library == "kafka-python" else []
    return [*polite, sys.executable, "-m", f"tests.coordinating.gateway.clients.{library.replace('-', '_')}_consumer"]


def _translated(library: Library, settings: dict[str, str]) -> dict[str, str]:
    strategy = settings.get("partition.assignment.strategy")
    if library != "java" or strategy is None:
        return settings
    return {**settings, "partition.assignment.strategy": JAVA_ASSIGNORS[strategy]}
