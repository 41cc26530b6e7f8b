"""What is written of a real broker that is watched is what a replay of its offsets topic writes."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from group_coordinator.command_line.replay_output import read_history_files
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.commands.watch_outputs import open_outputs
from group_coordinator.watching.dashboard.server import start_server
from group_coordinator.watching.observed.evidence import ALL
from group_coordinator.watching.watch.source import WatchSource
from group_coordinator.watching.watch.writing import WrittenSource
from tests.command_line.calls import call
from tests.waiting import wait_until
from tests.watching.watch.live import committed, consumer, owned, with_topic
from tests.watching.watch.written import TOPICS, outputs, rows


def test_as_a_replay_writes_it(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, tmp_path: Path) -> None:
    with_topic(kafka, admin, topic_prefix)
    member = consumer(kafka, topic_prefix)
    member.subscribe([topic_prefix])
    wait_until(lambda: member.poll(0.2) is not None)
    source = WatchSource({"bootstrap.servers": kafka.bootstrap_servers}, bounds=ALL)
    watched = WrittenSource(source, open_outputs(outputs(tmp_path), TOPICS, source.name), interval_s=0.5)
    with start_server(watched) as server:
        wait_until(lambda: owned(server.index, topic_prefix) == 2)
        wait_until(lambda: (tmp_path / "report.html").exists())
        for offset in (3, 4):
            member.commit(offsets=[TopicPartition(topic_prefix, 1, offset)], asynchronous=False)
        wait_until(lambda: committed(server.index, topic_prefix, topic_prefix, 1) == 4)
        member.close()
        wait_until(lambda: (facts := server.index.facts(topic_prefix)) is not None and facts.state == "Empty")
    dump, servers = tmp_path / "cluster.offsets.jsonl.gz", kafka.bootstrap_servers
    assert call("export", "offsets-topic", "--bootstrap-servers", servers, "--out", dump).exit_code == 0
    expected, replayed = tmp_path / "expected", tmp_path / "replayed"
    replay_options = ("--in-process", "--tables", expected, "--tables-format", "parquet", "--out", replayed)
    assert call("replay", dump, *replay_options).exit_code == 0
    assert rows(tmp_path / "tables") == rows(expected)
    assert list(read_history_files(tmp_path / "out")) == list(read_history_files(replayed))
    assert topic_prefix in call("explain", "--from", tmp_path / "out", "--group", topic_prefix).output
