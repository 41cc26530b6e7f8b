"""Metrics by OTLP: what a real HTTP server gets, and decodes, is what `/metrics` says."""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.metrics import Value
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.ground.monitoring.server import published_metrics
from group_coordinator.ground.settings.loading import ConfigError
from group_coordinator.ground.settings.operations import OperationsSettings
from group_coordinator.proving.embedded_kafka.broker import free_port
from group_coordinator.watching.commands.watch_settings import WatchSettings
from streaming.config import StreamingConfig
from tests.waiting import wait_until

pytest.importorskip("opentelemetry.proto")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from group_coordinator.ground.monitoring.otlp import OtlpPoster, encoded

Series = tuple[str, frozenset[tuple[str, str]]]
SECRET = "s3cr3t-of-nobody"


class Collector(ThreadingHTTPServer):
    """It decodes what comes, and gives the answers that it is told to, and then 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int] = []
        self.got: list[tuple[str, dict[str, str], Any]] = []

    def url(self) -> str:
        return f"http://me:{SECRET}@127.0.0.1:{self.server_address[1]}/v1/metrics"


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): text for name, text in self.headers.items()}
        self.server.got.append((self.path, headers, ExportMetricsServiceRequest.FromString(body)))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Well:
    def not_live(self) -> list[str]:
        return []

    def not_ready(self) -> list[str]:
        return []


def some_metrics() -> Metrics:
    metrics = Metrics(m.OF_A_WATCHER)
    metrics.values_from(lambda: [Value(m.GROUP_LAG, ("payments", "orders"), 12), Value(m.READY, (), 1)])
    metrics.add(m.REBALANCES, "member_joined", by=3)
    for seconds in (0.05, 0.3, 0.3, 7, 10_000):
        metrics.observe(m.REBALANCE_SECONDS, seconds, "stable")
    return metrics


def by_prometheus(metrics: Metrics) -> dict[Series, float]:
    """Every sample of `/metrics` but those of the process, which go on, and the times when series began."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(metrics.registry).decode())
        for sample in family.samples
        if not sample.name.startswith("process_") and not sample.name.endswith("_created")
    }


def by_otlp(request: Any) -> dict[Series, float]:
    """The same, as OpenTelemetry's rules for Prometheus name what is in a message."""
    found: dict[Series, float] = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            labels = frozenset((each.key, each.value.string_value) for each in point.attributes)
            if kind != "histogram":
                found[metric.name + ("_total" if kind == "sum" else ""), labels] = point.as_double
                continue
            found[f"{metric.name}_sum", labels], found[f"{metric.name}_count", labels] = point.sum, point.count
            below = 0
            for bound, count in zip([*point.explicit_bounds, math.inf], point.bucket_counts, strict=True):
                below += count
                limit = "+Inf" if bound == math.inf else str(bound)
                found[f"{metric.name}_bucket", labels | {("le", limit)}] = below
    return {series: value for series, value in found.items() if not series[0].startswith("process_")}


def test_it_is_what_metrics_says(collector: Collector) -> None:
    metrics = some_metrics()
    with OtlpPoster(collector.url(), metrics.registry, "prod:9092", interval_s=0.02):
        wait_until(lambda: len(collector.got) > 1)
    path, headers, request = collector.got[-1]
    assert (path, headers["content-type"]) == ("/v1/metrics", "application/x-protobuf")
    assert headers["authorization"].startswith("Basic ")
    expected = by_prometheus(metrics)
    assert len(expected) > 20
    assert by_otlp(request) == expected
    resource = {each.key: each.value.string_value for each in request.resource_metrics[0].resource.attributes}
    instance = f"prod:9092 {socket.gethostname()}"  # another machine may watch the same, or have the same address
    assert resource == {"service.name": "group-coordinator", "service.instance.id": instance}


def test_the_coordinator_and_the_gateway_post_too(collector: Collector) -> None:
    """One setting of all that runs on and on; the endpoint and the posts say the same."""
    metrics, settings = some_metrics(), OperationsSettings(metrics_port=free_port(), otlp=collector.url())
    with published_metrics(settings, metrics.registry, Well(), "coordinator") as sentences:
        assert sentences == [
            f"Metrics and health: http://127.0.0.1:{settings.metrics_port}/metrics, /health/live, /health/ready.",
            "Metrics are posted to 127.0.0.1.",
        ]
    (posted,) = collector.got
    assert by_otlp(posted[2]) == by_prometheus(metrics)
    for kind in (StreamingConfig, GatewaySettings, WatchSettings):
        with pytest.raises(ConfigError, match="otlp is no address") as refused:
            kind(otlp=f"me:{SECRET}")
        assert SECRET not in str(refused.value)


def test_units() -> None:
    """They are those of the names."""
    (scope,) = (
        ExportMetricsServiceRequest.FromString(encoded(some_metrics().registry.collect(), "prod", 0, 1))
        .resource_metrics[0]
        .scope_metrics
    )
    units = {metric.name: metric.unit for metric in scope.metrics}
    assert (units[m.REBALANCE_SECONDS.name], units["process_resident_memory_bytes"], units[m.READY.name]) == (
        "s",
        "By",
        "",
    )


def test_times() -> None:
    """What counts goes on from one beginning, and gauges have none."""
    before_ns = time.time_ns()
    message = encoded(some_metrics().registry.collect(), "prod", before_ns, before_ns + 1)
    (scope,) = ExportMetricsServiceRequest.FromString(message).resource_metrics[0].scope_metrics
    for metric in scope.metrics:
        kind = metric.WhichOneof("data")
        points = getattr(metric, kind).data_points
        assert {point.time_unix_nano for point in points} == {before_ns + 1}
        assert {point.start_time_unix_nano for point in points} == {0 if kind == "gauge" else before_ns}


def test_a_collector_that_refuses_or_is_away(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    """The next post has all that was counted; the log names the host, and not the login."""
    collector.answers += [503, 400, 302]
    metrics = some_metrics()
    with caplog.at_level(logging.WARNING), OtlpPoster(collector.url(), metrics.registry, "prod", interval_s=0.02):
        wait_until(lambda: len(collector.got) > 3)
    assert by_otlp(collector.got[-1][2]) == by_prometheus(metrics)
    assert [record.getMessage() for record in caplog.records] == [
        "metrics are not posted to 127.0.0.1: it answers 503",
        "metrics are not posted to 127.0.0.1: it answers 400",
        "metrics are not posted to 127.0.0.1: it answers 302, and redirects are not followed",
    ]


def test_values_that_cannot_be_had_for_once(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    """One failure of who is asked for values is no end of the posts."""
    metrics, failures = some_metrics(), [RuntimeError("dictionary changed size during iteration")]

    def values() -> list[Value]:
        if failures:
            raise failures.pop()
        return []

    metrics.values_from(values)
    with caplog.at_level(logging.ERROR), OtlpPoster(collector.url(), metrics.registry, "prod", interval_s=0.02):
        wait_until(lambda: len(collector.got) > 1)
    assert by_otlp(collector.got[-1][2]) == by_prometheus(metrics)
    assert [record.getMessage() for record in caplog.records] == ["metrics are not posted to 127.0.0.1"]


def test_nobody_waits_for_a_collector_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it has hung for long or does so at the end alone: a process ends though its last post does not."""
    monkeypatch.setattr("group_coordinator.ground.monitoring.posting.POST_TIMEOUT_S", 600)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}/"
        for interval_s in (0.02, 60):
            with OtlpPoster(url, some_metrics().registry, "prod", interval_s=interval_s):
                if interval_s < 1:
                    hanging.accept()
