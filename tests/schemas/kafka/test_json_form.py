"""Kafka's JSON of messages and records: round trips, what Kafka's own tools print, damage."""

from __future__ import annotations

import gzip
import json
from random import Random
from typing import Any

import pytest

from schemas.kafka.codec import decode, encode
from schemas.kafka.definitions import definition_of
from schemas.kafka.json_form import JsonFormError, from_json, to_json
from tests.each_version import in_each_version
from tests.schemas.kafka.random_values import random_values
from tests.schemas.kafka.vectors import FIXTURES, VECTORS, VERSIONED

EXCHANGES: list[dict[str, Any]] = list(
    map(json.loads, gzip.decompress((FIXTURES / "kafka_json.jsonl.gz").read_bytes()).splitlines())
)
_VERSION_BYTES = 2


@in_each_version(VERSIONED)
def test_round_trip(name: str, version: int) -> None:
    random = Random(f"json{name}{version}")
    for _ in range(3):
        values = random_values(definition_of(name), version, random)
        body = json.loads(json.dumps(to_json(name, version, values)))
        assert from_json(name, version, body) == values


def test_what_brokers_printed() -> None:
    """Requests and answers of Kafka 4.3.1, to the order of their fields, but for one that is renamed in 4.4."""
    for exchange in EXCHANGES:
        request, body = f"{exchange['api']}Request", exchange["request"]
        if exchange["api"] == "TxnOffsetCommit":
            body = {"generationIdOrMemberEpoch" if name == "generationId" else name: body[name] for name in body}
        values = from_json(request, exchange["version"], body)
        assert json.dumps(to_json(request, exchange["version"], values)) == json.dumps(body)
        response = f"{exchange['api']}Response"
        answer = {"throttleTimeMs": 0, **exchange["response"]}
        values = from_json(response, exchange["version"], answer)
        printed = to_json(response, exchange["version"], values)
        assert {"throttleTimeMs": 0, **printed} == answer


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_what_kafkas_tools_print_of_records(vector: dict[str, Any]) -> None:
    if vector["key_hex"] and "dump_log_key" in vector:
        key = bytes.fromhex(vector["key_hex"])
        printed = json.loads(vector["dump_log_key"])
        name = "LegacyOffsetCommitKey" if printed["type"] == "0" else f"{vector['record']}Key"
        assert printed["data"] == to_json(name, 0, decode(name, 0, key, _VERSION_BYTES))
    if vector["value_hex"]:
        value, name = bytes.fromhex(vector["value_hex"]), f"{vector['record']}Value"
        version = int.from_bytes(value[:_VERSION_BYTES])
        values = decode(name, version, value, _VERSION_BYTES)
        assert value[_VERSION_BYTES:] == encode(name, version, values)
        assert to_json(name, version, values) == vector["value"]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ([], "expected an object"),
        ({"groupId": "g", "generationId": 1}, "field memberId is missing"),
        ({"groupId": None, "generationId": 1, "memberId": "m"}, "null is no value of groupId"),
        ({"groupId": 5, "generationId": 1, "memberId": "m"}, "groupId cannot be '5'"),
        ({"groupId": "g", "generationId": True, "memberId": "m"}, "generationId cannot be 'True'"),
        ({"groupId": "g", "generationId": 2**31, "memberId": "m"}, "generationId cannot be '2147483648'"),
    ],
)
def test_damage(body: object, complaint: str) -> None:
    with pytest.raises(JsonFormError, match=complaint):
        from_json("HeartbeatRequest", 0, body)


@pytest.mark.parametrize("topic_id", ["", "T1-A4s3VTwiI5CTbEp6PO", "é", 5, [], None])
def test_what_is_no_uuid(topic_id: object) -> None:
    with pytest.raises(JsonFormError):
        from_json(
            "OffsetCommitResponse", 10, {"throttleTimeMs": 0, "topics": [{"topicId": topic_id, "partitions": []}]}
        )
