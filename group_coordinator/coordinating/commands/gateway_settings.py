"""The settings of `gateway` and `tap`, and what the gateway makes of them: `gateway_config`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from group_coordinator.coordinating.gateway.config import Address, Answers, Bounds, GatewayConfig, Route
from group_coordinator.ground.settings.kafka_properties import librdkafka_properties, properties_problems
from group_coordinator.ground.settings.loading import LoadedSettings
from group_coordinator.ground.settings.operations import OperationsSettings
from schemas.group_settings import OwnSettingsBounds
from schemas.settings import PORT_MAX, setting, settings_of, values_of

PANELS = {
    "Clients": ("listen", "advertised_host", "routes", "tls_certificate", "tls_key", "authorization_rules"),
    "Kafka": (
        "bootstrap_servers", "upstream", "kafka", "coordinator_bootstrap_servers", "coordinator_kafka", "topic_prefix",
    ),
    "Answers": tuple(settings_of(Answers)),
    "Bounds": tuple(settings_of(Bounds)),
    "Settings of groups": tuple(settings_of(OwnSettingsBounds)),
    "Operations": ("metrics_port", "metrics_host", "otlp", "log_format", "log_level"),
}


def names(kind: type[LoadedSettings]) -> tuple[str, ...]:
    """Return the names of the settings in the order of the panels."""
    return tuple(name for panel in PANELS.values() for name in panel if name in settings_of(kind))


@dataclass(frozen=True, kw_only=True)
class ProxySettings(LoadedSettings, OperationsSettings, Bounds):
    """What a gateway and a tap have in common."""

    listen: str = setting(
        "127.0.0.1:9192", "Where clients bootstrap, HOST:PORT. The broker with node id N is at the port that follows "
        "by N + 1. Port 0: any free ones.")
    advertised_host: str | None = setting(None, "The host that clients are told. Default: the one that is listened on.")
    kafka: dict[str, str] = setting(
        {}, "Properties of the gateway's own Kafka clients with Java's names, for TLS and SASL (`security.protocol`, "
        "`sasl.jaas.config` ...). Clients' connections go on to the brokers by the same `security.protocol`.")
    routes: dict[str, str] = setting(
        {}, "Where each broker has a listener of its own that advertises the gateway, one HOST:PORT=HOST:PORT a "
        "broker: the port to listen on, and that listener. Nothing is rewritten then. Default: a port for each broker, "
        "and addresses are rewritten.")
    tls_certificate: str | None = setting(
        None, "A certificate chain (PEM file) to show to clients. Default: clients speak plain text.")
    tls_key: str | None = setting(None, "The certificate's key (PEM file). Default: it is in the same file.")
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The least important that is logged. `info` has every connection that was closed for a reason.")

    @property
    def brokers(self) -> str:
        """Where the brokers are that stand behind it."""
        raise NotImplementedError

    @property
    def gateway_config(self) -> GatewayConfig:
        """For `group_coordinator.coordinating.gateway.server` and `group_coordinator.coordinating.gateway.tap`."""
        return GatewayConfig(**self._server())

    def problems(self) -> list[str]:
        """Return a sentence for each mistake."""
        problems = properties_problems(self.kafka)
        for name, text in [
            ("listen", self.listen),
            *(("routes", address) for pair in self.routes.items() for address in pair),
        ]:
            try:
                _parse_address(text)
            except ValueError:
                problems.append(f"{name} is {text!r}, but must be HOST:PORT, as 127.0.0.1:9192.")
        problems += [*self.operations_problems(), *super().problems()]
        return problems or self.gateway_config.problems()

    def _server(self) -> dict[str, Any]:
        return {
            "listen": _parse_address(self.listen),
            "advertised_host": self.advertised_host,
            "bootstrap_servers": self.brokers,
            "client_properties": librdkafka_properties(self.brokers, self.kafka),
            "routes": tuple(Route(*map(_parse_address, pair)) for pair in self.routes.items()),
            "tls_certificate": _path(self.tls_certificate),
            "tls_key": _path(self.tls_key),
            "bounds": Bounds(**values_of(Bounds, self)),
        }


@dataclass(frozen=True, kw_only=True)
class GatewaySettings(Answers, OwnSettingsBounds, ProxySettings):
    """Everything that can be set of a gateway."""

    bootstrap_servers: str = setting(
        "localhost:9092", "The Kafka cluster behind the gateway, `host:port`, separated by commas.")
    coordinator_bootstrap_servers: str | None = setting(
        None, "The cluster with the coordinator's topics. Default: the same.")
    coordinator_kafka: dict[str, str] = setting(
        {}, "Properties of the clients of that cluster, where it is another one.")
    topic_prefix: str = setting("coordinator", "What the names of the coordinator's topics begin with, as of `run`.")
    authorization_rules: str | None = setting(
        None, "A file with lines `PRINCIPAL GROUP allow|deny`; the first that fits decides. Default: clients on this "
        "machine may use every group, others none.")

    @property
    def brokers(self) -> str:
        return self.bootstrap_servers

    @property
    def gateway_config(self) -> GatewayConfig:
        bootstrap_servers = self.coordinator_bootstrap_servers
        return GatewayConfig(
            **self._server(),
            coordinator_bootstrap_servers=bootstrap_servers,
            coordinator_properties=librdkafka_properties(bootstrap_servers, self.coordinator_kafka)
            if bootstrap_servers
            else None,
            topic_prefix=self.topic_prefix,
            authorization_rules=_path(self.authorization_rules),
            **values_of(Answers, self),
            **values_of(OwnSettingsBounds, self),
        )

    def problems(self) -> list[str]:
        problems = properties_problems(self.coordinator_kafka)
        if self.coordinator_kafka and self.coordinator_bootstrap_servers is None:
            problems.append(
                "coordinator_kafka is set, but not coordinator_bootstrap_servers: say where that cluster is."
            )
        return [*problems, *super().problems()]


@dataclass(frozen=True, kw_only=True)
class TapSettings(ProxySettings):
    """Everything that can be set of a tap."""

    upstream: str = setting(
        "localhost:9092", "The Kafka cluster whose groups are recorded, `host:port`, separated by commas. It goes on "
        "coordinating them.")

    @property
    def brokers(self) -> str:
        return self.upstream


def _parse_address(text: str) -> Address:
    """Raises ValueError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise ValueError(text)
    return Address(host, int(port))


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
