"""The registry that has the metrics of a process, and how it is written to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from group_coordinator.ground.monitoring.metrics import METRICS, Metric, Value


class Metrics:
    """The registry, and how it is written to. Safe for several threads."""

    def __init__(self, metrics: Sequence[Metric] = METRICS) -> None:
        self.registry = CollectorRegistry()
        self._counters = {
            metric: _make_counter(metric, self.registry) for metric in metrics if metric.kind == "counter"
        }
        self._histograms = {
            metric: Histogram(
                metric.name, metric.meaning, metric.labels, buckets=metric.buckets, registry=self.registry
            )
            for metric in metrics
            if metric.kind == "histogram"
        }
        self._gauges = _Gauges()
        self.registry.register(self._gauges)
        ProcessCollector(registry=self.registry)
        for metric in metrics:
            for labels in metric.known:
                self.begin(metric, *labels)

    def begin(self, metric: Metric, *labels: str) -> None:
        """Start a series of a counter or a histogram at zero, before its first occurrence."""
        if metric.kind == "counter":
            self._counters[metric].labels(*labels)
        else:
            self._histograms[metric].labels(*labels)

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Count."""
        counter = self._counters[metric]
        (counter.labels(*labels) if labels else counter).inc(by)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        self._histograms[metric].labels(*labels).observe(value)

    def gauges_from(self, source: Callable[[], Iterable[Value]]) -> None:
        """Ask this for gauges at every scrape."""
        self._gauges.add(source)


def _make_counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    return Counter(metric.name, metric.meaning, metric.labels, registry=registry)


class _Gauges(Collector):
    def __init__(self) -> None:
        self._sources: list[Callable[[], Iterable[Value]]] = []
        self._lock = threading.Lock()

    def add(self, source: Callable[[], Iterable[Value]]) -> None:
        with self._lock:
            self._sources.append(source)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._lock:
            sources = list(self._sources)
        families: dict[Metric, GaugeMetricFamily] = {}
        for source in sources:
            for metric, labels, value in source():
                if metric not in families:
                    families[metric] = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
                families[metric].add_metric(labels, value)
        yield from families.values()

    def describe(self) -> list[GaugeMetricFamily]:
        return []
