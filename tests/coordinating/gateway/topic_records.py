"""Records of the topics topic, and heartbeats that name topics."""

from __future__ import annotations

from group_coordinator.coordinating.gateway.handover import TopicRecord
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.events import encode_json
from schemas.group_metadata_events import DescribedTopic
from schemas.java_hash import group_partition
from schemas.known_topics import KnownTopic

SHARDS = 3
GROUP = "g"
SHARD = group_partition(GROUP, SHARDS)


def topic_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012}"


def record(number: int, name: str, offset: int, partitions: int = 2, shard: int = SHARD) -> TopicRecord:
    topic = KnownTopic(name=name, topic_id=topic_id(number), partitions=(("",),) * partitions)
    return TopicRecord(topic_id(number).encode(), encode_json(topic), 0, shard, offset)


def described(number: int, name: str, partitions: int = 2) -> DescribedTopic:
    return DescribedTopic(name=name, topic_id=topic_id(number), partitions=(("",),) * partitions)


def heartbeat(*names: str, epoch: int = JOIN_EPOCH) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=epoch, subscribed_topic_names=names or None
    )
