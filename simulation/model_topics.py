"""What the model's group knows of the cluster's topics, and the hash that Kafka makes of it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from xxhash import xxh3_64_intdigest

from schemas.group_metadata_events import DescribedTopic, TopicMetadata


@dataclass
class KnownTopics:
    """Of each topic the latest news counts: what it is, or None if it does not exist."""

    news: dict[str, tuple[int, DescribedTopic | None]] = field(default_factory=dict)
    new_topics_version: int = -1

    def learn(self, told: TopicMetadata) -> set[str] | None:
        """Take in news, and return the names of topics that are not what they were. None if nothing was news."""
        versions = {name: version for name, (version, _) in self.news.items()}
        facts: list[tuple[str, DescribedTopic | None]] = [(topic.name, topic) for topic in told.topics]
        facts += [(name, None) for name in told.absent]
        newer = [(name, topic) for name, topic in facts if told.version > versions.get(name, -1)]
        if not newer and told.new_topics_version <= self.new_topics_version:
            return None
        changed = {name for name, topic in newer if topic != self.get(name)}
        self.news.update({name: (told.version, topic) for name, topic in newer})
        self.new_topics_version = max(self.new_topics_version, told.new_topics_version)
        return changed

    def forget_all_but(self, told: TopicMetadata) -> None:
        names = {topic.name for topic in told.topics} | set(told.absent)
        self.news = {name: fact for name, fact in self.news.items() if name in names}

    def get(self, name: str) -> DescribedTopic | None:
        return self.news.get(name, (0, None))[1]

    def named(self, topic_id: str) -> DescribedTopic | None:
        """Return the topic with this id, if there is one."""
        topics = (topic for _, topic in self.news.values())
        return next((topic for topic in topics if topic is not None and topic.topic_id == topic_id), None)

    def ids(self, names: Iterable[str]) -> set[str]:
        """Return the ids of those of these topics that exist."""
        return {topic.topic_id for name in names if (topic := self.get(name)) is not None}

    def hash_of(self, names: Iterable[str]) -> int:
        """Return the hash of a group that subscribes to these topics; 0 if none of them exists."""
        topics = [topic for name in sorted(set(names), key=_java) if (topic := self.get(name)) is not None]
        if not topics:
            return 0
        return _hash(b"".join(struct.pack("<q", _hash(_content(topic))) for topic in topics))


def _content(topic: DescribedTopic) -> bytes:
    high, low = struct.unpack(">qq", UUID(topic.topic_id).bytes)
    content = struct.pack("<bqq", 0, high, low) + _text(topic.name) + struct.pack("<i", len(topic.partitions))
    for number, racks in enumerate(topic.partitions):
        content += struct.pack("<i", number)
        for rack in sorted(racks, key=_java):
            content += struct.pack("<i", len(_java(rack)) // 2) + _text(rack)
    return content


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + struct.pack("<i", len(units) // 2)


def _java(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _hash(content: bytes) -> int:
    unsigned = xxh3_64_intdigest(content)
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned
