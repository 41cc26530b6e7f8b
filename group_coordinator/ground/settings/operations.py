"""The settings of a command that runs on and on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    log_format: Literal["text", "json"] = setting(
        "text", "Form of the log on standard error: lines for people, or one JSON object a line.")
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The least important that is logged. `info` has rebalances and expiries of groups, `debug` also "
        "refused requests.")


@dataclass(frozen=True, kw_only=True)
class SeriesSettings:
    """How much the metrics tell of groups."""

    metrics_groups: int = setting(
        20, "How many groups, those that stand out, have series of their own in the metrics. 0: none.", at_least=0)


@dataclass(frozen=True, kw_only=True)
class VerdictSettings:
    """When groups are called unwell."""

    stalled_after_ms: int = setting(
        300_000, "A partition with an owner and messages waiting is stalled when its committed offset has stood for so "
        "long, or longer where its past explains it.", at_least=60_000)
