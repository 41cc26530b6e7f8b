"""The server: what it answers, whom it lets in, what it tells of new things."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import threading
import time
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlencode

import pytest

from group_coordinator.ground.http_server.access import Access, App, Receive, Scope, Send
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.server import RunningServer, start_server
from group_coordinator.watching.dashboard.sources import SourceError
from schemas.events import encode_json
from schemas.history import Cause, GroupCreated
from tests.watching.dashboard import scene
from tests.watching.dashboard.http import ask, document, port_of
from tests.watching.dashboard.values_source import ValuesSource

CAUSE = Cause(kind="request", partition=0, offset=0)


def test_documents(served: RunningServer) -> None:
    overview = document(served, "/api/v1/overview")
    assert (overview["groups"], overview["is_live"], overview["has_what_if"]) == (8, False, False)
    rows = document(served, "/api/v1/groups")["groups"]
    assert [row["group_id"] for row in rows] == sorted(row["group_id"] for row in rows)
    page = document(served, "/api/v1/group-over-time?group=payments")
    expired = next(entry for entry in page["rebalances"] if entry["trigger"] == "member_expired")
    story = document(served, f"/api/v1/rebalance?group=payments&rebalance={expired['key']}")
    assert "payments-b" in story["rebalance"]["cause"]
    assert story["steps"][0]["text"].endswith("is heard for the last time")
    assert story["steps"][0]["cause"]["member_id"].startswith("payments-b")
    assert {entry["member_id"][:10] for entry in story["waited_for"]} == {"payments-a", "payments-c"}
    events = document(served, "/api/v1/events?group=payments&kind=member_expired")["events"]
    assert [entry["group_id"] for entry in events] == ["payments"]
    assert document(served, "/api/v1/events?contains=EXPIRES")["events"]


def test_what_is_not_there_and_what_is_no_number(served: RunningServer) -> None:
    assert ask(served, "/api/v1/group-over-time?group=nowhere")[0] == 404
    assert ask(served, "/api/v1/past-groups?at_ms=yesterday")[0] == 400
    assert ask(served, "/api/v1/what-if?group=payments")[0] == 404
    assert ask(served, "/api/v1/request?partition=0&offset=1")[0] == 404
    assert ask(served, "/static/../server.py")[0] == 404


def test_it_changes_nothing(served: RunningServer) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(served, "/api/v1/groups", method)[0] == 405


def test_large_documents_are_compressed(served: RunningServer) -> None:
    _, headers, body = ask(served, "/api/v1/groups", accept_encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(body)) == document(served, "/api/v1/groups")


def test_the_page_may_load_nothing_from_elsewhere(served: RunningServer) -> None:
    _, headers, body = ask(served, "/")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "connect-src 'self'" in headers["content-security-policy"]
    assert b"http://" not in body.replace(b"http://www.w3.org", b"")
    assert b"https://" not in body


def test_on_loopback_only_this_machine_is_answered(served: RunningServer) -> None:
    for host in ("localhost:1", "127.0.0.1:1", "[::1]:1", "127.0.0.1"):
        assert ask(served, "/api/v1/overview", host=host)[0] == 200, host
    for host in ("evil.example", "evil.example:8450", "127.0.0.1.evil.example", ""):
        assert ask(served, "/api/v1/overview", host=host)[0] == 403, host


def test_elsewhere_the_token_is_needed() -> None:
    with start_server(ValuesSource("x", scene.values()[:50]), host="0.0.0.0") as server:
        token = server.address.split("?token=")[1]
        assert len(token) >= 24
        for path in ("/", "/api/v1/overview", "/static/main.js", "/api/stream", "/?token=wrong"):
            assert ask(server, path)[0] == 401, path
        assert ask(server, "/api/v1/overview", authorization=f"Bearer {token}", host="anything")[0] == 200
        assert ask(server, "/api/v1/overview", authorization="Bearer wrong")[0] == 401
        status, headers, _ = ask(server, f"/?x=1&token={token}")
        assert (status, headers["location"]) == (303, "/?x=1")
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert ask(server, "/api/v1/overview", cookie=cookie.split(";")[0])[0] == 200


OTHER_COOKIES = [
    "a=1; b/c=2", "a@b=1", "x[y]=1", "a,b=1", "\xff=1", 'a="unclosed', "=", "expires=1", "k{}=1", "a=b c",
    "path=/; secure", "a=;;; ;", "$Version=1", '"', "group_coordinator_dashboard_2=x", "a=\x01", "x" * 4_000,
    "group_coordinator_dashboard=x", "group_coordinator_dashboard",
]  # fmt: skip


@pytest.mark.parametrize("other", OTHER_COOKIES)
@pytest.mark.parametrize("token", ["a-token", 'päss wörd;,="', "日本"])
def test_cookies_of_others_lock_nobody_out(other: str, token: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    access = Access(app, name="dashboard", token=token, local_only=False)
    visit = {
        "type": "http", "method": "GET", "path": "/", "query_string": urlencode({"token": token}).encode(),
        "headers": [],
    }  # fmt: skip
    _, headers = _request(access, visit)
    own_cookie = headers[b"set-cookie"].split(b";")[0]
    for cookies in (other.encode("latin-1") + b"; " + own_cookie, own_cookie + b"; " + other.encode("latin-1")):
        scope = {**visit, "query_string": b"", "headers": [(b"cookie", cookies)]}
        assert _request(access, scope)[0] == 200, cookies
    assert _request(access, {**visit, "query_string": b"", "headers": [(b"cookie", other.encode("latin-1"))]})[0] == 401


def test_a_cookie_of_an_older_release_has_the_token_itself() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    access = Access(app, name="dashboard", token="a-token", local_only=False)
    for value, status in (("a-token", 200), ("b-token", 401), ("", 401)):
        cookie = f"b/c=2; group_coordinator_dashboard={value}".encode()
        visit = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"cookie", cookie)]}
        assert _request(access, visit)[0] == status


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/", "/"),
        ("//evil.example/", "/evil.example/"),
        ("///evil.example", "/evil.example"),
        ("/\\evil.example/", "/%5Cevil.example/"),
        ("/日/page", "/%E6%97%A5/page"),
        ("/\r\nX-Injected: 1", "/%0D%0AX-Injected%3A%201"),
        ("/a b?c#d", "/a%20b%3Fc%23d"),
    ],
)
def test_the_way_on_from_the_first_visit_stays_on_this_host(path: str, location: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nobody is let in by the address alone")

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"token=t", "headers": []}
    status, headers = _request(Access(app, name="dashboard", token="t", local_only=False), scope)
    assert (status, headers[b"location"].decode()) == (303, location)


def _request(app: App, scope: Scope) -> tuple[int, dict[bytes, bytes]]:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    return sent[0]["status"], dict(sent[0]["headers"])


HOSTILE_GROUPS = [
    "a\r\nb",
    "line\nend",
    "\x1b]0;title\x07",
    "..",
    ".",
    "a/b",
    "a/page",
    "%2e%2e",
    "日本",
    "a?b#c&d=e",
    "\u202egnp",
    "nul\0",
]


@pytest.mark.parametrize("group_id", HOSTILE_GROUPS)
def test_every_group_can_be_opened(group_id: str) -> None:
    record = GroupCreated(group_id=group_id, epoch=0, seq=1, time_ms=1, timestamp_ms=1, generation_id=0, cause=CAUSE)
    with start_server(ValuesSource("x", [encode_json(record)])) as server:
        page = document(server, f"/api/v1/group-over-time?{urlencode({'group': group_id})}")
        assert page["group"]["group_id"] == group_id
        assert ask(server, f"/api/v1/rebalance?{urlencode({'group': group_id, 'rebalance': '0-1'})}")[0] == 404


def test_what_is_new_is_told() -> None:
    values = scene.values()
    with start_server(ValuesSource("growing", values[:500])) as server:
        connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=10)
        connection.request("GET", "/api/stream")
        answer = connection.getresponse()
        assert answer.getheader("content-type", "").startswith("text/event-stream")
        text = _read_until(answer, b"event: clock")
        for value in values[500:520]:
            server.index.add(value)
        text += _read_until(answer, b"event: events")
        assert b"event: rows" in text
        connection.close()


def _read_until(answer: http.client.HTTPResponse, end: bytes) -> bytes:
    text, deadline_s = b"", time.monotonic() + 10
    while end not in text and time.monotonic() < deadline_s:
        text += answer.readline()
    assert end in text
    return text + answer.readline()


def test_a_port_that_is_taken_and_a_source_that_cannot_be_read(served: RunningServer) -> None:
    with pytest.raises(SourceError, match="Cannot listen"):
        start_server(ValuesSource("x", []), port=port_of(served))

    class Broken(ValuesSource):
        def start(self, index: Index) -> None:
            raise SourceError("no such thing")

    with pytest.raises(SourceError, match="no such thing"):
        start_server(Broken("x", []))


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
