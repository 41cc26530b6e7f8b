"""Subscriptions and assignments: Kafka's bytes, round trips, damage."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import consumer_protocol as protocol
from schemas.consumer_protocol import Assignment, Subscription, TopicPartition
from schemas.kafka import codec
from schemas.wire import INT16, DecodeError, EncodeError

VECTORS: list[dict[str, Any]] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "fixtures/vectors/protocol_vectors.json.gz").read_bytes())
)["vectors"]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)
PARTITIONS = st.lists(st.builds(TopicPartition, TEXT, INT32), max_size=12).map(tuple)
USER_DATA = st.none() | st.binary(max_size=40)
SUBSCRIPTIONS = st.builds(
    Subscription,
    topics=st.lists(TEXT, max_size=6).map(tuple),
    user_data=USER_DATA,
    owned_partitions=PARTITIONS,
    generation_id=st.integers(min_value=-1, max_value=2**31 - 1),
    rack_id=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
)
ASSIGNMENTS = st.builds(Assignment, partitions=PARTITIONS, user_data=USER_DATA)
DECODERS: list[Callable[[bytes], object]] = [protocol.decode_subscription, protocol.decode_assignment]


def of_kind(kind: str) -> pytest.MarkDecorator:
    chosen = [vector for vector in VECTORS if vector["kind"] == kind]
    assert chosen
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector["name"])


def partitions(topics: list[dict[str, Any]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic["topic"], number) for topic in topics for number in topic["partitions"])


def user_data(fields: dict[str, Any]) -> bytes | None:
    return None if fields["userData"] is None else b64decode(fields["userData"])


@of_kind("ConsumerProtocolSubscription")
def test_subscription_vectors(vector: dict[str, Any]) -> None:
    data, fields = bytes.fromhex(vector["hex"]), vector["fields"]
    subscription = protocol.decode_subscription(data)
    assert subscription == Subscription(
        topics=tuple(fields["topics"]),
        user_data=user_data(fields),
        owned_partitions=partitions(fields.get("ownedPartitions", [])),
        generation_id=fields.get("generationId", -1),
        rack_id=fields.get("rackId"),
    )
    assert protocol.encode_subscription(subscription, vector["version"]) == data
    assert protocol.subscribed_topics(data) == subscription.topics


@of_kind("ConsumerProtocolAssignment")
def test_assignment_vectors(vector: dict[str, Any]) -> None:
    data, fields = bytes.fromhex(vector["hex"]), vector["fields"]
    assignment = protocol.decode_assignment(data)
    assert assignment == Assignment(partitions=partitions(fields["assignedPartitions"]), user_data=user_data(fields))
    assert protocol.encode_assignment(assignment, vector["version"]) == data


def test_java_client_sorts_by_utf16_unit() -> None:
    """The bytes are those of a sorted subscription, whatever order the member had."""
    ordered = Subscription(
        topics=("a", "\U0001f600", "\uffe6"),
        owned_partitions=(TopicPartition("a", 2), TopicPartition("a", 10), TopicPartition("\U0001f600", 0)),
    )
    shuffled = Subscription(topics=ordered.topics[::-1], owned_partitions=ordered.owned_partitions[::-1])
    encoded = protocol.encode_subscription(shuffled)
    assert encoded == protocol.encode_subscription(ordered)
    assert protocol.decode_subscription(encoded) == ordered


def test_an_assignment_keeps_the_order_of_the_assignor() -> None:
    interleaved = (TopicPartition("b", 3), TopicPartition("a", 0), TopicPartition("b", 1))
    decoded = protocol.decode_assignment(protocol.encode_assignment(Assignment(partitions=interleaved)))
    assert decoded.partitions == (TopicPartition("b", 3), TopicPartition("b", 1), TopicPartition("a", 0))


def test_a_topic_may_come_twice() -> None:
    """kafka-python's sticky assignor sends such assignments."""
    data = bytes.fromhex("0000 00000002 0001 61 00000001 00000004 0001 61 00000001 00000002 ffffffff")
    assert protocol.decode_assignment(data).partitions == (TopicPartition("a", 4), TopicPartition("a", 2))


def test_librdkafka_sends_an_empty_rack_for_none() -> None:
    data = bytes.fromhex("0003 00000001 00066f7264657273 00000000 00000000 ffffffff 0000")
    assert protocol.decode_subscription(data) == Subscription(topics=("orders",), user_data=b"")


def test_a_negative_generation_is_none() -> None:
    data = protocol.encode_subscription(Subscription(topics=()), 2)[:-4] + b"\x80\x00\x00\x00"
    assert protocol.decode_subscription(data).generation_id == -1


@pytest.mark.parametrize("version", [4, 32_767])
def test_a_later_version_reads_as_3(version: int) -> None:
    subscription = Subscription(topics=("t",), owned_partitions=(TopicPartition("t", 0),), generation_id=5, rack_id="r")
    assignment = Assignment(partitions=(TopicPartition("t", 1),), user_data=b"u")
    head = version.to_bytes(2, "big")
    appended = b"what later versions append"
    assert (
        protocol.decode_subscription(head + protocol.encode_subscription(subscription)[2:] + appended) == subscription
    )
    assert protocol.decode_assignment(head + protocol.encode_assignment(assignment)[2:] + appended) == assignment


@pytest.mark.parametrize("decode", DECODERS)
def test_a_negative_version_is_an_error(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(DecodeError, match="version -1"):
        decode(b"\xff\xff" + bytes(40))


@pytest.mark.parametrize("version", [-1, 4])
def test_versions_that_do_not_exist_cannot_be_written(version: int) -> None:
    with pytest.raises(EncodeError):
        protocol.encode_subscription(Subscription(topics=()), version)
    with pytest.raises(EncodeError):
        protocol.encode_assignment(Assignment(), version)


@pytest.mark.parametrize("version", ["ffff", "0000", "0001", "0007"])
def test_subscribed_topics_reads_the_body_of_version_0_whatever_the_version(version: str) -> None:
    body = bytes.fromhex(version + "00000002 0001 62 0001 61 ffffffff")
    assert protocol.subscribed_topics(body) == ("b", "a")
    assert protocol.subscribed_topics(body + b"anything") == ("b", "a")


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "00",
        "0000",
        "0000 ffffffff ffffffff",
        "0000 7fffffff ffffffff",
        "0000 00000001 0005 61",
        "0000 00000001 ffff ffffffff",
        "0000 00000000",
        "0000 00000000 00000001",
    ],
)
def test_subscribed_topics_of_damaged_metadata_are_unknown(damaged: str) -> None:
    assert protocol.subscribed_topics(bytes.fromhex(damaged)) is None


@given(SUBSCRIPTIONS, st.integers(min_value=0, max_value=3))
def test_subscriptions_round_trip(subscription: Subscription, version: int) -> None:
    encoded = protocol.encode_subscription(subscription, version)
    decoded = protocol.decode_subscription(encoded)
    assert protocol.encode_subscription(decoded, version) == encoded
    assert sorted(decoded.topics) == sorted(subscription.topics)
    assert decoded.user_data == subscription.user_data
    assert sorted(decoded.owned_partitions) == (sorted(subscription.owned_partitions) if version >= 1 else [])
    assert decoded.generation_id == (subscription.generation_id if version >= 2 else -1)
    assert decoded.rack_id == (subscription.rack_id if version >= 3 else None)


@given(SUBSCRIPTIONS, ASSIGNMENTS, st.integers(min_value=0, max_value=3))
def test_what_is_written_is_read_by_kafkas_definitions(
    subscription: Subscription, assignment: Assignment, version: int
) -> None:
    """And written as they do."""
    for name, encoded in (
        ("ConsumerProtocolSubscription", protocol.encode_subscription(subscription, version)),
        ("ConsumerProtocolAssignment", protocol.encode_assignment(assignment, version)),
    ):
        assert codec.encode(name, version, codec.decode(name, version, encoded, INT16.size)) == encoded[INT16.size :]


@given(ASSIGNMENTS, st.integers(min_value=0, max_value=3))
def test_assignments_round_trip(assignment: Assignment, version: int) -> None:
    encoded = protocol.encode_assignment(assignment, version)
    decoded = protocol.decode_assignment(encoded)
    assert protocol.encode_assignment(decoded, version) == encoded
    assert sorted(decoded.partitions) == sorted(assignment.partitions)
    assert decoded.user_data == assignment.user_data


def decode_everything(data: bytes) -> None:
    protocol.subscribed_topics(data)
    for decode in DECODERS:
        with suppress(DecodeError):
            decode(data)


@given(st.binary(max_size=80))
def test_random_bytes(data: bytes) -> None:
    decode_everything(data)


@given(SUBSCRIPTIONS.map(protocol.encode_subscription) | ASSIGNMENTS.map(protocol.encode_assignment), st.data())
def test_damaged_bytes(encoded: bytes, draw: st.DataObject) -> None:
    cut = draw.draw(st.integers(min_value=0, max_value=len(encoded)))
    decode_everything(encoded[:cut])
    flipped = bytearray(encoded)
    bit = draw.draw(st.integers(min_value=0, max_value=8 * len(encoded) - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    decode_everything(bytes(flipped))


@given(SUBSCRIPTIONS)
def test_every_truncation_of_a_subscription_is_noticed(subscription: Subscription) -> None:
    encoded = protocol.encode_subscription(subscription)
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            protocol.decode_subscription(encoded[:size])
