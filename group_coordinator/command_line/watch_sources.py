"""What `watch` reads: one cluster, or several, each with its brokers' logs and the state that is kept of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.tables import print_line
from group_coordinator.observed.evidence import Bounds

if TYPE_CHECKING:
    from group_coordinator.watch.clusters import ClusterSource
    from group_coordinator.watch.polling import PollSource
    from group_coordinator.watch.writing import HistorySource


class WatchOptions(Struct, frozen=True, kw_only=True):
    """What is the same for all clusters."""

    time_zone: tzinfo
    follow: bool
    bounds: Bounds
    state: Path | None


def watch_source(
    clusters: Mapping[str, Mapping[str, str]], broker_logs: Iterable[str], options: WatchOptions
) -> HistorySource:
    """`clusters`: the clients' properties by name; a single cluster is called "". Raises CommandError."""
    from group_coordinator.watch.clusters import ClusterSources

    logs = _by_cluster(clusters, broker_logs)
    make = {
        name: partial(_cluster_source, name, properties, logs[name], options) for name, properties in clusters.items()
    }
    return make[""]() if "" in make else ClusterSources(make)


def _by_cluster(clusters: Iterable[str], broker_logs: Iterable[str]) -> dict[str, list[str]]:
    patterns: dict[str, list[str]] = {name: [] for name in clusters}
    for option in broker_logs:
        name, _, pattern = ("", "", option) if "" in patterns else option.partition("=")
        if name not in patterns:
            raise CommandError(f"--broker-log {option}: write NAME=FILE, with the name of a cluster.", WRONG_USE)
        patterns[name].append(pattern)
    return patterns


def _cluster_source(name: str, properties: Mapping[str, str], logs: list[str], options: WatchOptions) -> ClusterSource:
    from group_coordinator.watch.clusters import ClusterSource
    from group_coordinator.watch.polling import PollSource
    from group_coordinator.watch.source import WatchSource

    def polls(refusal: str) -> PollSource:
        print_line(f"{refusal} Groups are polled instead.", error=True)
        return PollSource(properties, refusal, cluster=name)

    topic = partial(
        WatchSource,
        properties,
        logs,
        time_zone=options.time_zone,
        follow=options.follow,
        bounds=options.bounds,
        state=options.state / name if options.state and name else options.state,
        cluster=name,
    )
    return ClusterSource(topic, polls)
