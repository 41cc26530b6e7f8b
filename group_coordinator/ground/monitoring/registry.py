"""The registry that has the metrics of a process, and how it is written to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from group_coordinator.ground.monitoring.metrics import METRICS, Buckets, Metric, Value

_FAMILIES: dict[str, Any] = {
    "counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily,
}  # fmt: skip


class Metrics(Collector):
    """The registry, and how it is written to. Safe for several threads."""

    def __init__(self, metrics: Sequence[Metric] = METRICS) -> None:
        self.registry = CollectorRegistry()
        self._counters = {
            metric: Counter(metric.name, metric.meaning, metric.labels, registry=self.registry)
            for metric in metrics
            if metric.kind == "counter"
        }
        self._histograms = {
            metric: Histogram(
                metric.name, metric.meaning, metric.labels, buckets=metric.buckets, registry=self.registry
            )
            for metric in metrics
            if metric.kind == "histogram"
        }
        self._sources: list[Callable[[], Iterable[Value]]] = []
        self.registry.register(self)
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

    def values_from(self, source: Callable[[], Iterable[Value]]) -> None:
        """Ask this for values at every scrape: gauges, and what is counted elsewhere."""
        self._sources.append(source)

    def collect(self) -> Iterator[Family]:
        """Ask the sources, for the registry."""
        families: dict[Metric, Any] = {}
        for source in list(self._sources):
            for metric, labels, value in source():
                if metric not in families:
                    families[metric] = _FAMILIES[metric.kind](metric.name, metric.meaning, labels=metric.labels)
                families[metric].add_metric(labels, *(value if isinstance(value, Buckets) else (value,)))
        yield from families.values()

    def describe(self) -> list[Family]:
        """Return nothing: what the sources will say is not known before."""
        return []
