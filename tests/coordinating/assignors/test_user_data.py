"""The user data of the sticky assignors, byte for byte, and what is made of bytes that others send."""

from __future__ import annotations

import gzip
import json
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinating.assignors import ASSIGNORS
from group_coordinator.coordinating.assignors.sticky import (
    decode_generation,
    decode_sticky_user_data,
    encode_generation,
    encode_sticky_user_data,
)
from group_coordinator.coordinating.assignors.sticky_claims import Claim
from schemas.consumer_protocol import TopicPartition
from tests.coordinating.assignors.vectors import load_vectors, members_of

PROTOCOL_VECTORS = Path(__file__).parents[2] / "fixtures/vectors/protocol_vectors.json.gz"
FOO = [TopicPartition("foo", 0), TopicPartition("foo", 1)]
FOO_GENERATION_4 = bytes.fromhex("00000001 0003666f6f 00000002 00000000 00000001 00000004")


def content(claim: Claim) -> tuple[list[tuple[str, int]], int | None]:
    return list(claim.partitions), claim.generation_id


def protocol_vectors(kind: str) -> list[dict[str, Any]]:
    vectors = json.loads(gzip.decompress(PROTOCOL_VECTORS.read_bytes()))["vectors"]
    return [vector for vector in vectors if vector["kind"] == kind]


@pytest.mark.parametrize("vector", protocol_vectors("StickyAssignorUserData"), ids=itemgetter("name"))
def test_sticky_vectors(vector: dict[str, Any]) -> None:
    data, fields = bytes.fromhex(vector["hex"]), vector["fields"]
    topics = fields["previous_assignment"]
    partitions = [TopicPartition(topic["topic"], number) for topic in topics for number in topic["partitions"]]
    assert content(decode_sticky_user_data(data)) == (partitions, fields.get("generation"))


@pytest.mark.parametrize("vector", protocol_vectors("CooperativeStickyAssignorUserData"), ids=itemgetter("name"))
def test_cooperative_vectors(vector: dict[str, Any]) -> None:
    data, generation = bytes.fromhex(vector["hex"]), vector["fields"]["generation"]
    assert decode_generation(data) == generation
    assert encode_generation(generation) == data


def test_sticky_bytes() -> None:
    assert ASSIGNORS["sticky"].subscription_user_data(FOO, 4) == FOO_GENERATION_4
    assert content(decode_sticky_user_data(FOO_GENERATION_4)) == (FOO, 4)


def test_sticky_has_none_before_the_first_assignment() -> None:
    assert ASSIGNORS["sticky"].subscription_user_data(None, -1) is None
    assert ASSIGNORS["sticky"].subscription_user_data([], 1) == bytes.fromhex("00000000 00000001")


def test_cooperative_sticky_always_says_its_generation() -> None:
    assignor = ASSIGNORS["cooperative-sticky"]
    assert assignor.subscription_user_data(None, -1) == bytes.fromhex("ffffffff")
    assert assignor.subscription_user_data(FOO, 4) == bytes.fromhex("00000004")


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_the_stateless_ones_say_nothing(name: str) -> None:
    assert ASSIGNORS[name].subscription_user_data(FOO, 4) is None


def test_what_kafka_wrote_is_read_and_written_again() -> None:
    """Topics in the order of Java's map: the very bytes that Kafka's own unit tests made.

    Written from the end, as the map turns the order of topics in a bucket around.
    """
    unit_tests = [vector for vector in load_vectors("sticky_assignor") if vector["source"].startswith("kafka unit")]
    blobs = [member.subscription.user_data for vector in unit_tests for member in members_of(vector)]
    read = [(blob, content(decode_sticky_user_data(blob))) for blob in blobs if blob]
    with_generation = [(blob, partitions, number) for blob, (partitions, number) in read if number is not None]
    assert len(with_generation) > 100
    for blob, partitions, number in with_generation:
        topics = [[TopicPartition(*pair) for pair in pairs] for _, pairs in groupby(partitions, itemgetter(0))]
        assert encode_sticky_user_data(chain.from_iterable(reversed(topics)), number) == blob


def test_before_kip_341_there_is_no_generation() -> None:
    assert content(decode_sticky_user_data(FOO_GENERATION_4[:-4])) == (FOO, None)
    assert content(decode_sticky_user_data(FOO_GENERATION_4[:-1])) == (FOO, None)


@pytest.mark.parametrize("nothing", [None, b""])
def test_no_user_data_claim_nothing(nothing: bytes | None) -> None:
    assert content(decode_sticky_user_data(nothing)) == ([], None)
    assert decode_generation(nothing) is None


@pytest.mark.parametrize(
    "damaged",
    [
        FOO_GENERATION_4[:12],
        FOO_GENERATION_4[:-5],
        bytes.fromhex("00000001 ffff"),
        bytes.fromhex("00000001 0003666f6f ffffffff 00000004"),
        bytes.fromhex("ffffffff 00000004"),
        bytes.fromhex("7fffffff 00000004"),
        b"\x01",
    ],
)
def test_damaged_sticky_data_claim_nothing(damaged: bytes) -> None:
    assert content(decode_sticky_user_data(damaged)) == ([], -1)


@given(st.binary(max_size=40))
def test_no_bytes_are_too_strange(user_data: bytes) -> None:
    partitions, generation_id = content(decode_sticky_user_data(user_data))
    assert len(partitions) * 4 <= len(user_data)
    assert generation_id is None or -(2**31) <= generation_id < 2**31
    decode_generation(user_data)


@given(st.integers(-1, 2**31 - 1), st.binary(max_size=3))
def test_generation_of_a_cooperative_member(generation_id: int, after: bytes) -> None:
    assert decode_generation(encode_generation(generation_id) + after) == generation_id


@given(st.binary(min_size=1, max_size=3))
def test_too_short_for_a_generation(user_data: bytes) -> None:
    assert decode_generation(user_data) == -1


@given(
    st.lists(st.builds(TopicPartition, st.sampled_from(["a", "b", "日本", "😀"]), st.integers(0, 9)), unique=True),
    st.integers(-1, 99),
)
def test_sticky_data_come_back(owned_partitions: list[TopicPartition], generation_id: int) -> None:
    partitions, decoded = content(decode_sticky_user_data(encode_sticky_user_data(owned_partitions, generation_id)))
    assert decoded == generation_id
    assert sorted(partitions) == sorted(owned_partitions)
    for topic in {topic for topic, _ in owned_partitions}:  # inside a topic the order is kept
        assert [p for p in partitions if p[0] == topic] == [p for p in owned_partitions if p.topic == topic]
