"""A gateway's numbers: every series is there before its first occurrence."""

from __future__ import annotations

from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.coordinating.operations.gateway_metrics import (
    ANSWER_SECONDS,
    BROKEN,
    GATEWAY_METRICS,
    REQUESTS,
    gateway_values,
)
from group_coordinator.ground.monitoring.registry import Metrics


def test_series_begin_at_zero_and_count_on() -> None:
    metrics = GatewayMetrics()
    written = Metrics(())
    written.values_from(lambda: gateway_values(metrics))
    registry = written.registry
    for metric in (metric for metric in GATEWAY_METRICS if metric.labels):
        assert metric.known
        for values in metric.known:
            labels = dict(zip(metric.labels, values, strict=True))
            assert (
                registry.get_sample_value(metric.name + ("_count" if metric.kind == "histogram" else ""), labels) == 0
            )
    metrics.requests["JoinGroup"] += 1
    metrics.connections_broken["idle"] += 1
    metrics.connections_broken["of another kind"] += 1
    metrics.answer_ms["JoinGroup"].add(20.0)
    assert registry.get_sample_value(REQUESTS.name, {"api": "JoinGroup"}) == 1
    assert registry.get_sample_value(BROKEN.name, {"reason": "idle"}) == 1
    assert registry.get_sample_value(BROKEN.name, {"reason": "of another kind"}) == 1
    assert registry.get_sample_value(f"{ANSWER_SECONDS.name}_sum", {"api": "JoinGroup"}) == 0.02
