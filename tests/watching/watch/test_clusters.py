"""Several clusters in one view: equal group ids are told apart, and a cluster that is away hides no other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from random import Random
from urllib.parse import urlencode

import pyarrow.dataset as ds
import pytest

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.replay_output import read_history_files
from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.settings.loading import ConfigError, load
from group_coordinator.watching.commands.watch_outputs import open_outputs
from group_coordinator.watching.commands.watch_settings import WatchSettings
from group_coordinator.watching.commands.watch_sources import WatchOptions, watch_source
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.server import RunningServer, start_server
from group_coordinator.watching.dashboard.sources import SourceError
from group_coordinator.watching.observed.evidence import BOUNDED
from group_coordinator.watching.watch.clusters import ClusterSources
from group_coordinator.watching.watch.writing import WrittenSource
from tests.waiting import wait_until
from tests.watching.dashboard.http import document
from tests.watching.observed.pieces import mixed
from tests.watching.watch.recorded_source import Recorded
from tests.watching.watch.written import TOPICS, outputs

NAME, ZONE = "old-3.9", UTC


class Away(Recorded):
    """A cluster that cannot be reached."""

    def start(self, index: Index) -> None:
        raise SourceError("Kafka at test:9092 does not answer.")


def recorded(cluster: str, seed: int) -> Callable[[], Recorded]:
    def make() -> Recorded:
        source = Recorded(f"{cluster} ({NAME})", cluster)
        source.give(mixed(NAME, Random(seed)))
        source.is_whole = True
        return source

    return make


def page(server: RunningServer, group_id: str) -> dict[str, object]:
    answer = document(server, f"/api/v1/group-over-time?{urlencode({'group': group_id})}")
    assert isinstance(answer, dict)
    return answer


def test_two_clusters_with_the_same_groups(tmp_path: Path) -> None:
    source = ClusterSources({"prod": recorded("prod", 1), "eu-1": recorded("eu-1", 2), "test": lambda: Away("test")})
    written = WrittenSource(source, open_outputs(outputs(tmp_path), TOPICS, source.name, has_clusters=True), 0.1)
    with start_server(written) as server:
        wait_until(lambda: (tmp_path / "report.html").exists())
        overview = document(server, "/api/v1/overview")
        assert overview["caught_up"]
        assert any(doubt.startswith("test: it is not watched") for doubt in overview["doubts"])
        assert "not reached" in [watched["sources"][0]["problem"] for watched in overview["watched"]]
        names = [row["group_id"] for row in document(server, "/api/v1/groups")["groups"]]
        of_one = sorted(name.removeprefix("prod/") for name in names if name.startswith("prod/"))
        assert of_one
        assert sorted(names) == sorted(f"{cluster}/{name}" for cluster in ("prod", "eu-1") for name in of_one)
        prod_page, eu_page = (page(server, f"{cluster}/{of_one[0]}") for cluster in ("prod", "eu-1"))
        assert prod_page["rebalances"] == eu_page["rebalances"]
        assert len({event["group_id"] for event in document(server, "/api/v1/events")["events"]}) > 1
    group_ids = {record.group_id for record in read_history_files(tmp_path / "out")}
    assert group_ids == set(names)
    rows = ds.dataset(tmp_path / "tables" / "rebalances", format="parquet", partitioning="hive").to_table()
    clusters = rows.column("cluster").to_pylist()
    assert clusters.count("prod") == clusters.count("eu-1") == len(clusters) // 2 > 0
    assert set(rows.column("group_id").to_pylist()) <= set(of_one)


def test_lag_is_of_the_groups_own_cluster() -> None:
    index = Index()
    for cluster in ("prod", "test"):
        source = Recorded(NAME, cluster)
        source.start(index)
        source.give(mixed(NAME, Random(3)))
    places = index.places("prod")
    assert places
    assert places == index.places("test")
    now_ms = index.last_ms
    index.poll_ends(now_ms, {place: Bounds(0, 1_000_000) for place in places}, "prod")
    lags = {row.group_id: row.lag for row in index.rows(now_ms)}
    assert {lag for name, lag in lags.items() if name.startswith("test/")} == {None}
    assert any((lag or 0) > 100_000 for name, lag in lags.items() if name.startswith("prod/"))


def test_a_cluster_that_comes_back() -> None:
    tries = [Away("test"), recorded("test", 4)()]
    source, index = ClusterSources({"test": lambda: tries.pop(0)}, retry_s=0.05), Index()
    source.start(index)
    wait_until(lambda: source.is_whole)
    assert source.progress()["caught_up"]
    assert list(source.histories())
    source.stop()


def test_settings_of_clusters(tmp_path: Path) -> None:
    file = tmp_path / "watch.toml"
    file.write_text(
        '[kafka]\n"security.protocol" = "SSL"\n'
        '[cluster.prod]\n"bootstrap.servers" = "old:9092"\n"client.id" = "me"\n'
        '[cluster.test]\n"bootstrap.servers" = "test:9092"\n"security.protocol" = "PLAINTEXT"\n'
    )
    config, _ = load(WatchSettings, {"cluster": {"prod": {"bootstrap.servers": "new:9092"}}}, file)
    prod, test = config.clusters["prod"], config.clusters["test"]
    assert prod == {"client.id": "me", "security.protocol": "SSL", "bootstrap.servers": "new:9092"}
    assert test["security.protocol"] == "PLAINTEXT"
    file.write_text('[cluster."a/b"]\n"bootstrap.servers" = "x"\n[cluster.c]\n"sasl.mechanismus" = "PLAIN"\n')
    with pytest.raises(ConfigError) as caught:
        load(WatchSettings, {}, file)
    problems = "\n".join(caught.value.problems)
    assert "'a/b' is no name" in problems
    assert "cluster.c has no bootstrap.servers." in problems
    assert "sasl.mechanismus" in problems
    file.write_text('[cluster]\nprod = "prod:9092"\n')
    with pytest.raises(ConfigError, match=r"cluster\.prod is a text, but must be a table"):
        load(WatchSettings, {}, file)


def test_logs_go_with_a_cluster(tmp_path: Path) -> None:
    config = WatchSettings(cluster={"prod": {"bootstrap.servers": "prod:9092"}, "a": {"bootstrap.servers": "a:9092"}})
    options = WatchOptions(time_zone=ZONE, follow=False, bounds=BOUNDED, state=tmp_path)
    assert watch_source(config.clusters, ["prod=server.log*"], options).name == "prod, a"
    for broker_log in ("server.log", "test=server.log"):
        with pytest.raises(CommandError, match="write NAME=FILE"):
            watch_source(config.clusters, [broker_log], options)
