"""A tap's log: lines as brokers write them, which the reader of request logs takes; files that are bounded."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from group_coordinator.coordinating.gateway.broker_side import as_java_prints
from group_coordinator.coordinating.gateway.codec import request_payload, response_payload
from group_coordinator.coordinating.gateway.frames import RequestHead, parse_request_head
from group_coordinator.coordinating.gateway.tap_log import (
    LOGGED_APIS,
    Exchange,
    LongAnswers,
    RequestLogLines,
    RotatedFile,
)
from group_coordinator.coordinating.gateway.versions import OtherApi
from group_coordinator.proving.recordings.request_lines import ReadLine, read_line
from schemas.kafka.codec import encode
from schemas.messages import ApiKey
from schemas.wire import INT16, INT32, DecodeError, encode_nullable_string

ANSWERED_US = 1_795_881_957_682_122
HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}


def exchange(
    api: str, key: int, version: int, request: dict[str, Any], response: dict[str, Any], client_id: str = "c"
) -> Exchange:
    blank = RequestHead(key, version, 7, None, 0)
    body = request_payload(f"{api}Request", blank, request)[10:]
    payload = INT16.pack(key) + INT16.pack(version) + INT32.pack(7) + encode_nullable_string(client_id) + body
    head = parse_request_head(payload)
    assert head is not None
    answer = response_payload(f"{api}Response", version, 7, response)
    if api == "ApiVersions":
        answer = INT32.pack(7) + encode("ApiVersionsResponse", version, response)
    return Exchange(
        head=head, request=payload, response=answer, connection="10.0.0.9:9092-10.0.0.5:40000",
        client_host="10.1.1.1", principal="User:alice", took_ms=1.25, answered_us=ANSWERED_US,
    )  # fmt: skip


def heartbeat(client_id: str = "c", **fields: Any) -> Exchange:
    return exchange("Heartbeat", ApiKey.HEARTBEAT, 4, HEARTBEAT | fields, {"error_code": 27}, client_id)


def read(line: bytes) -> ReadLine:
    parsed = read_line(line, 0, 1, UTC)
    assert parsed is not None
    assert parsed.foreign is None
    return parsed


def fields_of(line: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(line.partition(b"Completed request:")[2].rpartition(b" (")[0])
    return fields


def test_the_reader_of_request_logs_takes_a_line() -> None:
    request = read(RequestLogLines().line(heartbeat())).request
    assert request is not None
    assert (request.logged_us, request.arrival_us, request.ready_us) == (ANSWERED_US, ANSWERED_US - 1_250, ANSWERED_US)
    assert (request.api, request.api_version, request.correlation_id, request.client_id) == ("Heartbeat", 4, 7, "c")
    assert request.client_host == "/10.0.0.5", "as the broker sees it"
    assert request.is_tapped
    assert json.loads(request.request) == {
        "groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": None,
    }  # fmt: skip
    assert json.loads(request.response) == {"throttleTimeMs": 0, "errorCode": 27}


def test_a_line_says_who_asked() -> None:
    fields = fields_of(RequestLogLines().line(heartbeat()))
    assert (fields["principal"], fields["clientAddress"]) == ("User:alice", "10.1.1.1")
    assert fields["requestHeader"]["requestApiKeyName"] == "HEARTBEAT"


@pytest.mark.parametrize(
    "name", ["a\nb", 'a"}\\', "[2026-11-28 16:05:57,682] DEBUG Completed request:{", "\x00ü\u2028"]
)
def test_a_name_begins_no_line_and_ends_none(name: str) -> None:
    line = RequestLogLines().line(heartbeat(name, group_id=name, member_id=name))
    assert line.count(b"\n") == 1
    request = read(line).request
    assert request is not None
    assert (request.client_id, json.loads(request.request)["groupId"]) == (name, name)


def test_what_logs_a_client_in_is_not_logged() -> None:
    assert LOGGED_APIS.keys().isdisjoint({OtherApi.SASL_HANDSHAKE, OtherApi.SASL_AUTHENTICATE, 38, 39, 40, 41, 51})


def test_settings_that_may_be_secret_are_hidden() -> None:
    configs = ({"name": "x", "config_operation": 0, "value": "secret"},)
    resources = tuple(
        {"resource_type": kind, "resource_name": "r", "configs": tuple(dict(config) for config in configs)}
        for kind in (2, 4, 32)
    )
    line = RequestLogLines().line(
        exchange(
            "IncrementalAlterConfigs", OtherApi.INCREMENTAL_ALTER_CONFIGS, 1,
            {"resources": resources, "validate_only": False}, {"throttle_time_ms": 0, "responses": ()},
        )
    )  # fmt: skip
    told = [resource["configs"][0]["value"] for resource in fields_of(line)["request"]["resources"]]
    assert told == ["[hidden]", "[hidden]", "secret"]


def versions(metadata: int) -> Exchange:
    api_keys = ({"api_key": OtherApi.METADATA, "min_version": 0, "max_version": metadata},)
    return exchange(
        "ApiVersions", OtherApi.API_VERSIONS, 3,
        {"client_software_name": "n", "client_software_version": "1"}, {"error_code": 0, "api_keys": api_keys},
    )  # fmt: skip


@pytest.mark.parametrize(("metadata", "numbers"), [(12, 1), (13, 2)])
def test_connections_are_named_as_brokers_of_that_version_do(metadata: int, numbers: int) -> None:
    lines = RequestLogLines()
    lines.line(versions(metadata))
    assert len(fields_of(lines.line(heartbeat()))["connection"].split("-")[2:]) == numbers


@pytest.mark.parametrize(
    ("address", "printed"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "0:0:0:0:0:0:0:1"), ("fe80::1f:0a%eth0", "fe80:0:0:0:0:0:1f:a")],
)
def test_addresses_are_printed_as_in_the_offsets_topic(address: str, printed: str) -> None:
    assert as_java_prints(address) == printed


def test_each_connection_has_a_number_of_its_own() -> None:
    names = [fields_of(RequestLogLines().line(heartbeat()))["connection"] for _ in range(3)]
    assert len(set(names)) == 3


def topics(count: int, *, client_id: str = "c", asked: tuple[str, ...] | None = None) -> Exchange:
    told = tuple(
        {"error_code": 0, "name": f"topic-{number}", "is_internal": False, "partitions": ()} for number in range(count)
    )
    names = None if asked is None else tuple({"name": name} for name in asked)
    answer = {"brokers": (), "cluster_id": "x", "controller_id": 1, "topics": told}
    return exchange("Metadata", OtherApi.METADATA, 4, {"topics": names}, answer, client_id)


def test_long_answers_that_come_again_have_no_line() -> None:
    """Whoever asks; but each change has one, and what is short."""
    answers = LongAnswers()
    repeated = [
        answers.is_repeated(each)
        for each in (
            topics(2_000), topics(2_000, client_id="other"), topics(2_001), topics(2_001), topics(2_000),
            topics(2_000, asked=("a",)), topics(3), topics(3), heartbeat(), heartbeat(),
        )
    ]  # fmt: skip
    assert repeated == [False, True, False, True, False, False, False, False, False, False]


def test_an_answer_that_is_none_is_no_line() -> None:
    broken = heartbeat()
    broken = Exchange(**{name: getattr(broken, name) for name in broken.__struct_fields__} | {"response": b"\0" * 5})
    with pytest.raises(DecodeError):
        RequestLogLines().line(broken)


# ------------------------------------------------------------------------------------------------------------ files


def contents(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in sorted(path.parent.iterdir())}


def test_full_files_are_kept_up_to_a_number(tmp_path: Path) -> None:
    path = tmp_path / "tap.log"
    file = RotatedFile(path, file_bytes_max=4, files_max=3)
    for letter in b"abcdefg":
        file.write(bytes([letter]) + b"\n")
    file.close()
    assert contents(path) == {"tap.log": b"g\n", "tap.log.1": b"e\nf\n", "tap.log.2": b"c\nd\n"}


def test_a_line_that_is_longer_than_a_file_has_one_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "tap.log"
    file = RotatedFile(path, file_bytes_max=4, files_max=9)
    for line in (b"a\n", b"longer\n", b"b\n"):
        file.write(line)
    file.close()
    assert contents(path) == {"tap.log": b"b\n", "tap.log.1": b"longer\n", "tap.log.2": b"a\n"}


def test_a_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tap.log"
    for letter in (b"a\n", b"b\n", b"c\n"):
        file = RotatedFile(path, file_bytes_max=4, files_max=1)
        file.write(letter)
        file.close()
    assert contents(path) == {"tap.log": b"c\n"}
