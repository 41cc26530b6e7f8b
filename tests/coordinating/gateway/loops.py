"""Programs that consume, transform and produce in transactions, and who knows whether they did it exactly once."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Literal

from confluent_kafka import Consumer, KafkaError, TopicPartition

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from tests.coordinating.gateway.clients import transforming
from tests.coordinating.gateway.clients.consumers import compile_go, compile_java
from tests.coordinating.gateway.conftest import PARTITIONS
from tests.kafka_programs import java
from tests.waiting import wait_until

LoopLibrary = Literal["librdkafka", "java", "franz-go"]
_TIMEOUT_S = 240.0
_LATE_S = 3.0
"""So long after the last record another one may come, which would be one too many."""


def compile_loops(directory: Path) -> tuple[LoopLibrary, ...]:
    """Compile the loops, and the consumers, into a directory. Return whose can run: those in Go where Go is."""
    compile_java(directory)
    if shutil.which("go") is None:
        return "librdkafka", "java"
    compile_go(directory)
    return "librdkafka", "java", "franz-go"


def loop_command(library: LoopLibrary, directory: Path) -> list[str]:
    """Return the command of a loop; `directory` has what was compiled. Its arguments: see `transforming`."""
    if library == "java":
        return [*java(heap_mb=64, classes=[directory]), "TransformingProgram"]
    if library == "franz-go":
        return [str(directory / "franz-go-loop")]
    return [sys.executable, "-m", transforming.__name__]


class Loop:
    """A program that is started again when it ends by itself; it can be killed."""

    def __init__(self, log: Path, command: list[str]) -> None:
        self._log, self._command = log, command
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        """Start it where it does not run."""
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def where_it_stands(self) -> str:
        """Return what it has complained of, and what its threads do. One in Go ends by that, and is started again."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            time.sleep(1.0)
        return self._log.read_text(errors="replace")[-4_000:] if self._log.exists() else ""


class Audit:
    """Knows what must be in a topic once, and asks the broker for it, which knows nothing of the coordinator."""

    def __init__(self, kafka: EmbeddedKafka, target: str) -> None:
        self._kafka, self._target = kafka, target

    def wait_for(self, count: int, *loops: Loop, timeout_s: float = _TIMEOUT_S) -> None:
        """Until so much has come out. All that while these live."""

        def has_come() -> bool:
            for loop in loops:
                loop.look()
            return self.found().total() >= count

        def otherwise() -> str:
            return "\n".join([f"{self.found().total()} of {count}", *(loop.where_it_stands() for loop in loops)])

        wait_until(has_come, timeout_s, otherwise, interval_s=0.5)

    def found(self) -> Counter[bytes]:
        return values_of(self._kafka, self._target)

    def insist_on(self, values: list[str]) -> None:
        """Each must be there, and once."""
        found, expected = self.found(), Counter(value.encode() for value in values)
        assert found == expected, f"lost {expected - found}, doubled {found - expected}"


class LoopGroup:
    """Two loops of one library in one group, from one topic to another."""

    def __init__(
        self,
        library: LoopLibrary,
        kafka: EmbeddedKafka,
        gateway: str,
        directory: Path,
        group_protocol: str = "classic",
        *,
        prefix: str = "loops",
    ) -> None:
        """`directory` has what was compiled, and gets what they complain of. `prefix`: of the names of group and
        topics."""
        self.name = f"{prefix}-{library}-{group_protocol}"
        self.source, self.target = f"{self.name}-in", f"{self.name}-out"
        self._audit = Audit(kafka, self.target)
        command = [*loop_command(library, directory), gateway, self.name, self.source, self.target]
        self._loops = [
            Loop(directory / f"{self.name}-{number}.log", [*command, f"{self.name}-{number}", group_protocol])
            for number in range(2)
        ]

    def look(self) -> None:
        for loop in self._loops:
            loop.look()

    def disturb(self, chance: random.Random) -> str:
        number = chance.randrange(len(self._loops))
        self._loops[number].kill()
        return f"loop {number} of {self.name} is killed"

    def problems(self, produced: int, timeout_s: float) -> list[str]:
        """What is wrong with the output, of the numbers up to this one."""
        try:
            self._audit.wait_for(produced, *self._loops, timeout_s=timeout_s)
            time.sleep(_LATE_S)
            self.end()
            self._audit.insist_on([str(number) for number in range(produced)])
        except AssertionError as problem:
            return [f"{self.name}: {problem}"]
        return []

    def end(self) -> None:
        for loop in self._loops:
            loop.kill()


def values_of(kafka: EmbeddedKafka, topic: str) -> Counter[bytes]:
    """All that is committed in a topic; asked of the broker itself."""
    reader = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers, "group.id": "auditor", "isolation.level": "read_committed",
            "enable.auto.commit": False, "enable.partition.eof": True,
        }
    )  # fmt: skip
    values: Counter[bytes] = Counter()
    for number in range(PARTITIONS):
        place = TopicPartition(topic, number)
        end = reader.get_watermark_offsets(place, 20)[1]
        reader.assign([TopicPartition(topic, number, 0)])
        is_read = end == 0
        while not is_read:
            for message in reader.consume(500, 1.0):
                error = message.error()
                if error is None:
                    values[message.value() or b""] += 1
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    is_read = True
    reader.close()
    return values
