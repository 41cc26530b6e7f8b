"""What Kafka's own assignors answered: inputs and outputs of the reference, as recorded in the fixtures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from group_coordinator.coordinating.assignors import MemberSubscription, TopicMetadata
from schemas.consumer_protocol import Subscription, TopicPartition

FIXTURES = Path(__file__).parents[2] / "fixtures" / "assignors"

Vector = dict[str, Any]


def load_vectors(name: str) -> list[Vector]:
    vectors: list[Vector] = json.loads(gzip.decompress((FIXTURES / f"{name}.json.gz").read_bytes()))["vectors"]
    return vectors


def topics_of(vector: Vector) -> dict[str, TopicMetadata]:
    return {
        topic["topic"]: TopicMetadata(
            partition_count=topic["partitions"], replica_racks=tuple(map(tuple, topic.get("replica_racks", ())))
        )
        for topic in vector["topics"]
    }


def members_of(vector: Vector) -> list[MemberSubscription]:
    return [
        MemberSubscription(
            member_id=member["member_id"],
            group_instance_id=member.get("group_instance_id"),
            subscription=Subscription(
                topics=tuple(member["topics"]),
                user_data=bytes.fromhex(member["user_data_hex"]) if "user_data_hex" in member else None,
                owned_partitions=tuple(TopicPartition(*pair) for pair in member.get("owned_partitions", ())),
                generation_id=member.get("generation_id", -1),
                rack_id=member.get("rack_id"),
            ),
        )
        for member in vector["members"]
    ]


def expected_of(vector: Vector) -> dict[str, list[TopicPartition]]:
    return {member: [TopicPartition(*pair) for pair in pairs] for member, pairs in vector["expected"].items()}
