"""Lines of request logs: their times in all the forms that loggers write, and what is damaged."""

from __future__ import annotations

import json
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from group_coordinator.proving.recordings.request_lines import LoggedRequest, read_line
from group_coordinator.watching.broker_logs.line_times import LineError

HEARTBEAT = {
    "isForwarded": False,
    "requestHeader": {
        "requestApiKey": 12,
        "requestApiVersion": 4,
        "correlationId": 7,
        "clientId": "a",
        "requestApiKeyName": "HEARTBEAT",
    },
    "request": {"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": None},
    "response": {"throttleTimeMs": 0, "errorCode": 0},
    "connection": "10.1.2.3:9092-10.9.8.7:45546-0-2",
    "totalTimeMs": 12.5,
    "requestQueueTimeMs": 1.25,
    "localTimeMs": 2.0,
    "remoteTimeMs": 0.0,
    "throttleTimeMs": 0,
    "responseQueueTimeMs": 0.5,
    "sendTimeMs": 0.25,
    "securityProtocol": "PLAINTEXT",
    "principal": "User:ANONYMOUS",
}
AT = datetime(2026, 11, 21, 12, 45, 15, 885_000, UTC)
AT_US = round(AT.timestamp() * 1000) * 1000


def line(
    prefix: str = "[2026-11-21 12:45:15,885] DEBUG ", suffix: str = " (kafka.request.logger)", **changes: object
) -> bytes:
    return f"{prefix}Completed request:{json.dumps(HEARTBEAT | changes)}{suffix}\n".encode()


def request(text: bytes, time_zone: tzinfo = UTC) -> LoggedRequest:
    read = read_line(text, 0, 1, time_zone)
    assert read is not None
    assert read.request is not None
    return read.request


def test_what_a_line_says() -> None:
    read = request(line())
    assert (read.api, read.api_version, read.client_id, read.client_host) == ("Heartbeat", 4, "a", "/10.9.8.7")
    assert read.logged_us == AT_US
    assert read.arrival_us == AT_US - 12_500
    assert read.handled_us == AT_US - 11_250
    assert read.ready_us == AT_US - 750
    assert json.loads(read.response) == {"throttleTimeMs": 0, "errorCode": 0}


@pytest.mark.parametrize(
    "prefix",
    [
        "[2026-11-21 12:45:15,885] DEBUG ",
        "2026-11-21 12:45:15,885 DEBUG [kafka-network-thread-1] ",
        "2026-11-21T12:45:15.885Z [data-plane] DEBUG kafka.request.logger - ",
        "2026-11-21T13:45:15.885+01:00 DEBUG ",
        "2026-11-21 07:15:15.885 -0530 DEBUG ",
        "21 Nov 2026 12:45:15,885 DEBUG ",
        f"{AT_US // 1000} DEBUG ",
        "2026-11-21T12:45:16.001234567Z stdout F [2026-11-21 12:45:15,885] DEBUG ",
        "kafka-1  | 2026-11-21T12:45:15.885000Z DEBUG ",
        "[2026-11-21 13:45:15,885+01] DEBUG ",
        "[2026-11-21 13:45:15,885 +01] DEBUG ",
        "2026-11-21 13:45:15.885 (+0100) DEBUG ",
        "[2026-11-21 13:45:15,885 GMT+01:00] DEBUG ",
        "[2026-11-21 12:45:15,885 UTC] DEBUG ",
        "2026-11-21 12:45:15,885 GMT DEBUG ",
        "2026-11-21T13:45:15.885+01:00[Europe/Berlin] DEBUG ",
        "[2026-11-21 13:45:15,885 Europe/Berlin] DEBUG ",
        "21 Nov 2026 13:45:15,885 +0100 DEBUG ",
        "2026-11-21 12:45:15,885 PM DEBUG ",
        "2026-11-21 01:45:15,885 p.m. +0100 DEBUG ",
    ],
)
def test_forms_of_time(prefix: str) -> None:
    assert request(line(prefix)).logged_us == AT_US


def test_time_zone_of_lines_that_name_none() -> None:
    new_york = ZoneInfo("America/New_York")
    assert request(line("[2026-11-21 07:45:15,885] DEBUG "), new_york).logged_us == AT_US
    assert request(line("2026-11-21T12:45:15.885Z "), new_york).logged_us == AT_US


def test_a_zone_by_the_name_that_the_given_one_has_then() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first, again = (request(line(f"[2026-10-25 02:30:00,000 {name}] "), berlin).logged_us for name in ("CEST", "CET"))
    assert again == first + 3600 * 1_000_000
    for name in ("CET", "Central European Standard Time", "PST", "MSK", "Nowhere/At_All"):
        read = read_line(line(f"[2026-11-21 12:45:15,885 {name}] DEBUG "), 0, 1, UTC)
        assert read is not None
        assert (read.logged_us, read.unknown_zone) == (AT_US, name)


def test_words_behind_a_time_that_are_no_zone() -> None:
    for behind in (
        " DEBUG",
        "] DEBUG",
        "] INFO [Thing]",
        " TRACE",
        " - DEBUG",
        " [kafka-network-thread-1]",
        " stdout F",
        " kafka1 KAFKA",
    ):
        read = read_line(line(f"2026-11-21 12:45:15,885{behind} "), 0, 1, UTC)
        assert read is not None
        assert (read.logged_us, read.unknown_zone) == (AT_US, None)


@pytest.mark.parametrize(
    ("connection", "host"),
    [
        ("127.0.0.1:9092-127.0.0.1:45546-0-2", "/127.0.0.1"),
        ("127.0.0.1:9092-127.0.0.1:45546-0", "/127.0.0.1"),
        ("0:0:0:0:0:0:0:1:9092-0:0:0:0:0:0:0:1:45546-0-2", "/0:0:0:0:0:0:0:1"),
    ],
)
def test_client_host_is_written_as_java_does(connection: str, host: str) -> None:
    assert request(line(connection=connection)).client_host == host


def test_other_lines_are_none() -> None:
    assert read_line(b"[2026-11-21 12:45:15,885] INFO [GroupCoordinator id=1] Stabilized group g\n", 0, 1, UTC) is None


@pytest.mark.parametrize(
    "other",
    [
        b"\n",
        b"[2026-11-21 12:45:15,885] INFO Log loaded (kafka.log)\n",
        b"java.lang.IllegalStateException: Completed\n",
        b"\tat kafka.Kafka.main(Kafka.scala:1)\n",
        b"\x1b[33mWARN\x1b[0m in colours\r\n",
        "[2026-11-21 12:45:15,885] INFO Größe\n".encode(),
        b"[2026-11-21 12:45:15,885] TRACE Processor 1 received request: RequestHeader(...) (kafka.request.logger)\n",
        b"2026-11-21 12:45:15,885 INFO Completed load of Log(dir=/tmp) (kafka.log.Log)\n",
    ],
)
def test_lines_of_other_loggers_are_not_damaged(other: bytes) -> None:
    assert read_line(other, 0, 1, UTC) is None


def test_what_is_foreign_around_a_request_is_said_and_the_request_read() -> None:
    for changed in (b"\x00" * 500 + line(), line().rstrip(b"\n") + b"\xff\xfe\n"):
        read = read_line(changed, 0, 1, UTC)
        assert read is not None
        assert read.request == request(line())
        assert read.foreign is not None
    read = read_line(b"\xef\xbb\xbf" + line(), 0, 1, UTC)
    assert read is not None
    assert read.foreign is None


def test_a_time_that_comes_twice_does_not_go_back() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = request(line("[2026-10-25 02:30:00,000] "), berlin).logged_us
    again = read_line(line("[2026-10-25 02:10:00,000] "), 0, 2, berlin, not_before_us=first)
    assert again is not None
    assert again.logged_us == first + 40 * 60 * 1_000_000


@pytest.mark.parametrize("body", [{"acks": 0}, "", None])
@pytest.mark.parametrize("api_key", [0, 1, 3, 18, 76])
def test_requests_of_other_kinds_have_a_time_only(api_key: int, body: object) -> None:
    """What there is not to print is an empty text, from Kafka 4.4 on null."""
    header = HEARTBEAT["requestHeader"] | {"requestApiKey": api_key}  # type: ignore[operator]
    read = read_line(line(requestHeader=header, request=body, response=body), 0, 1, UTC)
    assert read is not None
    assert read.request is None
    assert read.logged_us == AT_US


def test_answers_to_metadata_tell_topic_ids() -> None:
    header = HEARTBEAT["requestHeader"] | {"requestApiKey": 3}  # type: ignore[operator]
    response = {
        "brokers": [{"nodeId": 1, "host": "localhost", "port": 9092, "rack": None}],
        "topics": [{"name": "t", "topicId": "yYT9PLz_QtWszuitHlLHsQ"}],
    }
    read = read_line(line(requestHeader=header, response=response), 0, 1, UTC)
    assert read is not None
    assert read.cluster is not None
    assert [(seen.name, seen.topic_id) for seen in read.cluster.sightings] == [
        ("t", "c984fd3c-bcff-42d5-acce-e8ad1e52c7b1")
    ]


@pytest.mark.parametrize(
    "damaged",
    [
        line()[:200],
        b"[2026-11-21 12:45:15,885] DEBUG Completed request:\n",
        b"[2026-11-21 12:45:15,885] DEBUG Completed request:RequestHeader(apiKey=HEARTBEAT) -- {}\n",
        line(prefix="DEBUG "),
        line(prefix="12:45:15,885 DEBUG "),
        line(prefix="[2026-13-21 12:45:15,885] DEBUG "),
        line(prefix="[2026-11-21 13:45:15,885 PM] DEBUG "),
        line(prefix="[2026-11-21 13:45:15,885+99:00] DEBUG "),
        line(connection="somewhere"),
        line(totalTimeMs=1e308),
        line().replace(b'"clientId": "a"', b'"clientId": "\xff"'),
        line()[:33],
        line()[:40],
        line()[:25],
        line()[:6],
        line(prefix="2026-11-21T12:45:15.885Z [data-plane] DEBUG ")[:48],
        line()[70:],
        b"\x00\x01\x02\n",
        b"\xff\xfe bytes\n",
        line().rstrip(b"\n") + line(),
    ],
)
def test_damaged_lines(damaged: bytes) -> None:
    with pytest.raises(LineError):
        read_line(damaged, 0, 1, UTC)
