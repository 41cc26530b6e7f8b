"""The metrics of `/metrics` are posted by OTLP over HTTP (OpenTelemetry's protocol, as protobuf): the same names and
labels. What counts goes on counting, so a post that fails needs no second one.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from typing import Any, Self
from urllib.parse import urlsplit

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from group_coordinator.ground.monitoring.posting import Refused, failure_reason, poster

INTERVAL_S = 60.0
MEDIA_TYPE = "application/x-protobuf"
_LAST_POST_S = 1.0
"""So long the end waits for the last post, where the one before was taken."""
_SERVICE = "group-coordinator"
_UNITS = {"seconds": "s", "bytes": "By"}
"""By the last word of a name."""
_CUMULATIVE = otlp.AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_log = logging.getLogger(__name__)


class OtlpPoster:
    """Posts what a registry has, again and again, and once more at the end. A context manager."""

    def __init__(self, url: str, registry: CollectorRegistry, source: str, interval_s: float = INTERVAL_S) -> None:
        """`source`: what the metrics are of. Processes on several machines may have the same."""
        self.host = urlsplit(url).hostname or ""
        self._post = poster(url)
        self._registry, self._interval_s = registry, interval_s
        self._instance = f"{source} {socket.gethostname()}"
        self._began_ns = time.time_ns()
        self._is_away = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp-posts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if not self._is_away:
            self._thread.join(_LAST_POST_S)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._post_once()
        self._post_once()

    def _post_once(self) -> None:
        try:
            message = encoded(self._registry.collect(), self._instance, self._began_ns, time.time_ns())
        except Exception:
            _log.exception("metrics are not posted to %s", self.host)
            return
        try:
            self._post(message, MEDIA_TYPE)
            self._is_away = False
        except (Refused, OSError, HTTPException) as problem:
            self._is_away = True
            _log.warning("metrics are not posted to %s: %s", self.host, failure_reason(problem))


def encoded(families: Iterable[Metric], instance: str, began_ns: int, now_ns: int) -> bytes:
    """Return the message. `began_ns`: counters count from then on, in nanoseconds since 1970."""
    resource = {"service.name": _SERVICE, "service.instance.id": instance}
    request = ExportMetricsServiceRequest()
    of_resource = request.resource_metrics.add()
    of_resource.resource.attributes.extend(_attributes(resource))
    scope = of_resource.scope_metrics.add()
    scope.scope.name = _SERVICE
    times = {"start_time_unix_nano": began_ns, "time_unix_nano": now_ns}
    for family in families:
        unit = _UNITS.get(family.name.rpartition("_")[2], "")
        metric = otlp.Metric(name=family.name, description=family.documentation, unit=unit)
        if family.type == "histogram":
            metric.histogram.aggregation_temporality = _CUMULATIVE
            metric.histogram.data_points.extend(_histograms(family.samples, times))
        elif family.type == "counter":
            metric.sum.aggregation_temporality, metric.sum.is_monotonic = _CUMULATIVE, True
            metric.sum.data_points.extend(_numbers(family.samples, times, f"{family.name}_total"))
        else:
            metric.gauge.data_points.extend(_numbers(family.samples, {"time_unix_nano": now_ns}, family.name))
        if metric.sum.data_points or metric.gauge.data_points or metric.histogram.data_points:
            scope.metrics.append(metric)
    return bytes(request.SerializeToString())


def _numbers(samples: Iterable[Sample], times: Any, name: str) -> list[Any]:
    return [
        otlp.NumberDataPoint(attributes=_attributes(each.labels), as_double=each.value, **times)
        for each in samples
        if each.name == name
    ]


def _histograms(samples: Iterable[Sample], times: Any) -> list[Any]:
    """Return a point for each series. Prometheus' buckets have all that is not above their bound; those here have what
    is above the bound before, too."""
    by_labels: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for each in samples:
        labels = {name: value for name, value in each.labels.items() if name != "le"}
        of_series = by_labels.setdefault(tuple(labels.items()), {})
        of_series[each.labels.get("le", each.name.rpartition("_")[2])] = each.value
    points = []
    for series, values in by_labels.items():
        bounds = sorted(
            (float(name), count) for name, count in values.items() if name not in ("sum", "count", "created")
        )
        counts = [int(count) for _, count in bounds]
        points.append(
            otlp.HistogramDataPoint(
                attributes=_attributes(dict(series)), count=int(values["count"]), sum=values["sum"],
                explicit_bounds=[bound for bound, _ in bounds[:-1]],
                bucket_counts=[count - before for before, count in zip([0, *counts], counts, strict=False)], **times,
            )
        )  # fmt: skip
    return points


def _attributes(labels: Mapping[str, str]) -> list[Any]:
    return [KeyValue(key=name, value=AnyValue(string_value=value)) for name, value in labels.items()]
