"""Histories of one consumer group (KIP-848): heartbeats of members that are told nothing new, and a target assignment.

The heartbeats are to be held against those of `benchmarks.workloads`, whose groups have as many members. Kafka's side
of a target assignment is measured by `benchmarks.server_assignors`, without the heartbeat around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from benchmarks.workloads import CONFIG, GROUP_ID, State, Workload, ids_of, value_of
from coordinator_state import Answer, Group, GroupCoordinator, RequestEvent, encode_group
from coordinator_state.consumer.group import consumer_group
from coordinator_state.outputs import MetadataEvent
from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from schemas.events import decode_group_event
from schemas.group_metadata_events import DescribedTopic, TopicMetadata

_API, _VERSION = "ConsumerGroupHeartbeat", 1
_JOINED_MS = 1_000
_ROUND_MS = 2_000
_ROUNDS = 7
_SETTLED_MS = _JOINED_MS + (_ROUNDS + 1) * _ROUND_MS
"""Within the session of everybody's last heartbeat."""
_PARTITIONS_PER_TOPIC = 100
_GROWTH = 900


def consumer_workloads(*, quick: bool = False) -> Iterator[Workload]:
    """Those of the table; `quick`: as short as they can be."""
    scale = 10 if quick else 1
    yield member_heartbeats(10, 20_000 // scale)
    yield member_heartbeats(1_000 // scale, 20_000 // scale)
    yield target_assignment(1_000 // scale, 10_000 // scale)


def member_heartbeats(members: int, count: int) -> Workload:
    """Heartbeats of members that have all that they are to have."""
    cluster = _cluster({"orders": members, "payments": members})
    group = stable(members, cluster)
    values = [_heartbeat(member_id, _epoch(group, member_id)) for member_id in ids_of(members)]
    return Workload(
        f"heartbeat, consumer group of {members:,} members",
        None,
        [(_SETTLED_MS, values[number % members]) for number in range(count)],
        encode_group(group),
    )


def target_assignment(members: int, partitions: int) -> Workload:
    """One heartbeat that finds a topic grown by 900 partitions, with the target assignment of all members."""
    names = [f"topic-{number:03}" for number in range(max(partitions // _PARTITIONS_PER_TOPIC, 1))]
    counts = dict.fromkeys(names, _PARTITIONS_PER_TOPIC)
    group = stable(members, _cluster(counts))
    state = _told(group, _cluster({**counts, names[0]: counts[names[0]] + _GROWTH}, version=2))
    member_id = ids_of(members)[0]
    return Workload(
        f"target assignment, {members:,} members x {partitions + _GROWTH:,} partitions",
        None,
        [(_SETTLED_MS, _heartbeat(member_id, _epoch(group, member_id)))],
        state,
    )


def stable(members: int, cluster: TopicMetadata) -> Group:
    """A Stable consumer group of so many members, all of which subscribe to all topics of the cluster."""
    coordinator = GroupCoordinator(GROUP_ID, CONFIG)
    names = tuple(topic.name for topic in cluster.topics)
    offset = 0
    answers: dict[str, ConsumerGroupHeartbeatResponse] = {}
    owned: dict[str, tuple[TopicPartitions, ...]] = {}
    for member_id in ids_of(members):
        value = _heartbeat(
            member_id, JOIN_EPOCH, subscribed_topic_names=names, rebalance_timeout_ms=300_000, topic_partitions=()
        )
        answers[member_id] = _answer(coordinator, offset, _JOINED_MS, value)
        offset += 1
        if not offset - 1:
            coordinator.handle(MetadataEvent(offset, _JOINED_MS, _JOINED_MS, cluster))
            offset += 1
    for number in range(1, _ROUNDS + 1):
        for member_id, answer in answers.items():
            if answer.assignment is not None:
                owned[member_id] = answer.assignment.topic_partitions
            value = _heartbeat(member_id, answer.member_epoch, topic_partitions=owned.get(member_id, ()))
            answers[member_id] = _answer(coordinator, offset, _JOINED_MS + number * _ROUND_MS, value)
            offset += 1
    group = coordinator.group
    assert group is not None
    assert group.body.state_name == "Stable", group.body.state_name
    return group


def _answer(coordinator: GroupCoordinator, offset: int, clock_ms: int, value: bytes) -> ConsumerGroupHeartbeatResponse:
    event = decode_group_event(GROUP_ID, value)
    assert isinstance(event, tuple)
    coordinator.handle(RequestEvent(offset, clock_ms, clock_ms, *event))
    response = next(output.response for output in coordinator.take_outputs() if isinstance(output, Answer))
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    return response


def _told(group: Group, cluster: TopicMetadata) -> State:
    coordinator = GroupCoordinator(GROUP_ID, CONFIG, group=group)
    coordinator.handle(MetadataEvent(0, _SETTLED_MS, _SETTLED_MS, cluster))
    return encode_group(group)


def _cluster(partition_counts: dict[str, int], version: int = 1) -> TopicMetadata:
    topics = tuple(
        DescribedTopic(name=name, topic_id=str(UUID(int=(number + 1) * 0x1_0000_0001_0001)), partitions=((),) * count)
        for number, (name, count) in enumerate(partition_counts.items())
    )
    return TopicMetadata(version=version, topics=topics, new_topics_version=version)


def _epoch(group: Group, member_id: str) -> int:
    return consumer_group(group).members[member_id].member_epoch


def _heartbeat(
    member_id: str,
    epoch: int,
    *,
    subscribed_topic_names: tuple[str, ...] | None = None,
    rebalance_timeout_ms: int = -1,
    topic_partitions: tuple[TopicPartitions, ...] | None = None,
) -> bytes:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP_ID,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=subscribed_topic_names,
        rebalance_timeout_ms=rebalance_timeout_ms,
        topic_partitions=topic_partitions,
    )
    return value_of(_API, _VERSION, request)
