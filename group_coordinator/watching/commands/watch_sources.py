"""What `watch` reads: one cluster, or several, each with its brokers' logs and the state that is kept of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.tables import print_line
from group_coordinator.ground.system.disk_store import DiskStore
from group_coordinator.watching.broker_logs.text_files import STANDARD_INPUT
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.settings import DashboardSettings, HealthSettings
from group_coordinator.watching.observed.evidence import BOUNDED, Bounds

if TYPE_CHECKING:
    from group_coordinator.watching.watch.clusters import ClusterSource
    from group_coordinator.watching.watch.polling import PollSource
    from group_coordinator.watching.watch.writing import HistorySource

_MIB = 1024 * 1024
_SHARE = 0.4
"""Twice this: the rest is for what is known of each group wherever it lies, and for lists of them on their way."""


class WatchOptions(Struct, frozen=True, kw_only=True):
    """What is the same for all clusters."""

    time_zone: tzinfo
    follow: bool
    bounds: Bounds
    state: Path | None


def evidence_bounds(memory_mib: int, clusters: int, *, every_commit: bool) -> Bounds:
    """Return how much is kept of each cluster: a share of the memory is for what groups are made of."""
    return replace(
        BOUNDED,
        commits_max=None if every_commit else BOUNDED.commits_max,
        memory_bytes=int(memory_mib * _MIB * _SHARE) // clusters,
    )


def watch_index(memory_mib: int, health: HealthSettings) -> Index:
    """Return an empty index: as large a share is for what is shown of groups, and half of that for their records."""
    bytes_max = int(memory_mib * _MIB * _SHARE)
    return Index(
        DashboardSettings(groups_max_bytes=bytes_max, memory_max_bytes=bytes_max // 2, health=health), DiskStore()
    )


def watch_source(
    clusters: Mapping[str, Mapping[str, str]], broker_logs: Iterable[str], options: WatchOptions
) -> HistorySource:
    """`clusters`: the clients' properties by name; a single cluster is called "". Raises CommandError."""
    from group_coordinator.watching.watch.clusters import ClusterSources

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
    if sum(of_cluster.count(STANDARD_INPUT) for of_cluster in patterns.values()) > 1:
        raise CommandError("--broker-log -: standard input is read once, for one cluster.", WRONG_USE)
    return patterns


def _cluster_source(name: str, properties: Mapping[str, str], logs: list[str], options: WatchOptions) -> ClusterSource:
    from group_coordinator.watching.watch.clusters import ClusterSource
    from group_coordinator.watching.watch.source import WatchSource

    def polls(refusal: str) -> PollSource:
        from group_coordinator.watching.watch.polling import PollSource

        print_line(f"{refusal} Groups are polled instead.", error=True)
        return PollSource(properties, refusal, cluster=name)

    topic = partial(
        WatchSource,
        properties,
        logs,
        time_zone=options.time_zone,
        follow=options.follow or STANDARD_INPUT in logs,
        bounds=options.bounds,
        state=options.state / name if options.state and name else options.state,
        cluster=name,
    )
    return ClusterSource(topic, polls)
