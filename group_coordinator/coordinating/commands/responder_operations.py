"""Metrics, health and status line of responders that run by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from group_coordinator.coordinating.responder.process import ResponderReport, ResponderState
from group_coordinator.coordinating.responder.protocol import ResponderStatus
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.health import STALE_AFTER_S, touch
from group_coordinator.ground.monitoring.metrics import Value
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.ground.monitoring.server import published_metrics
from group_coordinator.watching.narrative import words
from streaming.config import StreamingConfig

Statuses = Mapping[int, ResponderStatus | None]
"""The last status of each shard's responder; None: none is running."""


class ResponderHealth:
    """Tells whether the command lives, and whether each shard has a responder that goes on.

    *Live*: the command looks at its responders. It is while no responder may run, because the coordinator has been
    away for too long or has another release: a restart does not help. *Ready*: each shard's responder has lately
    said how it is going.
    """

    def __init__(self, file: Path | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        """`file` is touched whenever the responder that was silent longest gives a sign of life."""
        self._file = file
        self._now_s = now_s
        self._looked_s = now_s()
        self._statuses: Statuses = {}
        self._signs_s: dict[int, float] = {}
        self._touched_s = 0.0

    def look(self, statuses: Statuses) -> None:
        """Take note of the responders' statuses. A status that is another object than before is a sign of life."""
        self._looked_s = self._now_s()
        for shard, status in statuses.items():
            if status is None:
                self._signs_s.pop(shard, None)
            elif status is not self._statuses.get(shard):
                self._signs_s[shard] = self._looked_s
        self._statuses = dict(statuses)
        oldest_s = min((self._signs_s.get(shard, 0.0) for shard in statuses), default=0.0)
        if self._file is not None and oldest_s > self._touched_s:
            self._touched_s = oldest_s
            touch(self._file, time.time() - (self._looked_s - oldest_s))

    def not_live(self) -> list[str]:
        """Return why the process must be restarted; empty if it need not be."""
        silent_s = self._now_s() - self._looked_s
        return [] if silent_s <= STALE_AFTER_S else [f"nobody has looked at the responders for {silent_s:.0f} s"]

    def not_ready(self) -> list[str]:
        """Return why no answers ahead of the query can be expected; empty if they can."""
        reasons = self.not_live()
        if not self._statuses:
            reasons.append("no responder has been started yet")
        for shard in self._statuses:
            sign_s = self._signs_s.get(shard)
            if sign_s is None:
                reasons.append(f"shard {shard} has no responder")
            elif self._now_s() - sign_s > STALE_AFTER_S:
                reasons.append(f"the responder of shard {shard} has been silent for {self._now_s() - sign_s:.0f} s")
        return reasons


def responder_values(statuses: Statuses) -> Iterator[Value]:
    """Yield the metrics of responders."""
    for shard, status in statuses.items():
        yield Value(m.RESPONDER_UP, (str(shard),), status is not None)
        yield Value(m.RESPONDER_TICKS, (str(shard),), status is not None and status.is_ticking)
        if status is not None:
            yield Value(m.RESPONDER_STATE, (str(shard),), status.state_bytes)
        if status is not None and status.lead_ms is not None:
            yield Value(m.RESPONDER_LEAD, (str(shard),), status.lead_ms / 1_000)


def status_line(statuses: Statuses, reports: Mapping[int, ResponderReport]) -> str:
    """Return how it is with each shard's responder."""
    return "; ".join(f"shard {shard}: {_status_words(status, reports[shard])}" for shard, status in statuses.items())


def _status_words(status: ResponderStatus | None, report: ResponderReport) -> str:
    if status is None:
        begins = report.state in (ResponderState.STARTING, ResponderState.ANSWERING)
        return "no responder yet" if begins else f"no responder, {report.state.words}"
    lead = "" if status.lead_ms is None else f", {status.lead_ms} ms ahead of the query"
    clock = ", writes the clock" if status.is_ticking else ""
    silent = f", {report.reason}" if report.state is ResponderState.SILENT else ""
    return (
        f"{words.count(status.groups, 'group')}, {words.count(status.answers, 'answer')}, at offset "
        f"{status.next_offset}{lead}{clock}{silent}"
    )


def responder_metrics(
    config: StreamingConfig, health: ResponderHealth, statuses: Callable[[], Statuses]
) -> AbstractContextManager[list[str]]:
    """Return `published_metrics` of responders. Raises OSError where the endpoint cannot listen."""
    metrics = Metrics((m.RESPONDER_UP, m.RESPONDER_LEAD, m.RESPONDER_STATE))
    metrics.values_from(lambda: responder_values(statuses()))
    return published_metrics(config, metrics.registry, health, f"{config.topic_prefix} responder")
