"""A gateway's numbers for Prometheus, and whether it lives and takes clients, for probes.

The gateway counts in plain objects (`group_coordinator.coordinating.gateway.metrics`); here they get names.
`GATEWAY_METRICS` is their catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Literal

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from group_coordinator.coordinating.gateway.metrics import GatewayMetrics, Histogram
from group_coordinator.coordinating.gateway.versions import GROUP_APIS
from group_coordinator.ground.monitoring.metrics import PREFIX, Metric

_MS = 1_000


_APIS = [(api,) for api in GROUP_APIS.values()]


def _metric(
    kind: Literal["counter", "gauge", "histogram"],
    name: str,
    meaning: str,
    *labels: str,
    known: Iterable[tuple[str, ...]] = (),
) -> Metric:
    return Metric(name=f"{PREFIX}gateway_{name}", kind=kind, labels=labels, meaning=meaning, known=tuple(known))


CONNECTIONS = _metric("gauge", "connections", "Connections of clients.")
ACCEPTED = _metric("counter", "connections_accepted_total", "Connections that were let in.")
REFUSED = _metric(
    "counter", "connections_refused_total", "Connections that were closed at once, beyond `connections_max`."
)
BROKEN = _metric(
    "counter",
    "connections_broken_total",
    "Connections that the gateway closed, by the reason: not understood, not offered ...",
    "reason",
    known=[
        ("idle",),
        ("not offered",),
        ("not understood",),
        ("the client has not authenticated",),
        ("the client has not authenticated in time",),
    ],
)
TO_BROKERS = _metric("counter", "to_brokers_bytes_total", "Bytes of clients that went on to brokers.")
TO_CLIENTS = _metric(
    "counter", "to_clients_bytes_total", "Bytes that went to clients, of brokers and of the coordinator."
)
REQUESTS = _metric("counter", "requests_total", "Group requests by Kafka's name of the API.", "api", known=_APIS)
PENDING = _metric("gauge", "pending_events", "Events that the coordinator has not answered yet.")
IN_DOUBT = _metric(
    "counter",
    "in_doubt_total",
    "Events that had no answer in time or could not be written: answered COORDINATOR_NOT_AVAILABLE.",
)
UNEXPECTED = _metric(
    "counter",
    "answers_unexpected_total",
    "Answers that nobody waits for: of another gateway on the same partition, late, or repeated.",
)
HANDED_OVER = _metric(
    "counter",
    "answers_handed_over_total",
    "Answers that a responder on this machine has handed over, before Kafka had them.",
)
RECORDED = _metric(
    "counter",
    "answers_recorded_total",
    "Answers that were handed over, and that the gateway has given to Kafka itself: nobody else had, in time.",
)
NOT_RECORDED = _metric(
    "counter",
    "answers_not_recorded_total",
    "Answers that were handed over, and that Kafka may not have: then nobody compares them with the query's.",
)
LEFT_OUT = _metric(
    "counter",
    "groups_left_out_total",
    "Groups that ListGroups does not name, because they find no room in `listed_bytes_max`; one that changes counts "
    "again.",
)
ANSWER_SECONDS = _metric(
    "histogram",
    "answer_seconds",
    "From a request's arrival to its answer: the whole way. JoinGroup waits for other members.",
    "api",
    known=_APIS,
)
COORDINATOR_SECONDS = _metric(
    "histogram",
    "coordinator_seconds",
    "Of that, from the sending of the event until its answer was written or handed over: log, responder, micro-batch.",
)
READING_SECONDS = _metric(
    "histogram", "reading_seconds", "Of that, from then until the gateway has read the answer."
)

GATEWAY_METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All of them."""


def gateway_registry(metrics: GatewayMetrics) -> CollectorRegistry:
    """Return a registry with a gateway's numbers and those of its process."""
    registry = CollectorRegistry()
    registry.register(GatewayCollector(metrics))
    ProcessCollector(registry=registry)
    return registry


class GatewayCollector(Collector):
    """Reads a gateway's numbers at every scrape; the gateway writes on meanwhile, which costs at most the last
    digit."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        metrics = self._metrics
        yield _gauge(CONNECTIONS, metrics.connections_open)
        yield _counter(ACCEPTED, {(): metrics.connections_accepted})
        yield _counter(REFUSED, {(): metrics.connections_refused})
        yield _counter(BROKEN, _by_label(metrics.connections_broken))
        yield _counter(TO_BROKERS, {(): metrics.bytes_to_brokers})
        yield _counter(TO_CLIENTS, {(): metrics.bytes_to_clients})
        yield _counter(REQUESTS, _by_label(metrics.requests))
        yield _gauge(PENDING, metrics.pending)
        yield _counter(IN_DOUBT, {(): metrics.in_doubt})
        yield _counter(UNEXPECTED, {(): metrics.answers_unexpected})
        yield _counter(HANDED_OVER, {(): metrics.answers_handed_over})
        yield _counter(RECORDED, {(): metrics.answers_recorded})
        yield _counter(NOT_RECORDED, {(): metrics.answers_not_recorded})
        yield _counter(LEFT_OUT, {(): metrics.groups_left_out})
        yield _histogram(ANSWER_SECONDS, {(api,): histogram for api, histogram in metrics.answer_ms.copy().items()})
        yield _histogram(COORDINATOR_SECONDS, {(): metrics.coordinator_ms})
        yield _histogram(READING_SECONDS, {(): metrics.reading_ms})

    def describe(self) -> list[Family]:
        return []


def incomplete_lists(metrics: GatewayMetrics) -> list[str]:
    """Return why clients do not get the whole list of groups; empty if they do."""
    if not metrics.groups_left_out:
        return []
    return ["there are more groups than find room in the gateway's listed_bytes_max: ListGroups does not name all"]


class GatewayHealth:
    """A gateway that cannot go on ends its process, so it lives.

    Whether the coordinator answers is the coordinator's to say.
    """

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready

    def not_live(self) -> list[str]:
        """Return why the process must be restarted; empty if it need not be."""
        return []

    def not_ready(self) -> list[str]:
        """Return why clients should not come; empty if they can."""
        return [] if self._is_ready() else ["it does not listen, or has given up"]


def _by_label(counts: dict[str, int]) -> dict[tuple[str, ...], int]:
    return {(label,): count for label, count in counts.copy().items()}


def _gauge(metric: Metric, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.meaning, value=value)


def _counter(metric: Metric, counts: dict[tuple[str, ...], int]) -> CounterMetricFamily:
    family = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, count in {**dict.fromkeys(metric.known, 0), **counts}.items():
        family.add_metric(labels, count)
    return family


def _histogram(metric: Metric, histograms: dict[tuple[str, ...], Histogram]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, histogram in {**{labels: Histogram() for labels in metric.known}, **histograms}.items():
        buckets = [("+Inf" if bound == inf else str(bound / _MS), count) for bound, count in histogram.cumulative]
        family.add_metric(labels, buckets, sum_value=histogram.sum / _MS)
    return family
