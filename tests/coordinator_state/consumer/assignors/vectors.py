"""What Kafka's own server-side assignors answered (4.3.1), as recorded in the fixtures."""

from __future__ import annotations

import json
import lzma
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from coordinator_state.consumer.assignors import (
    AssignorGroup,
    AssignorMember,
    AssignorTopic,
    GroupAssignment,
    SubscriptionType,
)
from schemas.wire import uuid_text

FIXTURES = Path(__file__).parents[3] / "fixtures" / "server_assignors"

Vector = dict[str, Any]
Shares = dict[str, dict[str, list[int]]]
"""Member id -> topic id -> partitions, ascending."""


def read_fixture(name: str) -> str:
    return lzma.decompress((FIXTURES / name).read_bytes()).decode()


@cache
def topic_id(base64: str) -> str:
    """A topic id as Kafka prints it, as text with hyphens."""
    return uuid_text(urlsafe_b64decode(base64 + "=="))


def random_vectors() -> Iterator[Vector]:
    """Groups whose members, topics and subscriptions change from round to round, `<case>.<round>`."""
    return map(json.loads, read_fixture("server_assignor_vectors.jsonl.xz").splitlines())


def group_of(vector: Vector) -> AssignorGroup:
    ids = _topic_ids(vector)
    members = [
        AssignorMember(
            member_id=member["member_id"],
            subscribed_topic_ids=tuple(ids[topic] for topic in member["topics"]),
            target=tuple((ids[topic], tuple(partitions)) for topic, partitions in member["current"]),
            instance_id=member.get("instance_id"),
            rack_id=member.get("rack_id"),
        )
        for member in vector["members"]
    ]
    return AssignorGroup(
        tuple(members),
        {topic_id(topic[0]): AssignorTopic(topic[2]) for topic in vector["topics"]},
        SubscriptionType(vector["subscription_type"].title()),
    )


def expected_shares(vector: Vector) -> Shares:
    ids = _topic_ids(vector)
    return {
        member["member_id"]: {ids[topic]: partitions for topic, partitions in share}
        for member, share in zip(vector["members"], vector["expected"], strict=True)
    }


def unit_test_vectors() -> list[Vector]:
    """The groups of Kafka's own unit tests, and some more.

    Left out are those of topics that do not exist, which the coordinator never hands to an assignor, and those of
    `uniform` with equal subscriptions: their maps are sorted ones, which a group never has.
    """
    vectors: list[Vector] = json.loads(read_fixture("server_assignors_4_3_1.json.xz"))["vectors"]
    return [
        vector
        for vector in vectors
        if "expected" in vector and (vector["assignor"], vector["subscription_type"]) != ("uniform", "homogeneous")
    ]


def group_of_unit_test(vector: Vector) -> AssignorGroup:
    topics = {topic_id(topic["topic_id"]): AssignorTopic(topic["partitions"]) for topic in vector["topics"]}
    members = [
        AssignorMember(
            member["member_id"],
            tuple(map(topic_id, member["topic_ids"])),
            tuple((topic_id(topic), tuple(partitions)) for topic, partitions in member.get("current_assignment", ())),
            member.get("instance_id"),
            member.get("rack_id"),
        )
        for member in vector["members"]
    ]
    return AssignorGroup(tuple(members), topics, SubscriptionType(vector["subscription_type"].title()))


def expected_of_unit_test(vector: Vector) -> Shares:
    expected = vector["expected"] or {member["member_id"]: {} for member in vector["members"]}
    return {
        member_id: {topic_id(topic): partitions for topic, partitions in topics.items()}
        for member_id, topics in expected.items()
    }


def shares(assignment: GroupAssignment) -> Shares:
    return {
        member_id: {topic: sorted(partitions) for topic, partitions in target}
        for member_id, target in assignment.items()
    }


def _topic_ids(vector: Vector) -> list[str]:
    return [topic_id(topic[0]) for topic in vector["topics"]] + list(map(topic_id, vector["deleted_topics"]))
