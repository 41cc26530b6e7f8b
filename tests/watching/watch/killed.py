"""`watch --state` killed again and again while it reads: `python -m tests.watching.watch.killed --kills 20 --seed 7`.

A recorded cluster is written anew into the offsets topic of a real broker, and line by line into logs that grow and are
rotated. Between kills the broker compacts the topic, so that records which were seen are there no more. In the end the
histories and tables are those of a watcher that nobody disturbed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from msgspec import Struct

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC
from group_coordinator.watching.observed.state import restore_state
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.watch.offsets_topic import OffsetsTopicReader
from group_coordinator.watching.watch.source import WatchSource
from schemas.history import History
from tests.command_line.processes import command
from tests.waiting import wait_until
from tests.watching.observed.recorded import CLUSTERS

RECORDING = "three-brokers"
_CLUSTER_ID = b"wT5Uv6j5Q7Sw5mIe-okIbw"
"""Of the cluster that was recorded."""
_FOREVER = str(2**63 - 1)
_BROKER = {
    "offsets.topic.num.partitions": "50",
    "log.cleaner.backoff.ms": "200",
    "log.message.timestamp.after.max.ms": _FOREVER,
}
_MAY_WRITE_INTERNAL_TOPICS = "__admin_client"
"""Brokers let a client of this name."""
_SEGMENT_MS = "5000"
_LIVES_S = 8.0
"""A watcher that is killed wherever it is has lived for up to so long."""
_COMPACTION_S = 20.0
_PACE_S = 2.0
"""A piece of the evidence is written within that time."""


class Record(NamedTuple):
    """A record to be written."""

    at_ms: int
    partition: int
    key: bytes
    value: bytes | None


class Line(NamedTuple):
    """A line to be written."""

    at_ms: int
    file: str
    text: bytes


class Report(Struct):
    """What was done."""

    kills: int = 0
    kills_at_work: int = 0
    """Of watchers that had read something."""
    compactions: int = 0
    records: int = 0
    left: int = 0
    """Records that the topic had in the end."""
    history: int = 0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills ({self.kills_at_work} at work), {self.compactions} compactions: {self.left:,} of "
            f"{self.records:,} records are left; {self.history:,} records of history as of an undisturbed run"
        )


class KillRun:
    """One run."""

    def __init__(
        self, directory: Path, kills: int, seed: int, print_line: Callable[[str], None] = lambda _: None
    ) -> None:
        self._directory = directory
        self._kills = kills
        self._random = random.Random(seed)
        self._print_line = print_line
        self._logs = directory / "logs"
        self._written = 0
        self.report = Report()

    def run(self) -> Report:
        """Raises AssertionError where the two differ."""
        with EmbeddedKafka(properties=_BROKER) as kafka:
            self._kafka = kafka
            self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": "0"})
            self._make_topic()
            with self._undisturbed():
                for number, piece in enumerate(self._pieces()):
                    self._one_life(number, piece)
                self._require_same()
                self._require_that_much_is_gone()
        return self.report

    # ------------------------------------------------------------------------------------------------------- watchers

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        source = WatchSource(
            {"bootstrap.servers": self._kafka.bootstrap_servers}, self._patterns, follow=True, state=self._state(True)
        )
        source.start(Index())
        try:
            yield
        finally:
            source.stop()

    def _one_life(self, number: int, piece: list[Record | Line]) -> None:
        """A watcher lives while a piece of the evidence is written; every other one until it has kept all of it."""
        patterns = [word for pattern in self._patterns for word in ("--broker-log", pattern)]
        output = self._directory / f"life-{number}"
        output.mkdir()
        state = str(self._state(False))
        with command(
            output, "watch", "--bootstrap-servers", self._kafka.bootstrap_servers, "--port", "0", "--follow",
            "--state", state, *patterns,
        ) as process:  # fmt: skip
            begun_s = time.monotonic()
            self._write(piece)
            is_last = number == self._kills
            if number % 2 or is_last:
                wait_until(lambda: self._has_all(True) and self._has_all(False), 120)
            if is_last:
                wait_until(lambda: self._history(True) == self._history(False), 60, interval_s=1.0)
                return
            time.sleep(max(self._random.uniform(0.2, _LIVES_S) - (time.monotonic() - begun_s), 0))
            assert process.poll() is None, (output / "err").read_text()
        self.report.kills += 1
        self.report.kills_at_work += "The dashboard" in (output / "out").read_text()
        self._rotate()
        if number % 2:
            self._compact()
        self._print_line(f"killed {self.report.kills} times; {self._written:,} records written")

    def _state(self, is_undisturbed: bool) -> Path:
        return self._directory / ("undisturbed" if is_undisturbed else "killed")

    def _restored(self, is_undisturbed: bool) -> Observer:
        observer = Observer()
        with suppress(FileNotFoundError), (self._state(is_undisturbed) / "watch.state").open("rb") as file:
            restore_state(observer, file, self._kafka.cluster_id)
        return observer

    def _has_all(self, is_undisturbed: bool) -> bool:
        """Return whether all records that were written are kept, seen one by one."""
        return sum(self._restored(is_undisturbed).next_offsets().values()) == self._written

    def _history(self, is_undisturbed: bool) -> list[History]:
        return list(self._restored(is_undisturbed).whole())

    def _require_same(self) -> None:
        undisturbed, killed = self._history(True), self._history(False)
        assert undisturbed == killed
        assert list(fold(undisturbed)) == list(fold(killed))
        self.report.history = len(killed)

    def _require_that_much_is_gone(self) -> None:
        """Require that a newcomer can know less."""
        self.report.records, self.report.left = self._written, self._count()
        assert not self.report.compactions or self.report.left < self._written

    # -------------------------------------------------------------------------------------------------------- cluster

    def _make_topic(self) -> None:
        """Brokers make the offsets topic for the first group that is looked for."""
        looking = Consumer({"bootstrap.servers": self._kafka.bootstrap_servers, "group.id": "nobody", "log_level": 0})

        def is_there() -> bool:
            try:
                looking.committed([TopicPartition("nothing", 0)], timeout=5)
            except KafkaException:
                return False
            return True

        wait_until(is_there)
        looking.close()
        self._configure({"segment.ms": _SEGMENT_MS, "min.cleanable.dirty.ratio": "0.01"})
        self._configure({"min.compaction.lag.ms": _FOREVER})

    def _configure(self, settings: dict[str, str]) -> None:
        entries = [ConfigEntry(*setting, incremental_operation=AlterConfigOpType.SET) for setting in settings.items()]
        resource = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=entries)
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def _compact(self) -> None:
        """Let the broker compact what is not in the segments that it writes to, if there is something."""
        before = self._count()
        self._configure({"min.compaction.lag.ms": "0"})
        give_up_s = time.monotonic() + _COMPACTION_S
        while before and self._count() == before and time.monotonic() < give_up_s:
            time.sleep(0.5)
        self._configure({"min.compaction.lag.ms": _FOREVER})
        self.report.compactions += self._count() < before

    def _count(self) -> int:
        with OffsetsTopicReader({"bootstrap.servers": self._kafka.bootstrap_servers}) as reader:
            return sum(1 for _ in reader.read(reader.bounds()))

    # ------------------------------------------------------------------------------------------------------- evidence

    @property
    def _patterns(self) -> list[str]:
        return [str(self._logs / "*" / "server.log*")]

    def _pieces(self) -> Iterator[list[Record | Line]]:
        """Yield all evidence by time, a piece for each life."""
        evidence: list[Record | Line] = [*_records(), *_lines(self._kafka.cluster_id)]
        evidence.sort(key=lambda item: item.at_ms)
        size = -(-len(evidence) // (self._kills + 1))
        for number in range(self._kills + 1):
            yield evidence[number * size : (number + 1) * size]

    def _write(self, piece: list[Record | Line]) -> None:
        producer = Producer(
            {"bootstrap.servers": self._kafka.bootstrap_servers, "client.id": _MAY_WRITE_INTERNAL_TOPICS}
        )
        while piece:
            size = self._random.choice((1, 20, 200))
            for item in piece[:size]:
                if isinstance(item, Record):
                    self._written += 1
                    producer.produce(OFFSETS_TOPIC, item.value, item.key, item.partition, timestamp=item.at_ms)
                else:
                    file = self._logs / item.file / "server.log"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with file.open("ab") as log:
                        log.write(item.text)
            assert producer.flush(30) == 0
            piece = piece[size:]
            time.sleep(self._random.uniform(0, _PACE_S * size / 400))

    def _rotate(self) -> None:
        """As log4j does it: the older the higher its number; the oldest is packed."""
        for directory in sorted(self._logs.iterdir()):
            if self._random.random() < 0.5 or not (directory / "server.log").exists():
                continue
            oldest = directory / "server.log.1"
            if oldest.exists():
                number = sum(1 for _ in directory.iterdir())
                (directory / f"server.log.{number}.gz").write_bytes(gzip.compress(oldest.read_bytes()))
                oldest.unlink()
            (directory / "server.log").rename(oldest)


def _records() -> Iterator[Record]:
    """Yield the records of each partition in the order of its offsets."""
    last_ms: dict[int, int] = {}
    with gzip.open(CLUSTERS / f"{RECORDING}.offsets.jsonl.gz") as file:
        for record in map(json.loads, file):
            at_ms = last_ms[record["partition"]] = max(record["timestamp_ms"], last_ms.get(record["partition"], 0))
            value = None if record["value"] is None else b64decode(record["value"])
            yield Record(at_ms, record["partition"], b64decode(record["key"]), value)


def _lines(cluster_id: str) -> Iterator[Line]:
    """The further lines of an entry have its time. The brokers name this cluster as theirs."""
    for path in sorted(CLUSTERS.glob(f"{RECORDING}.*.server.log.gz")):
        at_ms = 0
        with gzip.open(path) as file:
            for text in file:
                if text.startswith(b"[20"):
                    moment = datetime.strptime(text[1:24].decode(), "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
                    at_ms = int(moment.timestamp() * 1000)
                yield Line(at_ms, path.name.split(".")[1], text.replace(_CLUSTER_ID, cluster_id.encode()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.watching.watch.killed", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="watch-killed-"))
    print(f"--kills {options.kills} --seed {options.seed}   (state and logs: {directory})", flush=True)
    print(KillRun(directory, options.kills, options.seed, lambda text: print(text, flush=True)).run())


if __name__ == "__main__":
    main()
