"""Where share groups stand, as the brokers' own tool says, everywhere where lag is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.committed import ShareOffset, of_share_group
from group_coordinator.watching.dashboard.documents import Documents, details
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.lag import EndOffsets, Lag
from group_coordinator.watching.watch import share_offsets
from group_coordinator.watching.watch.lag_metrics import LagSeries, lag_gauges
from group_coordinator.watching.watch.share_offsets import ShareOffsets
from group_coordinator.watching.watch.source import WatchSource
from tests.command_line.calls import call, text_of
from tests.kafka_programs import run_tool
from tests.making_topics import make_topic
from tests.waiting import wait_until

GROUP, TOPIC, MESSAGES = "deliveries", "parcels", 100
Told = dict[int, tuple[int, int]]


@pytest.fixture(scope="module")
def broker(kafka_jars: object) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        make_topic(admin, TOPIC, 2)
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        of_group = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([of_group]).values():
            future.result()
        yield kafka


@pytest.mark.parametrize("module", ["kafka.net.manager", "kafka.net.selector", "kafka.protocol.api_message"])
def test_a_library_that_is_other_inside_costs_the_lag_alone(
    module: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(share_offsets, "library", share_offsets.library.__wrapped__)
    ask = ShareOffsets({"bootstrap.servers": "127.0.0.1:1"})
    assert (ask([GROUP]), ask([GROUP])) == ({}, {})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "is other inside" in caplog.text


def produce(kafka: EmbeddedKafka) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(MESSAGES):
        producer.produce(TOPIC, str(number).encode(), partition=number % 2)
    producer.flush()


def consume(kafka: EmbeddedKafka, messages: int) -> None:
    consumer = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    arguments = ("--topic", TOPIC, "--group", GROUP, "--max-messages", str(messages), "--timeout-ms", "60000")
    done = run_tool(consumer, "--bootstrap-server", kafka.bootstrap_servers, *arguments)
    assert len(done.stdout.splitlines()) == messages, done.stderr


def by_the_tool(kafka: EmbeddedKafka) -> Told:
    """Partition -> start offset and lag, of kafka-share-groups.sh. It has neither while nobody has read there."""
    tool = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
    arguments = ("--describe", "--offsets", "--group", GROUP)
    lines = run_tool(tool, "--bootstrap-server", kafka.bootstrap_servers, *arguments).stdout.splitlines()
    cells = [line.split() for line in lines]
    return {
        int(each[2]): (int(each[3]), int(each[4])) for each in cells if each[:2] == [GROUP, TOPIC] and "-" not in each
    }


def by_the_page(index: Index) -> Told:
    row = index.row(GROUP, index.last_ms)
    if row is None:
        return {}
    told = details(index, GROUP, index.last_ms).partitions
    return {
        each.partition: (each.committed_offset, each.lag)
        for each in told
        if each.committed_offset is not None and each.lag is not None
    }


@pytest.mark.kafka
def test_it_is_what_the_tool_says(broker: EmbeddedKafka) -> None:
    produce(broker)
    consume(broker, 37)
    index = Index()
    source = WatchSource({"bootstrap.servers": broker.bootstrap_servers})
    source.start(index)
    try:
        first = by_the_tool(broker)
        lag = sum(lag for _, lag in first.values())
        wait_until(lambda: by_the_page(index) == first, 60)
        row = index.row(GROUP, index.last_ms)
        assert row is not None
        assert lag + row.uncommitted_messages == MESSAGES - 37
        assert (row.type, row.lag, row.uncommitted_partitions, row.finding_counts) == ("share", lag, 2 - len(first), {})
        page = Documents(index).group(GROUP)
        assert {(each.committed_ms, each.expires_ms) for each in page["offsets"]} == {(None, None)}
        gauges = {value.metric: value for value in lag_gauges(index, LagSeries(groups_max=5))}
        assert (gauges[m.GROUP_LAG].labels[-2:], gauges[m.GROUP_LAG].value) == ((GROUP, TOPIC), lag)
        produce(broker)
        consume(broker, 60)
        second = by_the_tool(broker)
        assert second != first
        wait_until(lambda: by_the_page(index) == second, 60)
    finally:
        source.stop()
    text = text_of(call("groups", "--bootstrap-servers", broker.bootstrap_servers, "--group", GROUP))
    for number, (start, lag) in second.items():
        assert f"{TOPIC} {number} {start} {MESSAGES} {lag}" in " ".join(text.split())


@pytest.mark.kafka
def test_brokers_without_it(broker: EmbeddedKafka) -> None:
    """Nobody who is not there is told of, and a broker that does not answer is no error."""
    ask = ShareOffsets({"bootstrap.servers": broker.bootstrap_servers})
    assert ask([]) == {}
    assert ask(["nobody"]) == {"nobody": {}}
    ask.close()
    away = ShareOffsets({"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": "100"})
    assert away([GROUP]) == {}


def test_what_the_coordinator_counts_is_the_lag() -> None:
    """A group may be done with messages behind its start offset; where that is not counted, all of them may wait."""
    ends, place = EndOffsets(), (TOPIC, 0)
    ends.poll(1_000, {place: Bounds(10, 100)})
    for told, lag in (
        (ShareOffset(40, 25), Lag(25, 1_000, True, 0)),
        (ShareOffset(40, None), Lag(60, 1_000, True, 0)),
        (ShareOffset(40, 0), Lag(0, 0, True, 0)),
        (ShareOffset(4, 90), Lag(90, 1_000, True, 0)),
    ):
        offsets, _ = of_share_group({place: told})
        assert ends.group_lag(offsets, 2_000) == lag
