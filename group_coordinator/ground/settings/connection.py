"""The settings of a command that reads Kafka."""

from __future__ import annotations

from dataclasses import dataclass

from group_coordinator.ground.settings.kafka_properties import librdkafka_properties, properties_problems
from group_coordinator.ground.settings.loading import LoadedSettings
from group_coordinator.ground.settings.topic_names import TopicPrefix
from schemas.settings import setting


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings(LoadedSettings):
    """A cluster, and how it is spoken to. Making one raises `ConfigError`."""

    bootstrap_servers: str = setting("localhost:9092", "Kafka brokers to start from, `host:port`, separated by commas.")
    kafka: dict[str, str] = setting(
        {}, "Properties of the Kafka clients with Java's names, for TLS and SASL (`security.protocol`, "
        "`sasl.jaas.config` ...).")

    @property
    def client_properties(self) -> dict[str, str]:
        """The properties of confluent_kafka's clients."""
        return librdkafka_properties(self.bootstrap_servers, self.kafka)

    def problems(self) -> list[str]:
        """Return a sentence for each mistake."""
        absent = [] if self.bootstrap_servers.strip() else ["bootstrap_servers is empty."]
        return [*super().problems(), *absent, *properties_problems(self.kafka)]


@dataclass(frozen=True, kw_only=True)
class ReaderSettings(ConnectionSettings, TopicPrefix):
    """What a command needs that reads the coordinator's topics."""

    def problems(self) -> list[str]:
        """Return a sentence for each mistake."""
        return [*super().problems(), *self.prefix_problems()]
