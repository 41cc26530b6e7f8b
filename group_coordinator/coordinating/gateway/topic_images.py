"""The cluster's topics as the coordinator has published them, for requests that must bring them along.

A consumer group is assigned by the coordinator, which knows of topics what the group's log tells. So the gateway
attaches to a request what the group may not have heard of yet: its first member need not wait for the coordinator's
watcher, which tells the group of everything that changes later.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from msgspec import UnsetType

from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.published_groups import PublishedGroup
from group_coordinator.coordinating.gateway.topic_cache import Absent, Answers, Topic
from group_coordinator.ground.kafka_topics.cluster_topics import ShardedTopics
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.consumer_protocol import decode_subscription
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from schemas.messages import JoinGroupRequest
from schemas.wire import DecodeError


class TopicImages:
    """One for a gateway. A `TopicFollower` feeds it; all methods run in one thread."""

    def __init__(self, shards: int) -> None:
        self._topics = ShardedTopics(shards)
        self._waiting: list[tuple[Callable[[], bool], Callable[[], None]]] = []

    def take(self, records: list[TopicRecord]) -> None:
        """Take in records of the topics topic, those of each partition in their order."""
        for record in records:
            self._topics.take(record.partition, record.key, record.value, record.offset)
        for waiting in [waiting for waiting in self._waiting if waiting[0]()]:
            self._waiting.remove(waiting)
            waiting[1]()

    def when(
        self,
        is_so: Callable[[], bool],
        on_so: Callable[[], None],
        within_s: float,
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """Call `on_so` once: when records have come with which `is_so`, or else after this time."""
        waiting = is_so, on_so

        def give_up() -> None:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                on_so()

        self._waiting.append(waiting)
        call_later(within_s, give_up)

    def unlike(self, group_id: str, answers: Answers) -> dict[str, Topic | Absent]:
        """Return the topics that brokers say are there, or are not, otherwise than the group's shard knows them. A
        broker that tells of fewer partitions is behind."""
        table = self._topics.of(group_id)
        found: dict[str, Topic | Absent] = {}
        for name, verdict in answers.items():
            topic = table.described(name)
            if isinstance(verdict, Absent):
                if topic is not None:
                    found[name] = verdict
            elif isinstance(verdict, Topic) and not _is_like(topic, verdict):
                found[name] = verdict
        return found

    def version_of(self, group_id: str, name: str) -> int | None:
        """Return the version of a topic as the group's shard knows it; None: that has no such topic."""
        return self._topics.of(group_id).version_of(name)

    def named(
        self, request: ConsumerGroupHeartbeatRequest | JoinGroupRequest, published: PublishedGroup | None
    ) -> dict[str, None]:
        """Return the topics about which brokers must be asked before the request goes to its group: all those with
        which a member joins, and others of which the group may not hear otherwise."""
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return _names_in(request) if published is not None and published.is_consumer_group else {}
        names = dict.fromkeys(request.subscribed_topic_names or ())
        if request.member_epoch == JOIN_EPOCH or published is None:
            return names
        table = self._topics.of(request.group_id)
        return {name: None for name in names if not published.hears_of(name, table.version_of(name))}

    def metadata_for(
        self,
        request: ConsumerGroupHeartbeatRequest | JoinGroupRequest,
        published: PublishedGroup | None,
        doubtful: Container[str] = (),
    ) -> TopicMetadata | UnsetType:
        """Return what the request's group is to be told of topics with it; UNSET if nothing.

        A request that names no topics needs none: its group knows them, or is told by the watcher. So it is with topics
        that other members name. A JoinGroup needs topics where it joins a consumer group.

        `published`: the group as it was last published. A classic group that becomes a consumer group with this request
        must know the topics that its members have. `doubtful`: nothing is said of these.
        """
        names: dict[str, None] = {}
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            names = dict.fromkeys(request.subscribed_topic_names or ())
            if request.member_epoch == JOIN_EPOCH and published is not None:
                names |= dict.fromkeys(published.assigned_topics)
        elif published is not None and published.is_consumer_group:
            names = _names_in(request)
        table = self._topics.of(request.group_id)
        if published is not None:
            names = {name: None for name in names if not published.hears_of(name, table.version_of(name))}
        certain = [name for name in names if name not in doubtful]
        return self._topics.attached(request.group_id, certain)


def _is_like(published: DescribedTopic | None, verdict: Topic) -> bool:
    if verdict.topic_id is None or verdict.is_doubtful:
        return True  # nothing can be said against it
    if published is None or published.topic_id != verdict.topic_id:
        return False
    return len(published.partitions) >= verdict.partitions


def _names_in(request: JoinGroupRequest) -> dict[str, None]:
    """Return the topics that a member of the classic protocol subscribes to, and those that it still has."""
    if request.protocol_type != "consumer" or not request.protocols:
        return {}
    try:
        subscription = decode_subscription(request.protocols[0].metadata)
    except DecodeError:
        return {}  # the coordinator refuses it
    return dict.fromkeys([*subscription.topics, *[topic.topic for topic in subscription.owned_partitions]])
