"""Two real brokers in one view, with a group of the same name on each."""

from __future__ import annotations

from datetime import UTC
from functools import partial
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.commands.watch_settings import WatchSettings
from group_coordinator.watching.commands.watch_sources import WatchOptions, watch_source
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.server import start_server
from group_coordinator.watching.observed.evidence import BOUNDED
from tests.waiting import wait_until
from tests.watching.dashboard.http import document
from tests.watching.watch.live import committed, consumer, with_topic


def read_and_commit(kafka: EmbeddedKafka, name: str, offset: int) -> None:
    """As a group that is called like its topic."""
    member = consumer(kafka, name)
    member.subscribe([name])
    wait_until(lambda: member.poll(0.2) is not None)
    member.commit(offsets=[TopicPartition(name, 0, offset)], asynchronous=False)
    member.close()


def has_lag(index: Index, group_id: str) -> bool:
    row = index.row(group_id, index.last_ms)
    return row is not None and row.lag is not None


def test_one_view_of_two_brokers(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, tmp_path: Path) -> None:
    name = topic_prefix
    with EmbeddedKafka() as second_kafka:
        servers = {"first": kafka.bootstrap_servers, "second": second_kafka.bootstrap_servers, "away": "127.0.0.1:1"}
        admins = {"first": admin, "second": AdminClient({"bootstrap.servers": second_kafka.bootstrap_servers})}
        for number, (broker, cluster) in enumerate(((kafka, "first"), (second_kafka, "second"))):
            with_topic(broker, admins[cluster], name)
            read_and_commit(broker, name, 3 + number)
        properties = {cluster: {"bootstrap.servers": address} for cluster, address in servers.items()}
        config = WatchSettings(cluster=properties)
        options = WatchOptions(time_zone=UTC, follow=False, bounds=BOUNDED, state=tmp_path)
        with start_server(watch_source(config.clusters, (), options)) as server:
            wait_until(lambda: committed(server.index, f"first/{name}", name, 0) == 3)
            wait_until(lambda: committed(server.index, f"second/{name}", name, 0) == 4)
            wait_until(lambda: any(doubt.startswith("away: it is not watched") for doubt in server.index.doubts))
            for number, cluster in enumerate(("first", "second")):
                wait_until(partial(has_lag, server.index, f"{cluster}/{name}"))
                answer = document(server, f"/api/v1/group-over-time?group={cluster}%2F{name}")
                assert answer["group"]["group_id"] == f"{cluster}/{name}"
                (offset,) = [partition for partition in answer["offsets"] if partition["partition"] == 0]
                assert (offset["committed_offset"], offset["lag"]) == (3 + number, 5 - 3 - number)
            watched = document(server, "/api/v1/overview")["watched"]
            assert sorted(cluster["cluster"].split()[0] for cluster in watched) == sorted(servers)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]
