"""Live and ready, over HTTP and as a file."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from group_coordinator.ground.http_server.server import HttpServer
from group_coordinator.ground.monitoring.health import STALE_AFTER_S, START_LIMIT_S, Health
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.ground.monitoring.server import CONNECTIONS_MAX, operations_server


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def working(clock: Callable[[], float], file: Path | None = None) -> Health:
    health = Health((0, 1), file, clock)
    health.polled()
    for shard in (0, 1):
        health.batch_ended(shard)
    return health


def test_ready_when_every_shard_has_ended_a_batch() -> None:
    health = Health((0, 1), None, Clock())
    assert health.not_live() == []
    health.batch_ended(0)
    assert health.not_ready() == ["shard 1 has not ended a batch yet"]
    health.batch_ended(1)
    assert health.not_ready() == []


def test_a_silent_shard_is_named_while_the_process_stays_alive() -> None:
    clock = Clock()
    health = working(clock)
    clock.now_s += STALE_AFTER_S + 1
    health.polled()
    health.tick_written(0)
    assert health.not_live() == []
    (reason,) = health.not_ready()
    assert reason.startswith("shard 1 ")
    health.tick_written(1)
    assert health.not_ready() == []


def test_a_loop_that_no_longer_turns_is_not_alive() -> None:
    clock = Clock()
    health = working(clock)
    clock.now_s += STALE_AFTER_S + 1
    assert health.not_live()


def test_a_start_that_never_ends_is_not_alive() -> None:
    clock = Clock()
    health = Health((0,), None, clock)
    clock.now_s += START_LIMIT_S
    assert health.not_live() == []
    clock.now_s += 1
    assert health.not_live() == ["the app has been starting for 901 s"]


def test_the_file_is_as_old_as_the_last_sign_of_the_most_silent_shard(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "health"
    health = Health((0, 1), file, clock)
    health.batch_ended(0)
    assert not file.exists(), "the other shard has not been heard of"
    health.batch_ended(1)
    assert time.time() - file.stat().st_mtime < 5
    clock.now_s += 100
    health.tick_written(0)
    health.tick_written(0)
    assert abs(time.time() - file.stat().st_mtime) < 5, "nothing is newer for both"
    clock.now_s += 50
    health.tick_written(1)
    assert 45 < time.time() - file.stat().st_mtime < 55


def test_a_file_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    working(Clock(), tmp_path / "no such directory" / "health")


def get(url: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["Content-Type"], refused.read()


def test_the_endpoint() -> None:
    clock = Clock()
    health = working(clock)
    with operations_server("127.0.0.1", 0, Metrics().registry, health) as server:
        status, kind, body = get(f"{server.url}/metrics")
        assert status == 200
        assert kind.startswith("text/plain")
        assert b"# TYPE group_coordinator_events_total counter" in body
        assert get(f"{server.url}/health/ready")[0] == 200
        clock.now_s += STALE_AFTER_S + 1
        status, _, body = get(f"{server.url}/health/live")
        assert status == 503
        assert "queries" in json.loads(body)["reasons"][0]
        assert get(f"{server.url}/health/ready")[0] == 503
        assert get(f"{server.url}/etc/passwd")[0] == 404
        # The port is taken: told by an error, before anything else starts.
        with pytest.raises(OSError, match="in use"):
            operations_server("127.0.0.1", int(server.url.rpartition(":")[2]), Metrics().registry, health)


def test_a_responder_that_does_not_answer_makes_the_coordinator_slow_and_not_unready() -> None:
    clock, responders = Clock(), {0: ("answering", ""), 1: ("answering", "")}
    health = working(clock)
    with operations_server("127.0.0.1", 0, Metrics().registry, health, lambda: responders) as server:

        def ready() -> tuple[int, dict[str, Any]]:
            status, _, body = get(f"{server.url}/health/ready")
            return status, json.loads(body)

        answering = {"0": "answering", "1": "answering"}
        assert ready() == (200, {"status": "ok", "reasons": [], "responders": answering})
        responders[1] = ("fallen_back", "it has ended with code 1")
        status, body = ready()
        assert (status, body["status"], body["responders"]) == (200, "degraded", {**answering, "1": "fallen_back"})
        (reason,) = body["reasons"]
        assert "shard 1" in reason
        assert "it has ended with code 1" in reason
        assert "responders" not in json.loads(get(f"{server.url}/health/live")[2])
        clock.now_s += STALE_AFTER_S + 1
        status, body = ready()
        assert (status, body["status"], body["responders"]["1"]) == (503, "failing", "fallen_back")
        assert reason in body["reasons"]


def ready(health: Health) -> tuple[int, dict[str, Any]]:
    """Return the answer of `/health/ready`."""
    registry = Metrics().registry
    with operations_server("127.0.0.1", 0, registry, health, degraded=health.degraded) as server:
        try:
            with urllib.request.urlopen(f"{server.url}/health/ready") as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as answer:
            return answer.code, json.loads(answer.read())


def test_ready_is_not_ok_while_the_record_is_minutes_behind_what_is_answered() -> None:
    """A responder answers, and the query's batch takes minutes; ticks go on."""
    health = working(Clock())
    for shard in (0, 1):
        health.decided(shard, 1_000_000)
        health.clock_stands_at(shard, 1_013_000)  # in a log at rest
    assert ready(health) == (200, {"status": "ok", "reasons": []})
    health.clock_stands_at(1, 1_000_000 + 490_000)
    status, answer = ready(health)
    (reason,) = answer["reasons"]
    assert (status, answer["status"]) == (200, "degraded")
    assert reason.startswith("the query of shard 1 is 490 s behind what is answered")
    health.decided(1, 1_485_000)
    assert ready(health)[1]["status"] == "ok"


def test_a_clock_that_is_behind_wall_time_after_a_pause_is_no_record_that_is_behind() -> None:
    """It catches up by a tenth of real speed, for hours, and the query is with it."""
    health = working(Clock())
    health.decided(0, 1_000)
    health.clock_stands_at(0, 2_000)
    assert health.degraded() == []


def test_a_shard_whose_groups_take_too_much_is_said_and_so_is_what_others_know() -> None:
    health = Health((0,), None, Clock(), state_alarm_bytes=100 << 20)
    health.state_takes(0, 100 << 20)
    assert health.degraded() == []
    health.state_takes(0, 300 << 20)
    health.further.append(lambda: ["ListGroups does not name all groups"])
    large, others = health.degraded()
    assert large.startswith("the groups of shard 0 take 300 MiB, more than state_alarm_bytes (100 MiB)")
    assert others == "ListGroups does not name all groups"


@pytest.fixture
def endpoint() -> Iterator[HttpServer]:
    with operations_server("127.0.0.1", 0, Metrics().registry, working(Clock())) as server:
        yield server


def status_of(url: str, path: str, host: str | None) -> int:
    address = urllib.parse.urlsplit(url)
    with socket.create_connection((address.hostname, address.port), 10) as connection:
        connection.sendall(
            f"GET {path} HTTP/1.0\r\n{f'Host: {host}' if host is not None else 'Accept: */*'}\r\n\r\n".encode()
        )
        return int(connection.makefile("rb").readline().split()[1])


@pytest.mark.parametrize("path", ["/metrics", "/health/live", "/health/ready", "/"])
def test_a_name_that_points_here_from_elsewhere_is_not_answered(endpoint: HttpServer, path: str) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:9090", "[::1]", "[::1]:1", None):
        assert status_of(endpoint.url, path, host) != 403, host
    for host in (
        "evil.example",
        "evil.example:8450",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "127.0.0.1@evil.example",
    ):
        assert status_of(endpoint.url, path, host) == 403, host


def test_silent_connections_keep_no_probe_out(endpoint: HttpServer) -> None:
    address = urllib.parse.urlsplit(endpoint.url)
    silent = [socket.create_connection((address.hostname, address.port), 10) for _ in range(3 * CONNECTIONS_MAX)]
    try:
        threads = threading.active_count()
        assert status_of(endpoint.url, "/health/live", "localhost") in (200, 503)
        assert threads < 2 * CONNECTIONS_MAX
    finally:
        for connection in silent:
            connection.close()
