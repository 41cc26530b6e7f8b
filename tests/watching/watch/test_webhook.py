"""Verdicts are posted: what a real HTTP server gets, when it refuses, is away or slow, and what nobody is told."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from group_coordinator.command_line.errors import HIDDEN, message_and_exit_code
from group_coordinator.command_line.options import load_as
from group_coordinator.ground.settings.loading import ConfigError
from group_coordinator.watching.commands.watch_settings import WatchSettings
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.watch import webhook
from group_coordinator.watching.watch.webhook import Form, Webhook
from schemas.events import encode_json
from tests.command_line.histories import crash
from tests.waiting import wait_until
from tests.watching.dashboard.values_source import ValuesSource

SECRET = "s3cr3t-of-nobody"


class Receiver(ThreadingHTTPServer):
    """It gives the answers that it is told to, and then 200; and keeps what came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int] = []
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.gate = threading.Event()
        self.gate.set()

    def url(self, path: str = f"/hooks/{SECRET}?key={SECRET}", user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.gate.wait()
        headers = {name.lower(): text for name, text in self.headers.items()}
        self.server.got.append((self.path, headers, json.loads(body)))
        code = self.server.answers.pop(0) if self.server.answers else 200
        self.send_response(code)
        if code == 302:
            self.send_header("Location", self.server.url("/elsewhere"))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()


class Groups:
    """The rows that a test wants."""

    def __init__(self) -> None:
        index = Index()
        ValuesSource("r", [encode_json(record) for record in crash()]).start(index)
        (self.well,) = index.rows(index.last_ms)
        self.rows: list[Group] = [self.well]
        self.is_ready = True
        self.asked = 0

    def ready(self) -> bool:
        self.asked += 1
        return self.is_ready

    def become(self, verdict: str, severity: int, reason: str = "it stands still", group_id: str = "") -> None:
        group_id = group_id or self.well.group_id
        changes = {"verdict": verdict, "severity": severity, "reason": reason, "group_id": group_id}
        self.rows = [msgspec.structs.replace(self.well, **changes)]


def started(
    receiver: Receiver, groups: Groups, form: Form = "cloudevents", url: str = "", look_s: float = 0.01
) -> Webhook:
    return Webhook(url or receiver.url(), form, "prod:9092", lambda: groups.rows, groups.ready, look_s, retry_s=0.01)


def outcomes(hook: Webhook) -> dict[str, float]:
    return {value.labels[0]: value.value for value in hook.values() if isinstance(value.value, int | float)}


def test_begin_and_end_of_a_verdict(receiver: Receiver) -> None:
    """As CloudEvents 1.0 has it in JSON: the attributes that it requires, and the group as the API has it."""
    groups = Groups()
    with started(receiver, groups) as hook:
        groups.become("stalled", 3)
        wait_until(lambda: len(receiver.got) == 1)
        groups.become("losing", 3)
        wait_until(lambda: len(receiver.got) == 3)
        groups.rows = []
        wait_until(lambda: outcomes(hook) == {"delivered": 4, "lost": 0, "waiting": 0})
    for path, headers, event in receiver.got:
        assert path == f"/hooks/{SECRET}?key={SECRET}"
        assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
        assert event.keys() == {
            "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data",
        }  # fmt: skip
        assert event["specversion"] == "1.0"
        assert event["subject"] == event["data"]["group"]["group_id"] == groups.well.group_id
    events = [event for _, _, event in receiver.got]
    assert len({(event["source"], event["id"]) for event in events}) == 4
    assert [(event["type"].rpartition(".")[2], event["data"]["verdict"]) for event in events] == [
        ("began", "stalled"), ("ended", "stalled"), ("began", "losing"), ("ended", "losing"),
    ]  # fmt: skip
    first, second = events[0]["data"], events[1]["data"]
    assert first["verdict_id"] == second["verdict_id"]
    assert (first["ended_ms"], second["began_ms"]) == (None, first["began_ms"])


def test_what_passes_and_what_is_not_read_yet_is_no_news(receiver: Receiver) -> None:
    groups = Groups()
    hook = started(receiver, groups)
    groups.become("rebalancing", 1)
    hook.look()
    assert outcomes(hook)["waiting"] == 0
    groups.is_ready = False
    groups.become("stalled", 3)
    with hook:
        wait_until(lambda: groups.asked > 5)
        assert receiver.got == []
        groups.is_ready = True
        wait_until(lambda: len(receiver.got) == 1)


def test_a_server_that_fails_is_tried_again_and_one_that_refuses_is_not(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is told of the address but its host."""
    groups = Groups()
    receiver.answers = [503, 429, 200, 404, 302]
    with caplog.at_level(logging.DEBUG), started(receiver, groups) as hook:
        groups.become("stalled", 3)
        wait_until(lambda: outcomes(hook)["delivered"] == 1)
        assert [event["id"] for _, _, event in receiver.got] == [receiver.got[0][2]["id"]] * 3
        groups.become("stable", 0)
        wait_until(lambda: outcomes(hook) == {"delivered": 1, "lost": 1, "waiting": 0})
        groups.become("stalled", 3)
        wait_until(lambda: outcomes(hook) == {"delivered": 1, "lost": 2, "waiting": 0})
    assert len(receiver.got) == 5
    assert "it answers 503" in caplog.text
    assert "it answers 404" in caplog.text
    assert SECRET not in caplog.text


def test_nobody_is_there_and_the_oldest_give_way(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """It stops while it is tried again, and while the other side is silent."""
    monkeypatch.setattr(webhook, "QUEUE_MAX", 3)
    groups = Groups()
    receiver.gate.clear()
    with caplog.at_level(logging.DEBUG), started(receiver, groups, look_s=3_600) as hook:
        for number in range(5):
            groups.become("stalled", 3, group_id=f"g{number}")
            hook.look()
        assert outcomes(hook)["waiting"] == 3
        assert outcomes(hook)["lost"] == 6
    closed = receiver.url().replace(str(receiver.server_address[1]), "1")
    with caplog.at_level(logging.DEBUG), started(receiver, groups, url=closed):
        wait_until(lambda: "Connection refused" in caplog.text)
    assert "were not posted" in caplog.text
    assert SECRET not in caplog.text


def test_slack_and_a_login(receiver: Receiver) -> None:
    """What clients have chosen is no markup there."""
    groups = Groups()
    with started(receiver, groups, "slack", receiver.url(user="bot:p%40ss@")):
        groups.become("stalled", 3, "<!channel> & more", "a`b")
        wait_until(lambda: len(receiver.got) == 1)
        groups.become("stable", 0, group_id="a`b")
        wait_until(lambda: len(receiver.got) == 2)
    _, headers, began = receiver.got[0]
    assert headers["content-type"].startswith("application/json")
    assert headers["authorization"] == "Basic Ym90OnBAc3M="
    assert began == {"text": ":warning: Group `a'b` is stalled: &lt;!channel&gt; &amp; more."}
    assert "no longer stalled" in receiver.got[1][2]["text"]


@pytest.mark.parametrize("address", ["hooks.example/x", "ftp://h/x", "https:///x", "https://h:x/", "https://h/a b"])
def test_what_is_no_address_is_refused_without_it(address: str) -> None:
    with pytest.raises(ConfigError) as refused:
        WatchSettings(webhook=address)
    assert "webhook is no address" in str(refused.value)
    assert address not in str(refused.value)


def test_the_address_is_never_shown() -> None:
    url = f"https://hooks.example/{SECRET}"
    resolved = load_as(WatchSettings, {"webhook": url}, None)
    assert resolved.config.webhook == url
    assert SECRET not in "\n".join(resolved.lines())
    assert message_and_exit_code(OSError(f"cannot post to {url}"))[0] == f"cannot post to {HIDDEN}"
