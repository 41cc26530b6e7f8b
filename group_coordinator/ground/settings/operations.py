"""The settings of a command that runs on and on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal
from urllib.parse import urlsplit

from schemas.settings import PORT_MAX, setting


@dataclass(frozen=True, kw_only=True)
class OperationsSettings:
    """How a process that runs on and on is watched."""

    metrics_port: int = setting(
        0, "Port of the endpoint with /metrics (Prometheus), /health/live and /health/ready. 0: there is "
        "none.", at_least=0, at_most=PORT_MAX)
    metrics_host: str = setting(
        "127.0.0.1", "Address that the endpoint listens on. It has no password: beyond this machine (`0.0.0.0`) let "
        "only a trusted network reach it.")
    otlp: str = setting(
        "", "Post the metrics once a minute to this address by OTLP (protobuf over HTTP), as to "
        "`http://localhost:4318/v1/metrics`; needs the extra otlp. As it may have a login it is never shown.")
    log_format: Literal["text", "json"] = setting(
        "text", "Form of the log on standard error: lines for people, or one JSON object a line.")
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The least important that is logged. `info` has rebalances and expiries of groups, `debug` also "
        "refused requests.")

    @property
    def publishes_metrics(self) -> bool:
        return bool(self.metrics_port or self.otlp)

    def operations_problems(self) -> list[str]:
        """Return a sentence for each mistake."""
        if not self.otlp:
            return []
        if not (find_spec("opentelemetry") and find_spec("opentelemetry.proto")):
            return ["otlp needs the extra otlp: install the package opentelemetry-proto."]
        return list(address_problems("otlp", self.otlp))


@dataclass(frozen=True, kw_only=True)
class SeriesSettings:
    """How much the metrics tell of groups."""

    metrics_groups: int = setting(
        20, "How many groups, those that stand out, have series of their own in the metrics. 0: none.", at_least=0)
    metrics_groups_pattern: str = setting(
        "", "Regular expression: groups whose whole id matches have series of lag and verdicts, too.")
    metrics_partitions: bool = setting(False, "Series of lag for each partition, too.")
    metrics_series_max: int = setting(
        20_000, "So many series of lag there are at most; the metrics say how many are left out.", at_least=0)
    metrics_names: Literal["own", "kminion", "kafka-lag-exporter", "burrow"] = setting(
        "own", "Whose names and labels the series of lag have, for dashboards that are there already. Other names than "
        "our own have series for each partition.")

    def series_problems(self) -> list[str]:
        """Return a sentence for each mistake."""
        try:
            re.compile(self.metrics_groups_pattern)
        except re.error as problem:
            return [f"metrics_groups_pattern is no regular expression: {problem}."]
        return []


@dataclass(frozen=True, kw_only=True)
class VerdictSettings:
    """When groups are called unwell."""

    stalled_after_ms: int = setting(
        300_000, "A partition with an owner and messages waiting is stalled when its committed offset has stood for so "
        "long, or longer where its past explains it.", at_least=60_000)


def address_problems(name: str, url: str) -> Iterator[str]:
    """Yield what is wrong with an address of HTTP, without it."""
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_right = False
    if not is_right or any(character.isspace() or not character.isprintable() for character in url):
        yield f"{name} is no address: write https://HOST/PATH (it is not shown here, since it may be a secret)."
