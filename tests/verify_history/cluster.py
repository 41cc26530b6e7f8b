"""The cluster of a recorded history: its topics, who may see them, and the resolver of regular expressions."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.group import Group
from group_coordinator.proving.recordings.kafka_json import topic_id_from_kafka
from schemas.events import DeletedTopic
from schemas.group_metadata_events import DescribedTopic, GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.kafka.json_form import uuid_to_json
from schemas.topic_regexes import matching_topics
from schemas.wire import encode_uuid
from tests.verify_history.topic_checks import TopicChecks

Json = dict[str, Any]


class Resolution(Struct):
    """Expressions of a group that are being resolved."""

    group_id: str
    due_ms: int
    regexes: tuple[str, ...]


class HistoryCluster:
    """What the steps have said of the cluster so far."""

    def __init__(self, config: Json) -> None:
        self.background_ms: int = config.get("background_ms", 0)
        self.denied_topics = frozenset(config.get("denied_topics", ()))
        """Topics that nobody may describe, read or subscribe to."""
        self.metadata = TopicMetadata(version=0, topics=())
        self.resolutions: list[Resolution] = []
        """In the order of time."""
        self._begun: dict[str, int] = {}

    @property
    def topic_names(self) -> dict[str, str]:
        """Id -> name."""
        return {topic.topic_id: topic.name for topic in self.metadata.topics}

    @property
    def topic_ids(self) -> dict[str, str]:
        """Name -> id."""
        return {topic.name: topic.topic_id for topic in self.metadata.topics}

    def checks(self) -> TopicChecks:
        """Return what the broker checks of requests."""
        topics = self.metadata.topics
        ids = {topic.name: uuid_to_json(encode_uuid(topic.topic_id)) for topic in topics}
        return TopicChecks(ids, {topic.name: len(topic.partitions) for topic in topics}, self.denied_topics)

    def change(self, cluster: Json) -> tuple[DeletedTopic, ...]:
        """From now on these topics exist and no others. Returns those that are gone, also where the name came back."""
        before = self.metadata
        topics = tuple(_topic(topic) for topic in cluster["topics"])
        known_ids = {topic.topic_id for topic in before.topics}
        ids = {topic.topic_id for topic in topics}
        has_new = not ids <= known_ids
        version = cluster["version"]
        names_before = {topic.name for topic in before.topics} | set(before.absent)
        self.metadata = TopicMetadata(
            version=version,
            topics=topics,
            absent=tuple(sorted(names_before - {topic.name for topic in topics})),
            new_topics_version=version if has_new else before.new_topics_version,
        )
        return tuple(
            DeletedTopic(name=topic.name, topic_id=topic.topic_id)
            for topic in before.topics
            if topic.topic_id not in ids
        )

    def note_resolutions(self, groups: dict[str, Group], now_ms: int) -> None:
        """Note which groups have begun to resolve their expressions: the background executor will do that."""
        for group_id, group in groups.items():
            body, began_ms = group.body, group.body.regex_refresh_began_ms
            if began_ms is None:
                self._begun.pop(group_id, None)
            elif type(body) is ConsumerGroup and self._begun.get(group_id) != began_ms:
                self._begun[group_id] = began_ms
                self.resolutions.append(
                    Resolution(group_id, now_ms + self.background_ms, tuple(sorted(body.regex_counts)))
                )

    def resolve(self, resolution: Resolution) -> RegexesResolved:
        """Return the topics that match, of those that may be seen."""
        names = [topic.name for topic in self.metadata.topics if topic.name not in self.denied_topics]
        return RegexesResolved(
            version=self.metadata.version,
            resolved={regex: matching_topics(regex, names) for regex in resolution.regexes},
            began_ms=resolution.due_ms,
        )


def group_configuration(config: Json) -> GroupConfiguration:
    """Return a group's own settings, from Kafka's names. Those of other kinds of group are passed over."""
    own: dict[str, Any] = {"type": "group_config"} | {
        name.replace(".", "_"): int(value)
        for name, value in config.items()
        if name.startswith("consumer.")
    }
    return msgspec.convert(own, GroupConfiguration)


def _topic(topic: Json) -> DescribedTopic:
    # Of a broker without a rack Kafka takes an empty one into the hash, and each partition here has one replica.
    racks = topic.get("racks") or [("",)] * topic.get("partitions", 0)
    return DescribedTopic(
        name=topic["name"],
        topic_id=topic_id_from_kafka(topic["topic_id"]) or "",
        partitions=tuple(tuple(partition) for partition in racks),
    )
