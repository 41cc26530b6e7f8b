"""The settings of `watch`: those of the app that it needs, and the clusters where there are several."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.ground.settings.kafka_properties import librdkafka_properties, properties_problems
from group_coordinator.ground.settings.loading import SERVERS
from group_coordinator.ground.settings.operations import (
    OperationsSettings,
    SeriesSettings,
    VerdictSettings,
    address_problems,
)
from schemas.group_settings import RetentionSettings
from schemas.settings import setting

CLIENT_ID = "group-coordinator-watch"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""Such a name can be that of a directory, and is told from the group's behind a slash."""
NAMES = (
    "cluster", "bootstrap_servers", "kafka", "offsets_retention_minutes",
    "metrics_port", "metrics_host", "metrics_groups", "metrics_groups_pattern", "metrics_partitions",
    "metrics_series_max", "metrics_names", "stalled_after_ms", "webhook", "webhook_format", "otlp",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WatchSettings(ReaderSettings, OperationsSettings, SeriesSettings, VerdictSettings, RetentionSettings):
    """Making one raises `ConfigError`."""

    cluster: dict[str, dict[str, str]] = setting(
        {}, "A cluster of several, NAME=SERVERS; repeated. In a file [cluster.NAME] has its `bootstrap.servers` and "
        "whatever is other than in [kafka].")

    webhook: str = setting(
        "", "Post the beginning and the end of each verdict (from `empty_with_lag` on) to this address. As it may be a "
        "secret it is never shown; give it by its variable or in a file.")
    webhook_format: Literal["cloudevents", "slack"] = setting(
        "cloudevents", "CloudEvents 1.0 as JSON, or a text for one of Slack's incoming webhooks.")

    def problems(self) -> list[str]:
        return [
            *super().problems(),
            *self.series_problems(),
            *self.operations_problems(),
            *(address_problems("webhook", self.webhook) if self.webhook else ()),
            *self._cluster_problems(),
        ]

    def _cluster_problems(self) -> Iterator[str]:
        for name, properties in self.cluster.items():
            if _NAME.fullmatch(name) is None:
                yield f"cluster: {name!r} is no name: use letters, digits, dots, hyphens and underscores."
            if not properties.get(SERVERS):
                yield f"cluster.{name} has no {SERVERS}."
            for problem in properties_problems(self._of_clients(properties)):
                yield f"cluster.{name}: {problem.removeprefix('kafka: ')}"

    @property
    def clusters(self) -> dict[str, dict[str, str]]:
        """The properties of confluent_kafka's clients by the cluster's name; that of a single cluster is ""."""
        if not self.cluster:
            return {"": {"client.id": CLIENT_ID, **self.client_properties}}
        return {
            name: {
                "client.id": CLIENT_ID,
                **librdkafka_properties(cluster_properties[SERVERS], self._of_clients(cluster_properties)),
            }
            for name, cluster_properties in self.cluster.items()
        }

    def _of_clients(self, cluster_properties: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in {**self.kafka, **cluster_properties}.items() if name != SERVERS}
