"""The codec against kafka-python's in every message and version; headers; and what costs no time.

Against kio's and against damage: `tests/schemas/kafka/test_codec.py`."""

from __future__ import annotations

import time
from random import Random

import pytest

from group_coordinator.coordinating.gateway.codec import body_start, response_body_start, response_payload
from group_coordinator.coordinating.gateway.frames import parse_request_head
from schemas.kafka.codec import decode, encode
from schemas.wire import DecodeError, EncodeError, encode_count
from tests.coordinating.gateway.random_messages import MESSAGES, random_message, wire_class
from tests.each_version import in_each_version

_EACH = 10


@in_each_version(MESSAGES)
def test_reads_and_writes_what_kafka_python_does(message: str, version: int) -> None:
    random = Random(f"{message}{version}")
    for _ in range(_EACH):
        kafka_python_message, values = random_message(message, version, random)
        encoded = bytes(kafka_python_message.encode(version=version))
        assert decode(message, version, encoded) == values
        assert encode(message, version, values) == encoded


@in_each_version(each for each in MESSAGES if each[0].endswith("Request"))
def test_headers_of_requests(message: str, version: int) -> None:
    random = Random(f"head{message}{version}")
    kafka_python_message, values = random_message(message, version, random)
    for client_id in ("me", "", None, "é" * 500):
        kafka_python_message.with_header(correlation_id=77, client_id=client_id)
        payload = bytes(kafka_python_message.encode(version=version, header=True))
        head = parse_request_head(payload)
        assert head is not None
        assert (head.api_key, head.api_version, head.correlation_id, head.client_id) == (
            kafka_python_message.API_KEY,
            version,
            77,
            client_id,
        )
        assert decode(message, version, payload, body_start(message, head, payload)) == values


def test_headers_of_responses() -> None:
    values = {"error_code": 27}
    for version in range(5):
        kafka_python_message = wire_class("HeartbeatResponse")(version=version, error_code=27)
        kafka_python_message.with_header(correlation_id=5)
        payload = response_payload("HeartbeatResponse", version, 5, values)
        assert payload == bytes(kafka_python_message.encode(header=True))
        start = response_body_start("HeartbeatResponse", version)
        assert decode("HeartbeatResponse", version, payload, start)["error_code"] == 27


def test_unknown_tagged_fields_are_skipped() -> None:
    """A newer client may add some (KIP-482); kio for one would cut it off."""
    _, values = random_message("HeartbeatRequest", 4, Random(1))
    encoded = encode("HeartbeatRequest", 4, values)
    assert encoded.endswith(b"\x00")
    assert decode("HeartbeatRequest", 4, encoded[:-1] + b"\x02\x07\x03abc\x09\x00") == values


@pytest.mark.parametrize("payload", [b"\xff" * 1_000_000, b"\x80" * 1_000_000, b"\x81\x80\x80\x80\x08" * 200_000])
def test_numbers_and_counts_without_an_end_cost_no_time(payload: bytes) -> None:
    since = time.process_time()
    for message, version in MESSAGES:
        with pytest.raises(DecodeError):
            decode(message, version, payload)
    assert time.process_time() - since < 10


def test_many_tags_in_a_large_frame_cost_time_in_proportion_to_its_size() -> None:
    members = 100_000
    body = b"\x02g" + encode_count(members, compact=True) + b"\x01\x00\x00\x01\x07\x00" * members + b"\x00"
    since = time.process_time()
    read = decode("LeaveGroupRequest", 5, body)
    assert len(read["members"]) == members
    assert time.process_time() - since < 10


def test_null_where_a_version_has_none() -> None:
    with pytest.raises(EncodeError):
        encode("JoinGroupResponse", 6, {"protocol_name": None, "leader": "", "member_id": "", "members": ()})
    with pytest.raises(DecodeError, match="null string"):
        decode("HeartbeatRequest", 0, b"\xff\xff" + b"\x00\x00\x00\x01" + b"\x00\x00")
