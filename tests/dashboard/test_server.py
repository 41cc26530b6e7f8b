"""The server: what it answers, whom it lets in, what it tells of new things."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
import time

import pytest

from dashboard.index import Index
from dashboard.server import RunningServer, serve, start_server
from dashboard.sources import SourceError, ValuesSource
from tests.dashboard import scene
from tests.dashboard.http import ask, document, port_of


def test_documents(served: RunningServer) -> None:
    overview = document(served, "/api/overview")
    assert (overview["groups"], overview["live"], overview["what_if"]) == (8, False, False)
    rows = document(served, "/api/groups")["rows"]
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    page = document(served, "/api/groups/payments/page")
    expired = next(each for each in page["rebalances"] if each["trigger"] == "member_expired")
    told = document(served, f"/api/groups/payments/rebalances/{expired['key']}")
    assert "payments-b" in told["because"]
    assert told["steps"][0]["text"].endswith("is heard for the last time")
    assert told["steps"][0]["request"]["member"].startswith("payments-b")
    assert {each["name"][:10] for each in told["waited"]} == {"payments-a", "payments-c"}
    events = document(served, "/api/events?group=payments&type=member_expired")["events"]
    assert [each["group"] for each in events] == ["payments"]
    assert document(served, "/api/events?q=EXPIRES")["events"]


def test_what_is_not_there_and_what_is_no_number(served: RunningServer) -> None:
    assert ask(served, "/api/groups/nowhere/page")[0] == 404
    assert json.loads(ask(served, "/api/groups/nowhere/page")[2])["error"] == "There is no group nowhere."
    assert ask(served, "/api/groups?at=yesterday")[0] == 400
    assert ask(served, "/api/groups/payments/what-if")[0] == 404
    assert ask(served, "/api/request?partition=0&offset=1")[0] == 404
    assert ask(served, "/static/../server.py")[0] == 404


def test_it_changes_nothing(served: RunningServer) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(served, "/api/groups", method)[0] == 405


def test_large_documents_are_compressed(served: RunningServer) -> None:
    _, headers, body = ask(served, "/api/groups", accept_encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(body)) == document(served, "/api/groups")


def test_the_page_may_load_nothing_from_elsewhere(served: RunningServer) -> None:
    _, headers, body = ask(served, "/")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "connect-src 'self'" in headers["content-security-policy"]
    assert b"http://" not in body.replace(b"http://www.w3.org", b"")
    assert b"https://" not in body


def test_on_loopback_only_this_machine_is_answered(served: RunningServer) -> None:
    for host in ("localhost:1", "127.0.0.1:1", "[::1]:1", "127.0.0.1"):
        assert ask(served, "/api/overview", host=host)[0] == 200, host
    for host in ("evil.example", "evil.example:8450", "127.0.0.1.evil.example", ""):
        assert ask(served, "/api/overview", host=host)[0] == 403, host


def test_elsewhere_the_token_is_needed() -> None:
    with start_server(ValuesSource("x", scene.values()[:50]), host="0.0.0.0") as server:
        token = server.address.split("?token=")[1]
        assert len(token) >= 24
        for path in ("/", "/api/overview", "/static/main.js", "/api/stream", "/?token=wrong"):
            assert ask(server, path)[0] == 401, path
        assert ask(server, "/api/overview", authorization=f"Bearer {token}", host="anything")[0] == 200
        assert ask(server, "/api/overview", authorization="Bearer wrong")[0] == 401
        status, headers, _ = ask(server, f"/?x=1&token={token}")
        assert (status, headers["location"]) == (303, "/?x=1")
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert ask(server, "/api/overview", cookie=cookie.split(";")[0])[0] == 200


def test_what_is_new_is_told() -> None:
    values = scene.values()
    with start_server(ValuesSource("growing", values[:500])) as server:
        connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=10)
        connection.request("GET", "/api/stream")
        answer = connection.getresponse()
        assert answer.getheader("content-type", "").startswith("text/event-stream")
        seen = _read_until(answer, b"event: clock")
        for value in values[500:520]:
            server.index.add(value)
        seen += _read_until(answer, b"event: events")
        assert b"event: rows" in seen
        connection.close()


def _read_until(answer: http.client.HTTPResponse, wanted: bytes) -> bytes:
    seen, deadline_s = b"", time.monotonic() + 10
    while wanted not in seen and time.monotonic() < deadline_s:
        seen += answer.readline()
    assert wanted in seen
    return seen + answer.readline()


def test_a_port_that_is_taken_and_a_source_that_cannot_be_read(served: RunningServer) -> None:
    with pytest.raises(SourceError, match="Cannot listen"):
        start_server(ValuesSource("x", []), port=port_of(served))

    class Broken(ValuesSource):
        def start(self, index: Index) -> None:
            raise SourceError("no such thing")

    with pytest.raises(SourceError, match="no such thing"):
        serve(Broken("x", []), port=0)


def test_stop_ends_it_though_somebody_listens(caplog: pytest.LogCaptureFixture) -> None:
    server = start_server(ValuesSource("x", scene.values()[:50]))
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=10)
    connection.request("GET", "/api/stream")
    connection.getresponse().readline()
    stopper = threading.Thread(target=server.stop)
    stopper.start()
    stopper.join(10)
    assert not stopper.is_alive()
    connection.close()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
