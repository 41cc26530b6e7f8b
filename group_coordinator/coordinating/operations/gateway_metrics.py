"""A gateway's numbers for Prometheus, and whether it lives and takes clients, for probes.

The gateway counts in plain objects (`group_coordinator.coordinating.gateway.metrics`); here they get names.
`GATEWAY_METRICS` is their catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Literal

from group_coordinator.coordinating.gateway.metrics import GatewayMetrics, Histogram
from group_coordinator.coordinating.gateway.versions import GROUP_APIS
from group_coordinator.ground.monitoring.metrics import PREFIX, Buckets, Metric, Value

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


def gateway_values(metrics: GatewayMetrics) -> Iterator[Value]:
    """Yield a gateway's numbers. The gateway writes on meanwhile, which costs at most the last digit."""
    for metric, value in (
        (CONNECTIONS, metrics.connections_open), (ACCEPTED, metrics.connections_accepted),
        (REFUSED, metrics.connections_refused), (TO_BROKERS, metrics.bytes_to_brokers),
        (TO_CLIENTS, metrics.bytes_to_clients), (PENDING, metrics.pending), (IN_DOUBT, metrics.in_doubt),
        (UNEXPECTED, metrics.answers_unexpected), (HANDED_OVER, metrics.answers_handed_over),
        (RECORDED, metrics.answers_recorded), (NOT_RECORDED, metrics.answers_not_recorded),
        (LEFT_OUT, metrics.groups_left_out),
    ):  # fmt: skip
        yield Value(metric, (), value)
    for by_label, counts in ((BROKEN, metrics.connections_broken), (REQUESTS, metrics.requests)):
        for label, count in {**dict.fromkeys([label for (label,) in by_label.known], 0), **counts}.items():
            yield Value(by_label, (label,), count)
    for api in GROUP_APIS.values():
        yield Value(ANSWER_SECONDS, (api,), _buckets(metrics.answer_ms.get(api, Histogram())))
    yield Value(COORDINATOR_SECONDS, (), _buckets(metrics.coordinator_ms))
    yield Value(READING_SECONDS, (), _buckets(metrics.reading_ms))


def _buckets(histogram: Histogram) -> Buckets:
    bounds = [("+Inf" if bound == inf else str(bound / _MS), count) for bound, count in histogram.cumulative]
    return Buckets(bounds, histogram.sum / _MS)


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
