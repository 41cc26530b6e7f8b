"""The watcher of topics of one shard: it concludes as the real one does, and reads and writes the world's topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random

from msgspec import UNSET, UnsetType

from coordinator_state import AssignmentChange, LogRecord
from group_coordinator.ground.kafka_topics.cluster_topics import ClusterTopics as TopicsTable
from schemas.events import DeletedTopic, TopicsDeleted, encode_json
from schemas.group_metadata_events import TopicMetadata
from schemas.history import SnapshotSubscription
from schemas.known_topics import KnownTopic
from schemas.records import OffsetCommitKey, decode_key, decode_offset_commit_value
from simulation.driver import Driver, Written
from simulation.log import Log
from streaming.group_news import GroupNews
from streaming.topic_knowledge import TopicKnowledge, TopicListing, TopicRemoval

SETTLE_MS = 30_000
"""Longer than any request is on its way."""
OWN_PREFIX = "group-coordinator."
EVENT_BYTES_MAX = 100_000
BEHIND_MS = 1_500
"""So long after a topic is made again some brokers may still show the old one."""


class ClusterTopics:
    """The topics of the cluster by id, and what brokers say of them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._incarnations: dict[str, list[tuple[int, str]]] = {name: [(0, f"{_id(name, 0)}")] for name in names}
        """Name -> since when which id."""

    def remake(self, name: str, now_ms: int) -> None:
        incarnations = self._incarnations[name]
        incarnations.append((now_ms, _id(name, len(incarnations))))

    def id_of(self, name: str) -> str | None:
        incarnations = self._incarnations.get(name)
        return None if incarnations is None else incarnations[-1][1]

    def was_alive(self, name: str, topic_id: str | None, at_ms: int) -> bool:
        """Return whether this was the topic of that name at some time."""
        return (
            topic_id is not None
            and [topic_id for since_ms, topic_id in self._incarnations[name] if since_ms <= at_ms][-1] == topic_id
        )

    def look(self, now_ms: int, dice: Random, counts: Mapping[str, int]) -> TopicListing:
        """Return the answer of some broker. `counts`: the number of partitions of each topic."""
        topics = {}
        for name, incarnations in self._incarnations.items():
            is_behind = len(incarnations) > 1 and now_ms - incarnations[-1][0] < BEHIND_MS and dice.random() < 0.3
            topics[name] = incarnations[-2 if is_behind else -1][1]
        return TopicListing(topics=topics, racks={name: (("",),) * counts[name] for name in topics})


def _id(name: str, number: int) -> str:
    return f"{sum(name.encode()):08x}-0000-0000-0000-{number:012x}"


class TopicWatch:
    """Looks at the topics every second while its driver is up. `kept` is what its topics topic holds."""

    def __init__(
        self,
        shard: int,
        log: Log,
        driver: Driver,
        written: list[Written],
        topics: ClusterTopics,
        dice: Random,
        counts: Mapping[str, int],
    ) -> None:
        self._counts = counts
        """Of the partitions of each topic, as they are."""
        self._records: list[tuple[bytes, bytes]] = []
        """The shard's partition of the topics topic."""
        self._gateways = TopicsTable()
        """What those have read there who bring topics along with requests."""
        self._table = TopicsTable()
        self._news = GroupNews(self._table, OWN_PREFIX, EVENT_BYTES_MAX)
        self._published = 0
        """So much of what the query has written was looked at."""
        first = topics.look(0, dice, counts)
        self.kept: dict[str, str] = {topic_id: name for name, topic_id in first.topics.items()}
        self._note(first, {})
        self.ever_kept: dict[str, str] = dict(self.kept)
        self._shard = shard
        self._log = log
        self._driver = driver
        self._written = written
        self._topics = topics
        self._dice = dice
        self._knowledge: TopicKnowledge | None = None
        self._removals: dict[str, TopicRemoval] = {}

    @property
    def is_at_rest(self) -> bool:
        """True if all groups know of all topics that are gone."""
        return not self._removals and all(self._topics.id_of(name) == topic_id for topic_id, name in self.kept.items())

    def told_by_gateways(self, names: Iterable[str]) -> TopicMetadata | UnsetType:
        """Return what a gateway knows of these topics."""
        return next(self._gateways.metadata(names, EVENT_BYTES_MAX), UNSET)

    def start(self) -> None:
        self._knowledge = TopicKnowledge(self.kept)
        self._table, self._published = TopicsTable(), 0
        for offset, (key, value) in enumerate(self._records):
            self._table.take(key, value, offset)
        self._news = GroupNews(self._table, OWN_PREFIX, EVENT_BYTES_MAX)

    def stop(self) -> None:
        self._knowledge = None
        self._removals.clear()

    def poll(self, now_ms: int, timestamp_ms: int) -> None:
        """Look at the topics. `timestamp_ms` is the same moment by the broker's clock."""
        if self._knowledge is None:
            return
        listing = self._topics.look(now_ms, self._dice, self._counts)
        new_topics, removed_topics = self._knowledge.learn(listing)
        self._note(listing, removed_topics, self._knowledge.live)
        self._tell_groups(now_ms, timestamp_ms)
        self.kept |= new_topics
        self.ever_kept |= new_topics
        for topic_id, name in removed_topics.items():
            self._removals[topic_id] = TopicRemoval(topic_id, name, now_ms / 1_000, SETTLE_MS / 1_000)
        for removal in self._removals.values():
            if removal.wants_end(now_ms / 1_000):
                removal.log_ends_at(len(self._log.partitions[self._shard]))
        for removal in [removal for removal in self._removals.values() if removal.is_ready(self._driver.end)]:
            for group_id, event in self._events(self._knowledge, removal):
                self._log.append(self._shard, timestamp_ms, group_id.encode(), event, now_ms)
            if removal.end_round(self._knowledge.has_undecided(removal.name)):
                self._knowledge.mark_removed(removal.topic_id)
                del self._removals[removal.topic_id]
                self.kept.pop(removal.topic_id)

    def _note(self, listing: TopicListing, gone: Mapping[str, str], live: Mapping[str, str] | None = None) -> None:
        """Write to the topics topic what is new: topics that came, grew or went. No topic loses partitions."""
        known = self._gateways.known
        for name, topic_id in listing.topics.items():
            racks = listing.racks[name]
            kept = known.get(topic_id)
            is_news = kept is None or kept.partitions is None or len(kept.partitions) < len(racks)
            if is_news and (live is None or topic_id in live):
                self._write(KnownTopic(name=name, topic_id=topic_id, partitions=racks))
        for topic_id, name in gone.items():
            self._write(KnownTopic(name=name, topic_id=topic_id, is_gone=True))

    def _write(self, topic: KnownTopic) -> None:
        record = topic.topic_id.encode(), encode_json(topic)
        for table in (self._gateways, self._table):
            table.take(*record, len(self._records))
        self._records.append(record)

    def _tell_groups(self, now_ms: int, timestamp_ms: int) -> None:
        """Tell consumer groups of topics, and of what their expressions match, as the real watcher does."""
        news: dict[str, SnapshotSubscription | None] = {}
        for shard, output, _ in self._written[self._published :]:
            if shard == self._shard and isinstance(output, AssignmentChange):
                subscription = None if output.snapshot is None else output.snapshot.subscription
                news[output.group_id] = None if subscription is UNSET else subscription
        self._published = len(self._written)
        self._news.published(news)
        told = []
        for group_id, events in self._news.due():
            for event in events:
                self._log.append(self._shard, timestamp_ms, group_id.encode(), encode_json(event), now_ms)
            told.append(group_id)
        self._news.told(told)

    def _events(self, knowledge: TopicKnowledge, removal: TopicRemoval) -> Iterator[tuple[str, bytes]]:
        for group_id, stored_ids in self._stored(removal.name).items():
            ids = knowledge.dead_ids(removal.name, removal.topic_id, stored_ids, is_first=removal.is_new)
            if ids:
                event = TopicsDeleted(
                    topics=tuple(DeletedTopic(name=removal.name, topic_id=topic_id) for topic_id in ids)
                )
                yield group_id, encode_json(event)

    def _stored(self, name: str) -> dict[str, frozenset[str | None]]:
        """Group -> ids with which its offsets of a topic are or were stored."""
        ids_by_group: dict[str, frozenset[str | None]] = {}
        for shard, output, _ in self._written:
            if shard != self._shard or not isinstance(output, LogRecord) or output.value is None:
                continue
            key = decode_key(output.key)
            if isinstance(key, OffsetCommitKey) and key.topic == name:
                topic_id = decode_offset_commit_value(output.value).topic_id
                ids_by_group[key.group_id] = ids_by_group.get(key.group_id, frozenset()) | {topic_id}
        return ids_by_group
