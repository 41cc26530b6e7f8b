"""Groups of consumers that come and go, and the records that they read."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from confluent_kafka import Producer

from tests.coordinating.gateway.audit import Doings
from tests.coordinating.gateway.clients.consumers import ConsumerProcess, Consumers, Library, share

PARTITIONS = 6
RECORDS_PER_SECOND = 10
"""Into each topic."""
PATIENCE_S = 240.0


class Group:
    """A group with its topic, its consumers and what was done to them."""

    def __init__(
        self,
        name: str,
        libraries: list[Library],
        bootstrap_servers: str,
        programs: Path,
        session_s: int,
        *,
        static: bool,
        cooperative: bool,
    ) -> None:
        self.name = name
        self.libraries = libraries
        self.doings = Doings(is_cooperative=cooperative)
        self.members: dict[int, ConsumerProcess] = {}
        """By place: whoever is started at a place has its library and, where static, its instance id."""
        self.all: list[ConsumerProcess] = []
        self.is_static = static
        self._consumers = Consumers(bootstrap_servers, name, programs)
        self._settings = {
            "session.timeout.ms": str(session_s * 1_000),
            "heartbeat.interval.ms": "3000",
            "auto.commit.interval.ms": "2000",
            "partition.assignment.strategy": "cooperative-sticky" if cooperative else "range",
        }

    def start(self, place: int) -> None:
        name = f"{self.name}-{place}-{len(self.all)}"
        instance = {"group.instance.id": f"{self.name}-{place}"} if self.is_static else {}
        self.doings.started.add(name)
        member = self._consumers.start_with(self.libraries[place], self.name, {**self._settings, **instance}, name)
        self.members[place] = member
        self.all.append(member)

    def disturb(self, chance: random.Random) -> str:
        """Do something to one of them, or bring one back."""
        absent = [place for place in range(len(self.libraries)) if place not in self.members]
        if absent and chance.random() < 0.7:
            place = chance.choice(absent)
            self.start(place)
            return f"{self.members[place].name} starts"
        if len(self.members) < 2:
            return f"{self.name} is left alone"
        place = chance.choice(sorted(self.members))
        member = self.members.pop(place)
        if self.is_static or chance.random() < 0.3:
            self.doings.killed.add(member.name)
            member.kill()
            if self.is_static:
                self.start(place)
                return f"{member.name}, static, is killed and started again"
            return f"{member.name} is killed"
        self.doings.closed.add(member.name)
        member.tell("close")
        return f"{member.name} is closed"

    def complete(self) -> None:
        for place in range(len(self.libraries)):
            if place not in self.members:
                self.start(place)

    def settle(self) -> None:
        share(list(self.members.values()), PARTITIONS, timeout_s=PATIENCE_S)

    def read(self) -> list[int]:
        return [int(read.value) for member in self.all for read in list(member.records)]

    def end(self) -> None:
        self._consumers.end()


class Records:
    """Writes numbers to all topics, until `stop`, straight to the broker."""

    def __init__(self, bootstrap_servers: str, topics: list[str]) -> None:
        self.produced = 0
        """Records in each topic."""
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": "20", "log_level": "2"})
        self._topics = topics
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(30) == 0

    def _run(self) -> None:
        while not self._stopped.wait(1 / RECORDS_PER_SECOND):
            for topic in self._topics:
                self._producer.produce(topic, str(self.produced), partition=self.produced % PARTITIONS)
            self.produced += 1
            self._producer.poll(0)
