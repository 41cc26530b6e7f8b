"""A thread that a defect ends is told in the log, by the probes and in the metrics, and by every page."""

from __future__ import annotations

import json
import logging
import sys
import threading
import urllib.request
from collections.abc import Iterator
from urllib.error import HTTPError

import pytest
from prometheus_client import CollectorRegistry

from group_coordinator.ground.monitoring.server import published_metrics
from group_coordinator.ground.settings.operations import OperationsSettings
from group_coordinator.ground.system.ended_threads import ended_threads, forget_ended_threads, note_ended_threads
from group_coordinator.proving.embedded_kafka.broker import free_port
from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.index import Index


class Well:
    def not_live(self) -> list[str]:
        return []

    def not_ready(self) -> list[str]:
        return []


@pytest.fixture(autouse=True)
def noted() -> Iterator[None]:
    before = threading.excepthook
    note_ended_threads()
    yield
    threading.excepthook = before
    forget_ended_threads()


def run_in_thread(work: object) -> None:
    thread = threading.Thread(target=work, name="reader-of-ends")  # type: ignore[arg-type]
    thread.start()
    thread.join()


def fail() -> None:
    raise ValueError("embedded null character")


def test_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    settings = OperationsSettings(metrics_port=free_port())
    endpoint = f"http://127.0.0.1:{settings.metrics_port}"
    with published_metrics(settings, CollectorRegistry(), Well(), "test"):
        assert json.load(urllib.request.urlopen(f"{endpoint}/health/ready"))["status"] == "ok"
        assert b"group_coordinator_ended_threads 0.0" in urllib.request.urlopen(f"{endpoint}/metrics").read()
        with caplog.at_level(logging.ERROR):
            run_in_thread(fail)
        with pytest.raises(HTTPError) as answer:
            urllib.request.urlopen(f"{endpoint}/health/ready")
        assert answer.value.code == 503
        (reason,) = json.load(answer.value)["reasons"]
        assert "reader-of-ends" in reason
        assert "embedded null character" in reason
        assert b"group_coordinator_ended_threads 1.0" in urllib.request.urlopen(f"{endpoint}/metrics").read()
        assert json.load(urllib.request.urlopen(f"{endpoint}/health/live"))["status"] == "ok"
    assert "Traceback" in caplog.text
    assert Documents(Index()).overview().doubts == (reason,)


def test_a_thread_that_ends_itself_is_none() -> None:
    run_in_thread(sys.exit)
    assert ended_threads() == []
