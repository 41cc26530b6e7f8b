"""The watcher of topics: tells the groups of a shard what they must know of the cluster's topics.

It looks at the cluster's topics and keeps on the topics topic what it knows of them. It writes `topics_deleted` to the
groups that have offsets of topics that are gone, and `topic_metadata` and `regexes_resolved` to consumer groups. What
it concludes is `streaming.topic_knowledge`'s and `streaming.group_news`'; which groups have offsets of a topic,
`streaming.committed_topics` says. A topic is struck from what it keeps only when all groups have been told, so whatever
breaks off in between is done again.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping
from itertools import chain

from confluent_kafka import KafkaException

from group_coordinator.ground.kafka_topics.clients import new_admin_client, new_producer
from group_coordinator.ground.kafka_topics.errors import TopicReadError
from group_coordinator.ground.kafka_topics.reader import TopicReader
from group_coordinator.ground.settings.topic_names import Topics
from schemas.events import DeletedTopic, TopicsDeleted, encode_json
from schemas.java_hash import group_partition
from streaming.committed_topics import CommittedTopics, Ids
from streaming.events_tail import open_reader
from streaming.group_news import GroupNews
from streaming.published_subscriptions import PublishedSubscriptions
from streaming.topic_knowledge import TopicKnowledge, TopicListing, TopicRemoval
from streaming.topic_listings import LOOK_TIMEOUT_S, TopicListings
from streaming.topic_records import ShardWriter, TopicRecords

CONFIRM_S = 0.5
"""A topic that was missed is looked for again after this."""
SETTLE_S = 60.0
"""So long after a topic is gone something may still be committed for it: by a gateway that knew it, from a queue on
the way."""
REST_PER_PARTITION_S = 0.0007
"""A look costs by the partitions of the cluster, 35 us of CPU each; the watcher rests for twenty times that, at the
least. What others have seen does not wait for the rest, nor for the look: somebody joins with it."""
_EVENT_BYTES_MAX = 50_000
"""Of an event that could be split."""
_BATCH_BYTES = 1_000_000
_BATCH_GROUPS = 500
"""What is written in one go."""
_DELIVERY_TIMEOUT_MS = 10_000

_WITHOUT_ID: Ids = frozenset((None,))
"""Offsets in transactions carry no topic id."""

_log = logging.getLogger(__name__)


class TopicWatcher:
    """Watches for one shard, from `start` until `stop`. Survives every outage of Kafka."""

    def __init__(
        self,
        topics: Topics,
        shard: int,
        shards: int,
        offsets_partitions: int,
        client_properties: Mapping[str, str],
        subscriptions: PublishedSubscriptions,
        *,
        interval_ms: int,
        event_bytes_max: int = 500_000,
        settle_s: float = SETTLE_S,
    ) -> None:
        """`subscriptions`: what the shard's consumer groups subscribe to.

        `interval_ms`: how often to look at the least. `event_bytes_max`: bound of one event that it writes.
        """
        self._topics, self._shard = topics, shard
        self._properties = dict(client_properties)
        self._interval_s = interval_ms / 1_000
        self._event_bytes_max = event_bytes_max
        self._settle_s = settle_s
        self._committed = CommittedTopics(
            topics.offsets, offsets_partitions, lambda group_id: group_partition(group_id, shards) == shard
        )
        self._knowledge: TopicKnowledge | None = None
        self._removals: dict[str, TopicRemoval] = {}
        self._records = TopicRecords(topics.topics, shard)
        own_prefix = topics.events.removesuffix("events")
        self._news = GroupNews(self._records.table, own_prefix, min(event_bytes_max, _EVENT_BYTES_MAX))
        self._subscriptions = subscriptions
        self._cluster_id = ""
        self._to_look_at: dict[str, float] = {}
        """Names of topics that others have seen -> when to look at them."""
        self._handled = 0
        self._answers = True
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._wake = threading.Event()
        subscriptions.on_news(shard, self._wake.set)
        self._thread = threading.Thread(target=self._run, name=f"topics-{shard}", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; what was begun is done again at the next start."""
        self._stopping.set()
        self._wake.set()
        self._subscriptions.stop()
        self._thread.join(2 * LOOK_TIMEOUT_S)

    def handled(self, end_offset: int) -> None:
        """Tell how far the query has got in the events."""
        self._handled = end_offset

    def require_alive(self) -> None:
        """Raise the error that ended the thread: without it offsets would outlive their topics, and consumer groups
        hear of none, and nothing would say so."""
        if self._failure is not None:
            raise self._failure
        self._subscriptions.require_alive()

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as problem:
            self._failure = problem

    def _watch(self) -> None:
        listings = TopicListings(new_admin_client(self._properties))
        producer = new_producer(self._properties, {"acks": "all", "message.timeout.ms": _DELIVERY_TIMEOUT_MS})
        writer = ShardWriter(producer, self._shard, lambda: not self._stopping.is_set())
        look_at_s = 0.0
        while not self._stopping.is_set():
            is_time = time.monotonic() >= look_at_s
            try:
                if is_time:
                    self._poll(listings, writer)
                self._look_at_seen(listings, writer)
                if self._has_new_removals:
                    self._bury(writer)
                self._tell_groups(writer)
                self._report(answered=True)
            except (KafkaException, TopicReadError) as problem:
                self._report(answered=False, problem=problem)
            if is_time or not self._answers:
                in_doubt = self._knowledge is not None and self._knowledge.in_doubt
                rest_s = min(CONFIRM_S, self._interval_s) if in_doubt or not self._answers else self._interval_s
                look_at_s = time.monotonic() + max(rest_s, REST_PER_PARTITION_S * listings.partitions)
            next_s = min([look_at_s, *self._to_look_at.values()])
            self._wake.wait(min(next_s - time.monotonic(), CONFIRM_S if self._has_new_removals else math.inf))
            self._wake.clear()

    @property
    def _has_new_removals(self) -> bool:
        """Whether groups wait for word of a deletion, which waits for nothing but the query."""
        return any(removal.is_new for removal in self._removals.values())

    def _poll(self, listings: TopicListings, writer: ShardWriter) -> None:
        """Raises KafkaException."""
        cluster_id, listed = listings.names()
        if self._knowledge is None:
            with open_reader(self._properties) as reader:
                self._knowledge = TopicKnowledge(self._records.load(reader, cluster_id))
        self._cluster_id = cluster_id
        names = listed | self._knowledge.names
        listing = listings.look(names, between=lambda: self._look_at_seen(listings, writer))
        self._learn(listing, self._knowledge, writer)

    def _learn(
        self, listing: TopicListing, knowledge: TopicKnowledge, writer: ShardWriter, names: frozenset[str] | None = None
    ) -> None:
        """Conclude from a look at all topics, or at some. Raises KafkaException."""
        _, gone = knowledge.learn(listing, names)
        self._records.learn(listing, gone, knowledge.live)
        for topic_id, name in gone.items():
            self._removals[topic_id] = TopicRemoval(topic_id, name, time.monotonic(), self._settle_s)
        self._save(writer)
        self._bury(writer)

    def _look_at_seen(self, listings: TopicListings, writer: ShardWriter) -> None:
        """Look at the topics that others have seen otherwise than this watcher: at once, and once more at what is
        missed. Raises KafkaException."""
        knowledge, now_s = self._knowledge, time.monotonic()
        if knowledge is None:
            return
        for seen in self._subscriptions.seen(self._shard):
            if seen.cluster_id in (None, self._cluster_id):
                knowledge.meet({topic.topic_id: topic.name for topic in seen.topics if topic.topic_id is not None})
                self._to_look_at |= dict.fromkeys([topic.name for topic in seen.topics], now_s)
        names = frozenset(name for name, at_s in self._to_look_at.items() if at_s <= now_s)
        if not names:
            return
        self._to_look_at = {name: at_s for name, at_s in self._to_look_at.items() if name not in names}
        self._learn(listings.look(names, at_all=False), knowledge, writer, names)
        self._to_look_at |= {name: now_s + CONFIRM_S for name in names if knowledge.is_in_doubt(name)}

    def _save(self, writer: ShardWriter) -> None:
        if self._records.has_unsaved:
            with open_reader(self._properties) as reader:
                self._records.save(writer, reader)

    # ---------------------------------------------------------------------------------- who is told of what topics are

    def _tell_groups(self, writer: ShardWriter) -> None:
        """Tell consumer groups what has changed for them, as far as Kafka takes it. Raises KafkaException and
        TopicReadError."""
        news = None if self._knowledge is None else self._subscriptions.take(self._shard)
        if news is None:
            return
        self._news.published(news)
        if self._news.largest_version_told > self._records.table.version:
            self._records.count_on_from(self._news.largest_version_told + 1)
            self._save(writer)
        groups: list[str] = []
        records: list[tuple[bytes, bytes]] = []
        size = 0
        for group_id, events in self._news.due():
            encoded = [encode_json(event) for event in events]
            groups.append(group_id)
            records += [(group_id.encode(), value) for value in encoded if self._fits(group_id, value)]
            size += sum(map(len, encoded))
            if size > _BATCH_BYTES or len(groups) > _BATCH_GROUPS:
                if not self._append(writer, groups, records):
                    return
                groups, records, size = [], [], 0
        self._append(writer, groups, records)

    def _append(self, writer: ShardWriter, groups: list[str], records: list[tuple[bytes, bytes]]) -> bool:
        if writer.append(self._topics.events, records) is None:
            return False
        self._news.told(groups)
        return True

    def _fits(self, group_id: str, value: bytes) -> bool:
        if len(value) <= self._event_bytes_max:
            return True
        _log.warning(
            "Group %s cannot be told of its topics: an event of %d bytes is too large (%d). Do its expressions match "
            "that many topics?", group_id, len(value), self._event_bytes_max,
        )  # fmt: skip
        return False

    # --------------------------------------------------------------------------------------- who is told of deletions

    def _bury(self, writer: ShardWriter) -> None:
        """Begin and finish rounds through the groups, for all topics that are ready for one."""
        now_s = time.monotonic()
        without_end = [removal for removal in self._removals.values() if removal.wants_end(now_s)]
        if not without_end and not any(removal.is_ready(self._handled) for removal in self._removals.values()):
            return
        with open_reader(self._properties) as reader:
            if without_end:
                end = reader.bounds(self._topics.events, self._shard).end
                for removal in without_end:
                    removal.log_ends_at(end)
            ready = [removal for removal in self._removals.values() if removal.is_ready(self._handled)]
            if not ready or not self._notify_groups(reader, writer, ready):
                return
        assert self._knowledge is not None
        for removal in ready:
            if removal.end_round(self._knowledge.has_undecided(removal.name)):
                self._knowledge.mark_removed(removal.topic_id)
                self._records.forget(removal.topic_id)
                del self._removals[removal.topic_id]

    def _notify_groups(self, reader: TopicReader, writer: ShardWriter, removals: list[TopicRemoval]) -> bool:
        """Return whether every group that has offsets of these topics has an event about it. A second event changes
        nothing."""
        by_name: dict[str, list[TopicRemoval]] = {}
        for removal in removals:
            by_name.setdefault(removal.name, []).append(removal)
        pending = self._subscriptions.pending(self._shard)
        if pending is None:
            return False  # not all has been read that groups have published
        of_transactions: list[dict[str, dict[str, Ids]]] = [
            {
                group_id: {name: _WITHOUT_ID for name in names if name in by_name}
                for group_id, names in pending.items()
                if not by_name.keys().isdisjoint(names)
            }
        ]
        notified = 0
        committed = self._committed.of(reader, by_name, lambda: not self._stopping.is_set())
        for topics_by_group in chain(of_transactions, committed):
            entries = {group_id: self._entries(topics, by_name) for group_id, topics in topics_by_group.items()}
            concerned = {group_id: gone for group_id, gone in entries.items() if gone}
            if writer.append(self._topics.events, self._events(concerned)) is None:
                return False
            for group_id, gone in concerned.items():
                for topic in gone:
                    self._committed.notified(group_id, topic.name, topic.topic_id)
            notified += len(concerned)
        for removal in removals:
            if not removal.rounds:
                _log.info("Topic %s (id %s) is gone.", removal.name, removal.topic_id)
        if notified:
            _log.info("%d groups are told of deleted topics: their offsets of them are dropped.", notified)
        return True

    def _entries(self, topics: Mapping[str, Ids], by_name: Mapping[str, list[TopicRemoval]]) -> list[DeletedTopic]:
        assert self._knowledge is not None
        entries: dict[DeletedTopic, None] = {}
        for name, stored in topics.items():
            for removal in by_name[name]:
                ids = self._knowledge.dead_ids(name, removal.topic_id, stored, is_first=removal.is_new)
                entries |= dict.fromkeys(DeletedTopic(name=name, topic_id=topic_id) for topic_id in ids)
        return list(entries)

    def _events(self, concerned: Mapping[str, list[DeletedTopic]]) -> Iterable[tuple[bytes, bytes]]:
        """The events have a bounded size: more topics are more events."""
        for group_id, gone in concerned.items():
            chunk: list[DeletedTopic] = []
            size = 0
            for topic in gone:
                entry_bytes = len(encode_json(topic)) + 1
                if chunk and size + entry_bytes > min(self._event_bytes_max, _EVENT_BYTES_MAX) - 200:
                    yield group_id.encode(), encode_json(TopicsDeleted(topics=tuple(chunk)))
                    chunk, size = [], 0
                chunk.append(topic)
                size += entry_bytes
            yield group_id.encode(), encode_json(TopicsDeleted(topics=tuple(chunk)))

    def _report(self, *, answered: bool, problem: Exception | None = None) -> None:
        if self._answers and not answered:
            _log.warning("The cluster's topics cannot be watched at the moment: %s", problem)
        elif answered and not self._answers:
            _log.warning("The cluster's topics are watched again.")
        self._answers = answered
