"""The relays of a process, one for each shard, and what is told of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

from group_coordinator.coordinating.transactions.log_topic import ensure_log_topic
from group_coordinator.coordinating.transactions.relay import RelaySettings, ShardRelay
from group_coordinator.ground.monitoring.metrics import PREFIX, Metric, Value
from group_coordinator.watching.narrative import words


def _gauge(name: str, meaning: str) -> Metric:
    return Metric(name=f"{PREFIX}relay_{name}", kind="gauge", labels=("shard",), meaning=meaning)


UP = _gauge(
    "up", "1 while the relay of the shard writes what the log of transactions says, 0 while it does not."
)
LAG = _gauge(
    "lag_records",
    "Records of the log of transactions, ends included, that the relay of the shard has not read: offsets wait.",
)
OPEN = _gauge("open_transactions", "Transactions with offsets in the shard that have no end yet.")
OLDEST = _gauge(
    "oldest_open_seconds",
    "How long the oldest transaction with offsets in the shard has been open. Stable fetches of these offsets wait.",
)
REFUSED = _gauge(
    "refused_records",
    "Records of the log of transactions that did not become events since the start: they are none of a gateway's, or "
    "too much is open.",
)
RELAY_METRICS: tuple[Metric, ...] = (UP, LAG, OPEN, OLDEST, REFUSED)
"""All of them."""


class Relays:
    """They are independent of each other: one that cannot go on holds up its shard alone."""

    def __init__(self, settings: RelaySettings, shards: tuple[int, ...]) -> None:
        self._settings = settings
        self.shards = tuple(ShardRelay(settings, shard) for shard in shards)

    def start(self) -> None:
        """Make the topic where it is absent, and begin. Raises TransactionLogError and TopicReadError."""
        settings = self._settings
        ensure_log_topic(settings.log_properties, settings.log_topic, settings.shards)
        for relay in self.shards:
            relay.start()

    def stop(self) -> None:
        """End all of them."""
        for relay in self.shards:
            relay.stop()

    @property
    def have_ended(self) -> bool:
        """True if others have taken the place of all."""
        return all(relay.has_ended for relay in self.shards)

    def sentences(self) -> list[str]:
        """Return what is not as it should be."""
        now_s = time.time()
        return [sentence for relay in self.shards for sentence in relay.sentences(now_s)]

    def values(self) -> Iterator[Value]:
        """Yield the metrics."""
        now_s = time.time()
        for relay in self.shards:
            labels = (str(relay.shard),)
            yield Value(UP, labels, float(relay.problem is None))
            if relay.lag is not None:
                yield Value(LAG, labels, relay.lag)
            yield Value(OPEN, labels, relay.open_transactions)
            yield Value(OLDEST, labels, relay.oldest_open_s(now_s))
            yield Value(REFUSED, labels, relay.refusals)

    def words(self) -> str:
        """Return how it is with each shard's relay."""
        return "; ".join(f"shard {relay.shard}: {_words(relay)}" for relay in self.shards)

    # As probes of the endpoint (`group_coordinator.ground.monitoring.health.Probes`):

    def not_live(self) -> list[str]:
        """Return why the process must be restarted; a relay begins again by itself."""
        return []

    def not_ready(self) -> list[str]:
        """Return why offsets in transactions wait."""
        return [f"shard {relay.shard}: {relay.problem}" for relay in self.shards if relay.problem is not None]


def _words(relay: ShardRelay) -> str:
    if relay.problem is not None:
        return relay.problem
    lag = "" if relay.lag is None else f", {words.count(relay.lag, 'record')} behind"
    return f"{words.count(relay.open_transactions, 'open transaction')}{lag}"
