"""The watcher of topics: tells the groups of a shard when topics of which they have offsets are gone.

It looks at the cluster's topics, keeps on the topics topic which ones it knows, and writes `topics_deleted` events.
What it concludes is `streaming.topic_knowledge`'s; which groups it must tell, `streaming.committed_topics` says. A
topic is struck from what it keeps only when all groups have been told, so whatever breaks off in between is done again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import cast

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from group_coordinator.kafka_topics.described import topic_id_of
from group_coordinator.kafka_topics.reader import TopicReader
from schemas.events import DeletedTopic, TopicsDeleted, encode_json
from schemas.java_hash import group_partition
from schemas.known_topics import KnownTopic, decode_known_topic
from streaming.committed_topics import CommittedTopics, Ids
from streaming.events_tail import open_reader
from streaming.topic_knowledge import TopicKnowledge, TopicListing, TopicRemoval
from streaming.topics import Topics

LOOK_TIMEOUT_S = 5.0
CONFIRM_S = 0.5
"""A topic that was missed is looked for again after this."""
SETTLE_S = 60.0
"""So long after a topic is gone something may still be committed for it: by a gateway that knew it, from a queue on
the way."""
_NAMES_PER_REQUEST = 1_000
REST_PER_PARTITION_S = 0.0007
"""A look costs by the partitions of the cluster, 35 us of CPU each; the watcher rests for twenty times that, at the
least."""
_EVENT_BYTES_MAX = 50_000
_DELIVERY_TIMEOUT_MS = 10_000

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
        *,
        interval_ms: int,
        event_bytes_max: int = _EVENT_BYTES_MAX,
        settle_s: float = SETTLE_S,
    ) -> None:
        """`interval_ms`: how often to look at the least. `event_bytes_max`: bound of one event that it writes."""
        self._topics, self._shard = topics, shard
        self._properties = dict(client_properties)
        self._interval_s = interval_ms / 1_000
        self._event_bytes_max = min(event_bytes_max, _EVENT_BYTES_MAX)
        self._settle_s = settle_s
        self._committed = CommittedTopics(
            topics.offsets, offsets_partitions, lambda group_id: group_partition(group_id, shards) == shard
        )
        self._knowledge: TopicKnowledge | None = None
        self._removals: dict[str, TopicRemoval] = {}
        self._unsaved: dict[str, KnownTopic | None] = {}
        """What the topics topic does not say yet, by id."""
        self._handled = 0
        self._answers = True
        self._invisible: frozenset[str] = frozenset()
        self._partitions = 0
        """How many the last look has shown."""
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"topics-{shard}", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; what was begun is done again at the next start."""
        self._stopping.set()
        self._thread.join(2 * LOOK_TIMEOUT_S)

    def handled(self, end_offset: int) -> None:
        """Tell how far the query has got in the events."""
        self._handled = end_offset

    def require_alive(self) -> None:
        """Raise the error that ended the thread: without it offsets would outlive their topics, and nothing would say
        so."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as problem:
            self._failure = problem

    def _watch(self) -> None:
        quiet: dict[str, str | int | float | bool] = {
            "log_level": 0,
            "reconnect.backoff.max.ms": 1_000,
            **self._properties,
        }
        admin = AdminClient(quiet)
        producer = Producer({**quiet, "acks": "all", "message.timeout.ms": _DELIVERY_TIMEOUT_MS})
        rest_s = 0.0
        while not self._stopping.wait(rest_s):
            try:
                self._poll(admin, producer)
                self._report(answered=True)
            except KafkaException as problem:
                self._report(answered=False, problem=problem)
            rest_s = min(CONFIRM_S, self._interval_s) if self._is_in_haste else self._interval_s
            rest_s = max(rest_s, REST_PER_PARTITION_S * self._partitions)

    @property
    def _is_in_haste(self) -> bool:
        in_doubt = self._knowledge is not None and self._knowledge.in_doubt
        return in_doubt or any(removal.is_new for removal in self._removals.values())

    def _poll(self, admin: AdminClient, producer: Producer) -> None:
        """Raises KafkaException."""
        cluster_id, listed = _list(admin)
        if self._knowledge is None:
            self._knowledge = TopicKnowledge(self._load(cluster_id))
        listing = self._list_topics(admin, listed | self._knowledge.names)
        came, gone = self._knowledge.learn(listing)
        for topic_id, name in came.items():
            self._unsaved[topic_id] = KnownTopic(name=name, topic_id=topic_id, cluster_id=cluster_id)
        for topic_id, name in gone.items():
            self._removals[topic_id] = TopicRemoval(topic_id, name, time.monotonic(), self._settle_s)
        self._save(producer)
        self._bury(producer)

    # ---------------------------------------------------------------------------------------------------- what is there

    def _list_topics(self, admin: AdminClient, names: frozenset[str]) -> TopicListing:
        """Ask for topics by their names. Raises KafkaException where there is no answer at all."""
        topics: dict[str, str] = {}
        absent: set[str] = set()
        hidden: set[str] = set()
        partitions = 0
        in_order = sorted(names)
        for start in range(0, len(in_order), _NAMES_PER_REQUEST):
            requested = TopicCollection(in_order[start : start + _NAMES_PER_REQUEST])
            for name, future in admin.describe_topics(requested, request_timeout=LOOK_TIMEOUT_S).items():
                try:
                    description = future.result()
                except KafkaException as problem:
                    code = problem.args[0].code()
                    if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        absent.add(name)
                    elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        hidden.add(name)
                    elif code in _NO_ANSWER:
                        raise
                    continue
                partitions += len(description.partitions)
                if (topic_id := topic_id_of(description)) is not None:
                    topics[name] = topic_id
        if hidden - self._invisible:
            _log.warning(
                "Topic %s may not be described any more (%d such topics): whether they are deleted cannot be seen. "
                "Allow Describe on them.", min(hidden - self._invisible), len(hidden),
            )  # fmt: skip
        self._invisible, self._partitions = frozenset(hidden), partitions
        return TopicListing(topics=topics, absent=frozenset(absent))

    # ---------------------------------------------------------------------------------------------------- what is known

    def _load(self, cluster_id: str) -> dict[str, str]:
        """Return the content of the topics topic, id -> name. Raises KafkaException."""
        topics: dict[str, KnownTopic | None] = {}
        with open_reader(self._properties) as reader:
            place = (self._topics.topics, self._shard)
            for message in reader.read({place: reader.bounds(*place)}):
                key, value = message.key(), message.value()
                topic_id = key.decode(errors="replace") if isinstance(key, bytes) else ""
                try:
                    topics[topic_id] = None if value is None else decode_known_topic(bytes(value))
                except msgspec.DecodeError:
                    _log.warning(
                        "Offset %s of %s is not understood and passed over.", message.offset(), self._topics.topics
                    )
        elsewhere = [name for name, topic in topics.items() if topic is not None and topic.cluster_id != cluster_id]
        if elsewhere:
            _log.warning(
                "%s knows %d topics of another cluster: they are forgotten, and no offsets are dropped for them.",
                self._topics.topics, len(elsewhere),
            )  # fmt: skip
            self._unsaved |= dict.fromkeys(elsewhere)
        return {
            topic.topic_id: topic.name
            for topic in topics.values()
            if topic is not None and topic.cluster_id == cluster_id
        }

    def _save(self, producer: Producer) -> None:
        saved = list(self._unsaved)
        records = (
            (topic_id.encode(), None if topic is None else encode_json(topic))
            for topic_id, topic in self._unsaved.items()
        )
        if saved and self._write(producer, self._topics.topics, records):
            for topic_id in saved:
                del self._unsaved[topic_id]

    # ---------------------------------------------------------------------------------------------------- who is told

    def _bury(self, producer: Producer) -> None:
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
            if not ready or not self._notify_groups(reader, producer, ready):
                return
        assert self._knowledge is not None
        for removal in ready:
            if removal.end_round(self._knowledge.has_undecided(removal.name)):
                self._knowledge.mark_removed(removal.topic_id)
                self._unsaved[removal.topic_id] = None
                del self._removals[removal.topic_id]

    def _notify_groups(self, reader: TopicReader, producer: Producer, removals: list[TopicRemoval]) -> bool:
        """Return whether every group that has offsets of these topics has an event about it. A second event changes
        nothing."""
        by_name: dict[str, list[TopicRemoval]] = {}
        for removal in removals:
            by_name.setdefault(removal.name, []).append(removal)
        notified = 0
        for topics_by_group in self._committed.of(reader, by_name, lambda: not self._stopping.is_set()):
            entries = {group_id: self._entries(topics, by_name) for group_id, topics in topics_by_group.items()}
            concerned = {group_id: gone for group_id, gone in entries.items() if gone}
            if not self._write(producer, self._topics.events, self._events(concerned)):
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
                if chunk and size + entry_bytes > self._event_bytes_max - 200:
                    yield group_id.encode(), encode_json(TopicsDeleted(topics=tuple(chunk)))
                    chunk, size = [], 0
                chunk.append(topic)
                size += entry_bytes
            yield group_id.encode(), encode_json(TopicsDeleted(topics=tuple(chunk)))

    # ---------------------------------------------------------------------------------------------------------- writing

    def _write(self, producer: Producer, topic: str, records: Iterable[tuple[bytes, bytes | None]]) -> bool:
        """Return whether the shard's partition of a topic has appended all records."""
        requested = appended = 0

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            nonlocal appended
            appended += error is None

        for key, value in records:
            requested += 1
            while not self._stopping.is_set():
                try:
                    producer.produce(topic, key=key, value=value, partition=self._shard, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.1)
            if self._stopping.is_set():
                return False
        producer.flush()
        return appended == requested

    def _report(self, *, answered: bool, problem: KafkaException | None = None) -> None:
        if self._answers and not answered:
            _log.warning("The cluster's topics cannot be watched at the moment: %s", problem)
        elif answered and not self._answers:
            _log.warning("The cluster's topics are watched again.")
        self._answers = answered


_NO_ANSWER = (
    KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.REQUEST_TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._AUTHENTICATION,
)  # fmt: skip


def _list(admin: AdminClient) -> tuple[str, frozenset[str]]:
    """The cluster and the topics in it that may be seen. Raises KafkaException."""
    metadata = admin.list_topics(timeout=LOOK_TIMEOUT_S)
    cluster_id = cast(str | None, metadata.cluster_id)
    if cluster_id is None:  # without it nobody could tell whether what is known is of this cluster
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return cluster_id, frozenset(metadata.topics)
