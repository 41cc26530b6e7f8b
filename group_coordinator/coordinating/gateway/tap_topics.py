"""What the tapped cluster's topics are, for recorded heartbeats that name some: a replay can then assign them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from msgspec import UNSET, Struct, UnsetType

from group_coordinator.coordinating.gateway.topic_cache import TOPIC_NAME
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.cluster_topics import ATTACHED_BYTES_MAX, racks_of
from group_coordinator.ground.kafka_topics.described import look_at, topic_id_of
from schemas.events import encode_json
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from schemas.topic_regexes import InvalidTopicRegex, matching_topics


class FoundTopics(Struct, frozen=True, kw_only=True):
    """What was found out for a heartbeat."""

    version: int = 0
    """That of the cluster's topics."""
    metadata: TopicMetadata | UnsetType = UNSET
    """The topics that it names and those that match its expression; UNSET: nothing is known of them."""
    matching: tuple[str, ...] | None = None
    """The names that match its expression; None: it has none, or that is not known."""


OnTopics = Callable[[FoundTopics], None]
_TIMEOUT_S = 3.0
_WAITING_MAX = 10_000
"""Heartbeats that wait for topics; of those beyond it the topics are not asked for."""
_log = logging.getLogger(__name__)


class TapTopics:
    """Asks the brokers, one question at a time, so that a later answer tells of a later time. All methods run in the
    event loop's thread."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._properties = properties
        self._admin: AdminClient | None = None
        self._version = 0
        self._waiting: list[tuple[tuple[str, ...], str | None, OnTopics]] = []
        self._task: asyncio.Task[None] | None = None

    def look_up(self, names: tuple[str, ...], regex: str | None, on_topics: OnTopics) -> None:
        """Ask for topics, and for those that match an expression. `on_topics` is called once."""
        if len(self._waiting) >= _WAITING_MAX:
            on_topics(FoundTopics())
            return
        self._waiting.append((names, regex, on_topics))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    def close(self) -> None:
        """Let the client go: it would go on looking for its brokers."""
        if self._task is not None:
            self._task.cancel()
        self._admin = None

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            there = await asyncio.to_thread(self._names) if any(regex for _, regex, _ in batch) else None
            matching = [_matching(regex, there) for _, regex, _ in batch]
            named = [(*names, *(matches or ())) for (names, _, _), matches in zip(batch, matching, strict=True)]
            all_names = {name for names in named for name in names}
            topics = await asyncio.to_thread(self._described, sorted(filter(TOPIC_NAME.fullmatch, all_names)))
            topics |= {name: None for name in all_names if not TOPIC_NAME.fullmatch(name)}  # there can be none
            self._version = max(self._version + 1, time.time_ns() // 1_000_000)  # it grows over a restart, too
            for names, matches, (_, _, on_topics) in zip(named, matching, batch, strict=True):
                metadata = topic_metadata(self._version, names, topics)
                on_topics(FoundTopics(version=self._version, metadata=metadata, matching=matches))

    def _client(self) -> AdminClient:
        client = self._admin = self._admin or new_admin_client(self._properties, {"log_level": 3})
        return client

    def _names(self) -> list[str] | None:
        """Return the names of all topics; None where no broker answers. Blocks."""
        try:
            return list(self._client().list_topics(timeout=_TIMEOUT_S).topics)
        except (KafkaException, ValueError) as problem:
            _log.warning("the recording cannot tell which topics match an expression: %s", problem)
            return None

    def _described(self, names: list[str]) -> dict[str, DescribedTopic | None]:
        """Return those that brokers answer for; None: it does not exist. Blocks."""
        try:
            look = look_at(self._client(), names, _TIMEOUT_S)
        except (KafkaException, ValueError) as problem:
            _log.warning("the brokers cannot be asked for topics: %s", problem)
            return {}
        for name, why in look.problems.items():
            _log.warning("the recording cannot tell what topic %s is: %s", name, why)
        topics: dict[str, DescribedTopic | None] = dict.fromkeys(look.absent)
        for name, topic in look.topics.items():
            if (topic_id := topic_id_of(topic)) is not None:
                topics[name] = DescribedTopic(name=name, topic_id=topic_id, partitions=racks_of(topic))
        return topics


def topic_metadata(
    version: int, names: Iterable[str], topics: Mapping[str, DescribedTopic | None]
) -> TopicMetadata | UnsetType:
    """Return what is known of these topics, as far as it fits beside a request; UNSET if nothing."""
    told: list[DescribedTopic] = []
    absent: list[str] = []
    size = 0
    for name in dict.fromkeys(names):
        if name not in topics:
            continue
        topic = topics[name]
        size += len(encode_json(name if topic is None else topic))
        if size > ATTACHED_BYTES_MAX:
            _log.warning("a member names more topics than fit into an event: the recording lacks %s and others", name)
            break
        if topic is None:
            absent.append(name)
        else:
            told.append(topic)
    if not told and not absent:
        return UNSET
    return TopicMetadata(version=version, topics=tuple(told), absent=tuple(absent))


def _matching(regex: str | None, names: list[str] | None) -> tuple[str, ...] | None:
    if not regex or names is None:
        return None
    try:
        matches = matching_topics(regex, names)
    except InvalidTopicRegex:
        return None  # the broker refuses it
    if sum(map(len, matches)) > ATTACHED_BYTES_MAX:
        _log.warning("more topics match %r than fit into an event: the recording lacks them", regex)
        return None
    return matches
