"""The topics of a history: they come, grow, move, go, and come again with another id."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from random import Random
from typing import Any

from tests.beside_kafka.history import History

Json = dict[str, Any]

NAMES = ("t1", "t2", "t3", "logs")
IDS_MAX = 14
PARTITIONS_MAX = 16
BROKERS = 6


class Cluster:
    """What exists now."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._dice = history.dice
        self._made = 0
        self._version = 1
        self.topics = [self._new(name) for name in self._dice.sample(NAMES, 3)]
        self._tell()

    def change(self) -> None:
        topics = [dict(topic) for topic in self.topics]
        kind = self._dice.choice(("new", "deleted", "made again", "more partitions", "moved"))
        free = sorted(set(NAMES) - {topic["name"] for topic in topics})
        may_make = self._made < IDS_MAX
        place = self._dice.randrange(max(1, len(topics)))
        if kind == "new" and free and may_make:
            topics.append(self._new(self._dice.choice(free)))
        elif kind == "deleted" and topics:
            del topics[place]
        elif kind == "made again" and topics and may_make:
            topics[place] = self._new(topics[place]["name"])
        elif kind == "more partitions" and topics:
            more = min(self._dice.randint(1, 3), PARTITIONS_MAX - topics[place]["partitions"])
            topics[place]["racks"] = topics[place]["racks"] + _racks(self._dice, more)
            topics[place]["partitions"] += more
        elif kind == "moved" and topics:
            topics[place]["racks"] = _racks(self._dice, topics[place]["partitions"])
        self.topics = topics
        self._tell()

    def partitions(self) -> list[tuple[str, int]]:
        return [(topic["name"], partition) for topic in self.topics for partition in range(topic["partitions"])]

    def some_topics(self) -> list[Json]:
        return self._dice.sample(self.topics, min(len(self.topics), self._dice.choice((1, 1, 2))))

    def some_partitions(self, topic: Json) -> list[int]:
        return self._dice.sample(range(topic["partitions"]), min(topic["partitions"], self._dice.randint(1, 3)))

    def _tell(self) -> None:
        self._version += self._dice.randint(1, 3)
        self._history.step(cluster={"version": self._version, "topics": self.topics})

    def _new(self, name: str) -> Json:
        self._made += 1
        count = self._dice.randint(1, 6)
        return {
            "name": name,
            "topic_id": topic_id(self._made),
            "partitions": count,
            "racks": _racks(self._dice, count),
        }


def topic_id(number: int) -> str:
    """Ids up to 15 sort alike by value, by Java's hash and by base64: every set of them in Kafka is in that order."""
    return urlsafe_b64encode(b"topic\0\0\0topic\0\0" + struct.pack(">B", number)).decode().rstrip("=")


def _racks(dice: Random, partitions: int) -> list[list[str]]:
    replicas = [{f"r{dice.randrange(BROKERS)}" for _ in range(dice.choice((1, 1, 2)))} for _ in range(partitions)]
    return [sorted(racks) for racks in replicas]
