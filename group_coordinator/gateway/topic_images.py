"""The cluster's topics as the coordinator has published them, for requests that must bring them along.

A consumer group is assigned by the coordinator, which knows of topics what the group's log tells. So the gateway
attaches to a request what the group may not have heard of yet: its first member need not wait for the coordinator's
watcher, which tells the group of everything that changes later.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from group_coordinator.gateway.handover import TopicRecord
from group_coordinator.gateway.published_groups import PublishedGroup
from group_coordinator.kafka_topics.cluster_topics import ATTACHED_BYTES_MAX, ClusterTopics, SharedRacks
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.consumer_protocol import decode_subscription
from schemas.group_metadata_events import TopicMetadata
from schemas.java_hash import group_partition
from schemas.messages import JoinGroupRequest
from schemas.wire import DecodeError


class TopicImages:
    """One for a gateway. A `TopicFollower` feeds it; all methods run in one thread."""

    def __init__(self, shards: int) -> None:
        shared_racks = SharedRacks()
        self._tables = [ClusterTopics(shared_racks) for _ in range(shards)]
        """One for each shard, since versions of different shards cannot be compared."""

    def take(self, records: list[TopicRecord]) -> None:
        """Take in records of the topics topic, those of each partition in their order."""
        for record in records:
            if record.partition < len(self._tables):
                self._tables[record.partition].take(record.key, record.value, record.offset)

    def metadata_for(
        self, request: ConsumerGroupHeartbeatRequest | JoinGroupRequest, published: PublishedGroup | None
    ) -> TopicMetadata | UnsetType:
        """Return what the request's group is to be told of topics with it; UNSET if nothing.

        A request that names no topics needs none: its group knows them, or is told by the watcher. So it is with topics
        that other members name. A JoinGroup needs topics where it joins a consumer group.

        `published`: the group as it was last published. A classic group that becomes a consumer group with this request
        must know the topics that its members have.
        """
        names: dict[str, None] = {}
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            names = dict.fromkeys(request.subscribed_topic_names or ())
            if request.member_epoch == JOIN_EPOCH and published is not None:
                names |= dict.fromkeys(published.assigned_topics)
        elif published is not None and published.is_consumer_group:
            names = _names_in(request)
        table = self._tables[group_partition(request.group_id, len(self._tables))]
        if table.version < 0:
            return UNSET  # nobody has watched the topics yet, so it cannot be said that there are none
        if published is not None:
            names = {name: None for name in names if not published.hears_of(name, table.version_of(name))}
        return next(table.metadata(names, ATTACHED_BYTES_MAX), UNSET)


def _names_in(request: JoinGroupRequest) -> dict[str, None]:
    """Return the topics that a member of the classic protocol subscribes to, and those that it still has."""
    if request.protocol_type != "consumer" or not request.protocols:
        return {}
    try:
        subscription = decode_subscription(request.protocols[0].metadata)
    except DecodeError:
        return {}  # the coordinator refuses it
    return dict.fromkeys([*subscription.topics, *[topic.topic for topic in subscription.owned_partitions]])
