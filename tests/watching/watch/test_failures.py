"""A defect of ours ends the watching of one cluster: that is said everywhere, and hides no other cluster."""

from __future__ import annotations

import json
import os
import signal
import threading
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import ClassVar
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.ground.monitoring.server import operations_server
from group_coordinator.watching.commands import watch
from group_coordinator.watching.commands.watch_outputs import open_outputs
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.server import start_server
from group_coordinator.watching.observed.polled import Polls
from group_coordinator.watching.watch import polling, source
from group_coordinator.watching.watch.clusters import ClusterSources
from group_coordinator.watching.watch.lag_metrics import LagSeries
from group_coordinator.watching.watch.metrics import WatchProbes, watch_metrics
from group_coordinator.watching.watch.polled_groups import Poll
from group_coordinator.watching.watch.writing import HistorySource, WrittenSource
from schemas.kafka.record_batches import RawRecord
from tests.command_line.calls import call, text_of
from tests.waiting import wait_until
from tests.watching.dashboard.http import document
from tests.watching.observed.pieces import mixed
from tests.watching.watch.recorded_source import Recorded
from tests.watching.watch.written import TOPICS, outputs

NAME = "old-3.9"
DEFECT = "a defect of ours"


class Broken(Recorded):
    """A cluster whose start fails for a reason that nobody expects."""

    def start(self, index: Index) -> None:
        raise RuntimeError(DEFECT)


def good(cluster: str) -> Recorded:
    recorded = Recorded(f"{cluster} ({NAME})", cluster)
    recorded.give(mixed(NAME, Random(1)))
    recorded.is_whole = True
    return recorded


def failing(cluster: str) -> Recorded:
    raise ValueError(f"{DEFECT} in making {cluster}")


def states(source: HistorySource) -> dict[str, str]:
    return {cluster: condition.state for cluster, condition in source.conditions().items()}


@pytest.mark.parametrize("make", [lambda: Broken("test", "test"), lambda: failing("test")])
def test_a_cluster_whose_start_fails(
    make: Callable[[], Recorded], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clusters = ClusterSources({"prod": lambda: good("prod"), "test": make})
    written = WrittenSource(clusters, open_outputs(outputs(tmp_path), TOPICS, clusters.name, has_clusters=True), 0.1)
    with ExitStack() as stack:
        server = stack.enter_context(start_server(written))
        metrics = watch_metrics(clusters, server.index, LagSeries(groups_max=5))
        endpoint = stack.enter_context(operations_server("127.0.0.1", 0, metrics.registry, WatchProbes(clusters)))
        wait_until(lambda: states(clusters) == {"prod": "watched", "test": "failed"})
        wait_until(lambda: (tmp_path / "report.html").exists())
        overview = document(server, "/api/v1/overview")
        assert any(sentence.startswith("test: it is not watched") for sentence in overview["doubts"])
        assert any(DEFECT in sentence for sentence in overview["doubts"])
        assert not overview["caught_up"]
        assert DEFECT in overview["progress"]
        (watched,) = [each for each in overview["watched"] if each["cluster"].startswith("test")]
        assert watched["sources"][0]["problem"] == "failed"
        assert {row["group_id"].split("/")[0] for row in document(server, "/api/v1/groups")["groups"]} == {"prod"}
        with pytest.raises(HTTPError) as answer:
            urllib.request.urlopen(f"{endpoint.url}/health/ready")
        assert answer.value.code == 503
        assert DEFECT in json.load(answer.value)["reasons"][0]
        assert json.load(urllib.request.urlopen(f"{endpoint.url}/health/live"))["status"] == "ok"
        families = text_string_to_metric_families(urllib.request.urlopen(f"{endpoint.url}/metrics").read().decode())
        values = {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}
    assert values["group_coordinator_ready",] == 0
    assert values["group_coordinator_watched_clusters", "failed"] == 1
    assert values["group_coordinator_watched_clusters", "watched"] == 1
    (record,) = [record for record in caplog.records if record.exc_info]
    assert "test" in record.getMessage()
    assert DEFECT in caplog.text
    assert "Traceback" in caplog.text


def test_the_command_ends_when_nothing_is_watched_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = ClusterSources({name: lambda: failing("it") for name in ("prod", "test")})
    monkeypatch.setattr(watch, "watch_source", lambda *_: clusters)
    result = call("watch", "--port", "0", "--cluster", "prod=a:1", "--cluster", "test=b:1")
    assert result.exit_code == 1
    assert "prod: it is not watched" in text_of(result)
    assert "test: it is not watched" in text_of(result)
    assert DEFECT in text_of(result)


def test_the_command_goes_on_with_the_others_and_its_exit_code_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = ClusterSources({"prod": lambda: good("prod"), "test": lambda: failing("test")})
    monkeypatch.setattr(watch, "watch_source", lambda *_: clusters)

    def interrupt() -> None:
        wait_until(lambda: states(clusters) == {"prod": "watched", "test": "failed"})
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = call("watch", "--port", "0", "--cluster", "prod=a:1", "--cluster", "test=b:1")
    thread.join()
    assert result.exit_code == 1
    assert "Stopped." in text_of(result)
    assert "test: it is not watched" in text_of(result)
    assert "prod: it is not watched" not in text_of(result)


class BrokenReader:
    """A topic that can be read once."""

    unread = 0
    next_offsets: ClassVar[dict[int, int]] = {}

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._polls = 0

    def bounds(self) -> dict[int, tuple[int, int]]:
        return {0: (0, 0)}

    def assign(self, positions: Mapping[int, int]) -> None:
        """It is read from anywhere."""

    def poll(self, timeout_s: float) -> dict[int, list[RawRecord]]:
        self._polls += 1
        if self._polls > 1:
            raise RuntimeError(DEFECT)
        return {}

    def __enter__(self) -> BrokenReader:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""


@pytest.mark.parametrize("where", ["names", "topic"])
def test_a_failure_while_reading(where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def ask_names(watched: source.WatchSource) -> None:
        if where == "names":
            raise RuntimeError(DEFECT)

    if where == "names":
        monkeypatch.setattr(BrokenReader, "poll", lambda *_: {})
    monkeypatch.setattr(source, "OffsetsTopicReader", BrokenReader)
    monkeypatch.setattr(source.WatchSource, "_ask_names", ask_names)
    topic, index = source.WatchSource({"bootstrap.servers": "127.0.0.1:1"}), Index()
    topic.start(index)
    wait_until(lambda: states(topic) == {"": "failed"})
    topic.stop()
    assert not topic.progress()["caught_up"]
    assert DEFECT in topic.progress()["detail"]
    assert [DEFECT in sentence for sentence in index.doubts] == [True]
    assert [each.problem for watched in index.watched for each in watched.sources] == ["failed"]
    assert "Traceback" in caplog.text


def test_a_failure_while_polling(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    polls = polling.PollSource({"bootstrap.servers": "127.0.0.1:1"}, "It may not be read.")
    monkeypatch.setattr(polls, "_ask", lambda question: Poll(cluster_id="c", brokers={}, groups=()))

    def fail(*_: object) -> None:
        raise RuntimeError(DEFECT)

    monkeypatch.setattr(Polls, "take", fail)
    index = Index()
    polls.start(index)
    wait_until(lambda: states(polls) == {"": "failed"})
    assert not polls.progress()["caught_up"]
    assert DEFECT in polls.progress()["detail"]
    assert any(DEFECT in sentence for sentence in index.doubts)
    assert "Traceback" in caplog.text
    polls.stop()
