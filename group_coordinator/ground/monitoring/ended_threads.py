"""The threads that a defect has ended, as a metric of every endpoint."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from group_coordinator.ground.monitoring.metrics import ENDED_THREADS
from group_coordinator.ground.system.ended_threads import ended_threads


class EndedThreads(Collector):
    """How many there are."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(ENDED_THREADS.name, ENDED_THREADS.meaning, value=len(ended_threads()))

    def describe(self) -> list[GaugeMetricFamily]:
        return []
