"""The estimated size of a published group is that of its record, about, whatever makes the record large."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state import Group, publication
from coordinator_state.classic.group import CONSUMER, ClassicGroup
from coordinator_state.classic.kind import snapshot as snapshot_of
from coordinator_state.classic.member import Member
from coordinator_state.config import GroupConfig
from schemas.consumer_protocol import Assignment, TopicPartition, encode_assignment
from schemas.events import encode_json
from schemas.history import (
    AssignedTopic,
    GroupSnapshot,
    SnapshotConsumerMember,
    SnapshotMember,
    SnapshotSubscription,
)

LONG = "n" * 240


def names(count: int, prefix: str = LONG) -> tuple[str, ...]:
    return tuple([f"{prefix}{number:05}" for number in range(count)])


def assigned(topics: int, partitions: int, prefix: str = "t") -> tuple[AssignedTopic, ...]:
    return tuple([AssignedTopic(topic=name, partitions=tuple(range(partitions))) for name in names(topics, prefix)])


def member(**fields: Any) -> SnapshotMember:
    plain: dict[str, Any] = {
        "member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/10.0.0.1",
        "session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000, "metadata": b"", "assignment": b"",
        "partitions": (),
    }  # fmt: skip
    return SnapshotMember(**plain | fields)


def consumer(**fields: Any) -> SnapshotConsumerMember:
    plain: dict[str, Any] = {
        "member_epoch": 1, "previous_member_epoch": 0, "state": "stable", "target": None, "pending_revocation": (),
        "revoking_since_ms": None, "subscribed_topics": (), "subscribed_regex": None, "server_assignor": None,
        "rack_id": None, "uses_classic_protocol": False,
    }  # fmt: skip
    return SnapshotConsumerMember(**plain | fields)


def subscription(**fields: Any) -> SnapshotSubscription:
    plain: dict[str, Any] = {
        "topics": (), "regexes": {}, "resolving_since_ms": None, "metadata_hash": 1, "topics_version": 1,
    }  # fmt: skip
    return SnapshotSubscription(**plain | fields)


def group(*members: SnapshotMember, **fields: Any) -> GroupSnapshot:
    return GroupSnapshot(
        group_id="g", epoch=1, seq=1, time_ms=1, timestamp_ms=1, state="Stable", state_since_ms=1, generation_id=1,
        protocol_type="consumer", protocol_name="range", leader_id=None, members=members, **fields,
    )  # fmt: skip


LARGE = {
    "members": group(*[member(partitions=assigned(1, 10))] * 1_000),
    "consumer members": group(*[member(partitions=assigned(1, 10), consumer=consumer())] * 1_000),
    "ids": group(*[member(member_id=LONG, group_instance_id=LONG, client_id=LONG, client_host=LONG)] * 200),
    "racks and regular expressions": group(*[member(consumer=consumer(rack_id=LONG, subscribed_regex=LONG))] * 200),
    "names of assigned topics": group(member(partitions=assigned(1_000, 1, LONG))),
    "names beyond ASCII": group(member(consumer=consumer(subscribed_topics=names(1_000, "\N{SNOWMAN}" * 80)))),
    "partitions": group(member(partitions=assigned(10, 9_000))),
    "targets": group(member(consumer=consumer(target=assigned(900, 9), pending_revocation=assigned(900, 9)))),
    "what the members' protocol brings": group(member(metadata=bytes(300_000), assignment=bytes(300_000))),
    "subscribed topics": group(member(), subscription=subscription(topics=names(1_000))),
    "topics of regular expressions": group(member(), subscription=subscription(regexes={"n.*": names(1_000)})),
    "regular expressions": group(member(), subscription=subscription(regexes=dict.fromkeys(names(1_000)))),
    "topics of open transactions": group(member(), pending_topics=names(1_000)),
}


@pytest.mark.parametrize("what", LARGE)
def test_the_estimate_is_about_the_size_of_the_record(what: str) -> None:
    snapshot = LARGE[what]
    size = len(encode_json(snapshot))
    assert size > publication.AT_ONCE_BYTES_MAX, "the record is a large one"
    assert 2 / 3 < publication.estimated_bytes(snapshot) / size < 3 / 2
    assert publication.publication_interval_ms(snapshot) > 0


@given(
    members=st.integers(1, 20), topics=st.integers(0, 800), partitions=st.integers(0, 2_000),
    name=st.sampled_from(("", "n", "\N{SNOWMAN}", LONG[:20])), metadata_bytes=st.integers(0, 9_000),
)  # fmt: skip
def test_what_is_taken_for_small_without_a_count_is_small(
    members: int, topics: int, partitions: int, name: str, metadata_bytes: int
) -> None:
    owned = [TopicPartition(topic=f"{name}{topic:x}", partition=0) for topic in range(topics)]
    owned += [TopicPartition(topic=name, partition=number) for number in range(partitions)]
    assignment = encode_assignment(Assignment(partitions=tuple(owned), user_data=b""))
    body = ClassicGroup(protocol_name="range")
    for number in range(members):
        protocols = (("range", bytes(metadata_bytes)),)
        body.add_member(Member(f"{name}{number}", None, name, name, 1, 1, protocols, assignment), CONSUMER)
    snapshot = snapshot_of(Group("g", 0, body), 1, GroupConfig())
    assert not body.is_small or publication.publication_interval_ms(snapshot) == 0


def test_a_group_of_a_few_members_is_small_without_a_count() -> None:
    body = ClassicGroup(protocol_name="range")
    protocols = (("range", bytes(100)),)
    for number in range(10):
        body.add_member(Member(f"member-{number}", None, "c", "/h", 1, 1, protocols, bytes(100)), CONSUMER)
    assert body.is_small
