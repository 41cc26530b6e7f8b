"""What consumer groups subscribe to, as the query has published it, and which topics gateways have seen: read by one
thread, for the watchers of all shards.

A watcher asks for what is new; of a group it gets what was published last. The first that asks lets the reading begin.
What is not asked for yet has the bound of what a watcher keeps (`streaming.group_news`).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping

import msgspec
from confluent_kafka import Message
from msgspec import Raw

from group_coordinator.ground.kafka_topics.follower import TopicFollower
from schemas.foreign_json import json_decoder
from schemas.history import SnapshotSubscription
from schemas.java_hash import group_partition
from schemas.light_snapshot import LightSnapshot
from schemas.query_progress import TopicsSeen, decode_progress, key_of
from streaming.group_news import KEPT_BYTES_MAX, kept_bytes

_MARK = b'"subscription":'
"""It is in every record of a consumer group, and in no other: within a JSON string a quotation mark has a backslash."""
_PENDING_MARK = b'"pending_topics":'
"""The same of a group with offsets in open transactions that nobody sees on the offsets topic."""
PENDING_BYTES_MAX = 16_777_216
"""Of those groups and their topics; a group beyond it is not told that one of them is gone."""
_PENDING_BYTES = 200
_SEEN_MAX = 100
"""Records of what gateways have seen that wait for a watcher; each look takes them all."""
_log = logging.getLogger(__name__)


_decode: Callable[[bytes], LightSnapshot[Raw]] = json_decoder(LightSnapshot[Raw])


class PublishedSubscriptions:
    """All methods may be called in any thread."""

    def __init__(
        self,
        topic: str,
        partitions: int,
        shards: int,
        here: Collection[int],
        client_properties: Mapping[str, str],
        progress_topic: str,
    ) -> None:
        """`here`: the shards whose watchers ask. `progress_topic`: what gateways have seen of topics lies there."""
        self._partitions = [(topic, number) for number in range(partitions)]
        self._progress = [(progress_topic, shard) for shard in here]
        self._progress_topic = progress_topic
        self._seen: dict[int, deque[TopicsSeen]] = {shard: deque(maxlen=_SEEN_MAX) for shard in here}
        self._shards = shards
        self._properties = client_properties
        self._lock = threading.Lock()
        self._news: dict[int, dict[str, SnapshotSubscription | None]] = {shard: {} for shard in here}
        self._pending: dict[int, dict[str, tuple[str, ...]]] = {shard: {} for shard in here}
        self._news_bytes = dict.fromkeys(here, 0)
        self._is_full = False
        self._pending_bytes = 0
        self._wake: dict[int, Callable[[], None]] = {}
        self._is_complete = False
        self._failure: Exception | None = None
        self._beginning = threading.Lock()
        self._follower: TopicFollower | None = None
        self._is_over = False

    def stop(self) -> None:
        """Read no more, for nobody."""
        with self._beginning:
            self._is_over = True
        if self._follower is not None:
            self._follower.stop()

    def require_alive(self) -> None:
        """Raise the error that ended the thread."""
        if self._failure is not None:
            raise self._failure

    def on_news(self, shard: int, wake: Callable[[], None]) -> None:
        """Let this be called, in any thread, when something is new for a shard."""
        self._wake[shard] = wake

    def take(self, shard: int) -> dict[str, SnapshotSubscription | None] | None:
        """Return what is new since the last call: group -> subscription, null where it is no consumer group any more.

        None: not everything has been read that was there at the start, so what is known may be out of date. Raises
        TopicReadError if Kafka does not answer.
        """
        self._begin()
        with self._lock:
            if not self._is_complete:
                return None
            news, self._news[shard], self._news_bytes[shard] = self._news[shard], {}, 0
        return news

    def pending(self, shard: int) -> dict[str, tuple[str, ...]] | None:
        """Return the groups that have nothing but pending offsets of topics, with these. None: as of `take`. Raises
        TopicReadError if Kafka does not answer."""
        self._begin()
        with self._lock:
            return dict(self._pending[shard]) if self._is_complete else None

    def seen(self, shard: int) -> list[TopicsSeen]:
        """Return what others have seen of topics since the last call."""
        with self._lock:
            seen = list(self._seen[shard])
            self._seen[shard].clear()
        return seen

    def _begin(self) -> None:
        with self._beginning:
            if self._follower is not None or self._is_over:
                return
            follower = TopicFollower(
                self._properties, "topics", self._take, on_caught_up=self._complete, on_failure=self._failed
            )
            follower.start(from_beginning=self._partitions, from_end=self._progress)
            self._follower = follower

    def _take(self, messages: list[Message]) -> None:
        concerned: set[int] = set()
        for message in messages:
            key, value = message.key(), message.value()
            if message.topic() == self._progress_topic:
                self._take_progress(message.partition() or 0, key, value)
                continue
            try:
                group_id = key.decode() if isinstance(key, bytes) else ""
                shard = group_partition(group_id, self._shards)
                if shard not in self._news:
                    continue
                has_news = value is not None and (_MARK in value or _PENDING_MARK in value)
                published = _decode(bytes(value)) if value is not None and has_news else None
            except (msgspec.DecodeError, UnicodeDecodeError) as problem:
                _log.warning("A record of %s is not understood and passed over: %s", message.topic(), problem)
                continue
            with self._lock:
                self._keep_news(shard, group_id, published.subscription if published else None)
                self._keep_pending(shard, group_id, published.pending_topics if published else ())
            concerned.add(shard)
        if self._is_complete:
            self._wake_up(concerned)

    def _take_progress(self, shard: int, key: object, value: object) -> None:
        if key != key_of(TopicsSeen) or not isinstance(value, bytes) or shard not in self._seen:
            return
        seen = decode_progress(value)
        if isinstance(seen, TopicsSeen):
            with self._lock:
                self._seen[shard].append(seen)
            self._wake_up((shard,))

    def _keep_news(self, shard: int, group_id: str, subscription: SnapshotSubscription | None) -> None:
        news = self._news[shard]
        self._news_bytes[shard] -= _news_size(group_id, news.pop(group_id, None))
        size = _news_size(group_id, subscription)
        if self._news_bytes[shard] + size > KEPT_BYTES_MAX:
            self._warn_once()
            subscription, size = None, 0
        if subscription is not None or self._is_complete:  # before, nobody has heard of any group
            news[group_id] = subscription
            self._news_bytes[shard] += size

    def _warn_once(self) -> None:
        if not self._is_full:
            self._is_full = True
            _log.warning(
                "Consumer groups subscribe to more than can be taken in at a time (%d bytes): some hear of changed "
                "topics only when a member joins.", KEPT_BYTES_MAX,
            )  # fmt: skip

    def _keep_pending(self, shard: int, group_id: str, topics: tuple[str, ...]) -> None:
        before = self._pending[shard].pop(group_id, ())
        self._pending_bytes -= _size(group_id, before)
        if self._pending_bytes + _size(group_id, topics) > PENDING_BYTES_MAX:
            _log.warning("Group %s is not told of topics that go: too many have open transactions.", group_id)
        elif topics:
            self._pending[shard][group_id] = topics
            self._pending_bytes += _size(group_id, topics)

    def _complete(self) -> None:
        with self._lock:
            self._is_complete = True
        self._wake_up(self._news)

    def _failed(self, problem: Exception) -> None:
        self._failure = problem

    def _wake_up(self, shards: Collection[int]) -> None:
        for shard in shards:
            if shard in self._wake:
                self._wake[shard]()


def _news_size(group_id: str, subscription: SnapshotSubscription | None) -> int:
    return 0 if subscription is None else kept_bytes(group_id, subscription)


def _size(group_id: str, topics: tuple[str, ...]) -> int:
    return sum([len(name) + _PENDING_BYTES for name in (group_id, *topics)]) if topics else 0
