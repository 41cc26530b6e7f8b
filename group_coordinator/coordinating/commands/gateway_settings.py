"""The settings of `gateway`, `tap` and `relay` as their commands show them."""

from __future__ import annotations

from group_coordinator.coordinating.gateway.config import Answers, Bounds, ProxySettings
from schemas.group_settings import OwnSettingsBounds
from schemas.settings import settings_of

PANELS = {
    "Clients": ("listen", "advertised_host", "routes", "tls_certificate", "tls_key", "authorization_rules"),
    "Kafka": (
        "bootstrap_servers", "upstream", "kafka", "coordinator_bootstrap_servers", "coordinator_kafka", "topic_prefix",
    ),
    "Request log": ("file_bytes_max", "files_max"),
    "Answers": tuple(settings_of(Answers)),
    "Bounds": tuple(settings_of(Bounds)),
    "Settings of groups": tuple(settings_of(OwnSettingsBounds)),
    "Operations": ("metrics_port", "metrics_host", "otlp", "log_format", "log_level"),
}


def names(kind: type[ProxySettings]) -> tuple[str, ...]:
    """Return the names of the settings in the order of the panels."""
    return tuple(name for panel in PANELS.values() for name in panel if name in settings_of(kind))
