"""What a gateway attaches to requests of what it knows of the cluster's topics."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.published_groups import PublishedGroup, PublishedGroups
from group_coordinator.coordinating.gateway.topic_images import TopicImages
from group_coordinator.ground.kafka_topics.cluster_topics import ATTACHED_BYTES_MAX
from schemas.consumer_protocol import Subscription, TopicPartition, encode_subscription
from schemas.events import encode_json
from schemas.group_metadata_events import TopicMetadata
from schemas.history import AssignedTopic, GroupSnapshot, SnapshotMember, SnapshotSubscription
from schemas.messages import JoinGroupProtocol, JoinGroupRequest
from tests.coordinating.gateway.topic_records import GROUP, SHARD, SHARDS, described, heartbeat, record


@pytest.fixture
def images() -> TopicImages:
    return TopicImages(SHARDS)


def test_a_request_brings_the_topics_that_it_names(images: TopicImages) -> None:
    images.take([record(1, "a", 7), record(2, "b", 8), record(1, "a", 9, partitions=5)])
    assert images.metadata_for(heartbeat("a", "none"), None) == TopicMetadata(
        version=9, topics=(described(1, "a", 5),), absent=("none",)
    )
    assert images.metadata_for(heartbeat(epoch=3), None) is UNSET
    assert images.metadata_for(heartbeat("b", epoch=3), None) == TopicMetadata(version=9, topics=(described(2, "b"),))


def test_the_version_is_that_of_the_groups_own_shard(images: TopicImages) -> None:
    images.take([record(1, "a", 7), record(1, "a", 900, 6, shard=(SHARD + 1) % SHARDS), record(1, "a", 8, 1, SHARDS)])
    assert images.metadata_for(heartbeat("a"), None) == TopicMetadata(version=7, topics=(described(1, "a"),))


def test_nothing_is_said_before_anybody_has_watched(images: TopicImages) -> None:
    assert images.metadata_for(heartbeat("a"), None) is UNSET


def test_what_a_classic_group_has_comes_with_the_member_that_converts_it(images: TopicImages) -> None:
    images.take([record(number, name, number) for number, name in enumerate("abc")])
    published = published_group("b", "c")
    told = images.metadata_for(heartbeat("a"), published)
    assert told == TopicMetadata(version=2, topics=tuple(described(number, name) for number, name in enumerate("abc")))
    assert images.metadata_for(heartbeat("a", epoch=1), published) == TopicMetadata(
        version=2, topics=(described(0, "a"),)
    )


def test_what_others_have_named_is_not_brought_again(images: TopicImages) -> None:
    """A thousand members join: each would put all topics into the log that is kept for ever."""
    images.take([record(number, name, number) for number, name in enumerate("abc")])
    published = published_group(is_consumer_group=True, subscribed=("a", "b", "none"), topics_version=0)
    assert images.metadata_for(heartbeat("a", "b", "c", "none"), published) == TopicMetadata(
        version=2, topics=(described(1, "b"), described(2, "c"))
    ), "the group may not have been told of the present b"
    assert images.metadata_for(heartbeat("a", "none"), published) is UNSET


def test_a_member_of_the_classic_protocol_that_joins_a_consumer_group_brings_its_topics(images: TopicImages) -> None:
    images.take([record(number, name, number) for number, name in enumerate("abc")])
    owned = (TopicPartition("c", 0), TopicPartition("c", 1))
    metadata = encode_subscription(Subscription(topics=("a",), owned_partitions=owned), 1)
    request = JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=1, rebalance_timeout_ms=1, member_id="m", protocol_type="consumer",
        protocols=(JoinGroupProtocol(name="range", metadata=metadata),),
    )  # fmt: skip
    consumer_group = published_group(is_consumer_group=True)
    assert images.metadata_for(request, consumer_group) == TopicMetadata(
        version=2, topics=(described(0, "a"), described(2, "c"))
    )
    assert images.metadata_for(request, published_group("a")) is UNSET, "nobody asks the coordinator to assign"
    assert images.metadata_for(request, None) is UNSET
    damaged = replace(request, protocols=(JoinGroupProtocol(name="range", metadata=b"x"),))
    assert images.metadata_for(damaged, consumer_group) is UNSET


def published_group(
    *topics: str, is_consumer_group: bool = False, subscribed: tuple[str, ...] = (), topics_version: int = -1
) -> PublishedGroup:
    member = SnapshotMember(
        member_id="old", group_instance_id=None, client_id="c", client_host="h", session_timeout_ms=1,
        rebalance_timeout_ms=1, metadata=b"", assignment=b"",
        partitions=tuple(AssignedTopic(topic=name, partitions=(0,)) for name in topics),
    )  # fmt: skip
    snapshot = GroupSnapshot(
        group_id=GROUP, epoch=1, seq=1, time_ms=1, state="Stable", state_since_ms=1, generation_id=3,
        protocol_type="consumer", protocol_name="range", leader_id="old", members=(member, member),
        subscription=SnapshotSubscription(
            topics=subscribed, regexes={}, resolving_since_ms=None, metadata_hash=0, topics_version=topics_version
        ) if is_consumer_group else UNSET,
    )  # fmt: skip
    groups = PublishedGroups(1_000_000)
    groups.take([TopicRecord(GROUP.encode(), encode_json(snapshot), 0)])
    group = groups.group(GROUP)
    assert group is not None
    return group


def test_what_is_attached_is_bounded(images: TopicImages) -> None:
    images.take([record(number, f"topic-{number}", number, 1_000) for number in range(1_000)])
    told = images.metadata_for(heartbeat(*[f"topic-{number}" for number in range(1_000)]), None)
    assert isinstance(told, TopicMetadata)
    assert ATTACHED_BYTES_MAX // 2 < len(encode_json(told)) < 2 * ATTACHED_BYTES_MAX
