"""The HTTP endpoint: `/metrics` for Prometheus, `/health/live` and `/health/ready` for probes. Read-only, no
secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from group_coordinator.ground.http_server.access import Access
from group_coordinator.ground.http_server.server import HttpServer, listen
from group_coordinator.ground.monitoring.health import Probes, Responders, reasons_not_ready
from group_coordinator.ground.monitoring.metrics import ENDED_THREADS
from group_coordinator.ground.settings.operations import OperationsSettings
from group_coordinator.ground.system.ended_threads import ended_threads
from schemas.http_host import is_loopback


class EndedThreads(Collector):
    """How many there are."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(ENDED_THREADS.name, ENDED_THREADS.meaning, value=len(ended_threads()))

    def describe(self) -> list[GaugeMetricFamily]:
        return []


CONNECTIONS_MAX = 64


@contextmanager
def published_metrics(
    settings: OperationsSettings,
    registry: CollectorRegistry,
    health: Probes,
    instance: str,
    responders: Responders = dict,
    degraded: Callable[[], list[str]] = list,
) -> Iterator[list[str]]:
    """Have the metrics where the settings ask for them, for so long; yield a sentence for each place.

    `instance`: what the metrics are of, where they are posted. For the rest see `operations_server`.

    Raises OSError where the endpoint cannot listen.
    """
    sentences = []
    registry.register(EndedThreads())
    with ExitStack() as stack:
        if settings.metrics_port:
            server = operations_server(
                settings.metrics_host, settings.metrics_port, registry, health, responders, degraded
            )
            url = stack.enter_context(server).url
            sentences.append(f"Metrics and health: {url}/metrics, /health/live, /health/ready.")
        if settings.otlp:
            from group_coordinator.ground.monitoring.otlp import OtlpPoster

            posts = stack.enter_context(OtlpPoster(settings.otlp, registry, instance))
            sentences.append(f"Metrics are posted to {posts.host}.")
        yield sentences


def operations_server(
    host: str,
    port: int,
    registry: CollectorRegistry,
    health: Probes,
    responders: Responders = dict,
    degraded: Callable[[], list[str]] = list,
) -> HttpServer:
    """Return the endpoint, which listens but does not serve yet. Port 0 stands for a free one.

    `responders`: those that run beside a coordinator. It is ready without them, but slow: degraded. `degraded`: what
    else is not as it should be though clients are answered.

    Raises OSError where it cannot listen.

    Bound to this machine, it answers only requests that name it, so that no page from elsewhere can read it.
    """
    try:
        listening = listen(host, port)
    except OSError as problem:
        raise OSError(
            f"The endpoint with the metrics cannot listen on {host}, port {port}: {problem.strerror}."
        ) from problem
    app = Access(_application(registry, health, responders, degraded), name="endpoint", local_only=is_loopback(host))
    return HttpServer(app, listening, name="operations", connections_max=CONNECTIONS_MAX)


def _application(
    registry: CollectorRegistry, health: Probes, responders: Responders, degraded: Callable[[], list[str]]
) -> Starlette:
    # These are no coroutines, so each request runs in a thread, and a scrape of many groups holds up no probe.
    def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    def live(_: Request) -> Response:
        return _health(health.not_live())

    def ready(_: Request) -> Response:
        return _health(reasons_not_ready(health), responders(), degraded())

    def not_found(_: Request, __: Exception) -> Response:
        return PlainTextResponse("/metrics, /health/live, /health/ready\n", 404)

    routes = [Route("/metrics", metrics), Route("/health/live", live), Route("/health/ready", ready)]
    return Starlette(routes=routes, exception_handlers={404: not_found})


def _health(
    failures: list[str], responders: Mapping[int, tuple[str, str]] | None = None, degraded: Iterable[str] = ()
) -> Response:
    reports = sorted((responders or {}).items())
    slow = [
        f"answers for shard {shard} come at the query's speed, because its responder does not answer: {reason}"
        for shard, (_, reason) in reports
        if reason
    ]
    slow += degraded
    fields: dict[str, object] = {
        "status": "failing" if failures else "degraded" if slow else "ok",
        "reasons": [*failures, *slow],
    }
    if reports:
        fields["responders"] = {str(shard): state for shard, (state, _) in reports}
    return Response(json.dumps(fields).encode() + b"\n", 503 if failures else 200, media_type="application/json")
