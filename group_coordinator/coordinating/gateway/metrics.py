"""A gateway counts and measures in plain objects that any exporter can read."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import accumulate

_MS_BOUNDS = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)


class Histogram:
    """The histogram counts the values at or below each bound, as Prometheus does."""

    def __init__(self, bounds: tuple[float, ...] = _MS_BOUNDS) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def cumulative(self) -> list[tuple[float, int]]:
        """(bound, how many at or below it); the last bound is infinity."""
        return list(zip((*self.bounds, float("inf")), accumulate(self._counts), strict=True))

    def quantile(self, share: float) -> float:
        """Return the least bound that `share` of the values do not exceed; 0 if there are no values."""
        rank = share * self.count
        return next((bound for bound, count in self.cumulative if count >= rank > 0), 0.0)


class GatewayMetrics:
    """One gateway's numbers since its start."""

    def __init__(self) -> None:
        self.connections_open = 0
        self.connections_accepted = 0
        self.connections_refused = 0
        """Beyond the bound."""
        self.connections_broken: Counter[str] = Counter()
        """By kind: what was not understood, not offered, not authenticated."""
        self.bytes_to_brokers = 0
        self.bytes_to_clients = 0
        self.requests: Counter[str] = Counter()
        """Group requests by API."""
        self.in_doubt = 0
        """Events whose answer did not come in time, or that could not be written."""
        self.answers_unexpected = 0
        """Answers that nobody waited for: of another gateway, late, or written twice."""
        self.answers_handed_over = 0
        """Answers that a responder on this machine has handed over, before Kafka had them."""
        self.answers_recorded = 0
        """Answers that were handed over, and that the gateway has given to Kafka: nobody else had, in time."""
        self.answers_not_recorded = 0
        """Answers that were handed over, and that Kafka may not have: it has not taken them from the gateway."""
        self.groups_left_out = 0
        """Groups that ListGroups does not name, since the start; one that changes counts again."""
        self.pending = 0
        """Events without an answer."""
        self.answer_ms: defaultdict[str, Histogram] = defaultdict(Histogram)
        """By API: from the request's arrival until its answer is written to the client."""
        self.coordinator_ms = Histogram()
        """From the event's sending until its answer was written to the log, or handed over by a responder."""
        self.reading_ms = Histogram()
        """From then until it was read here."""
