"""Exactly once through the gateway: transactional loops, and everything between them and the coordinator is killed."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.coordinating.transactions.log_topic import topic_name
from group_coordinator.coordinating.transactions.relays import Relays
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.transaction_history import TransactionalOffsetsAborted, TransactionalOffsetsPending
from tests.coordinating.gateway.clients.consumers import GO_MODULE
from tests.coordinating.gateway.commands import Command
from tests.coordinating.gateway.conftest import PARTITIONS, produce_to
from tests.coordinating.gateway.loops import LoopGroup
from tests.coordinating.gateway.pump import Pump
from tests.coordinating.gateway.relaying import relays_of
from tests.making_topics import alter, make_topic
from tests.waiting import wait_until

may_hang = pytest.mark.flaky(reruns=2)
"""On a busy machine the times of transactions, sessions and starts may add up to more than is waited."""
TIMEOUT_S = 120.0


def producer_of(gateway: Gateway, transactional_id: str, **settings: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": gateway.bootstrap_servers, "transactional.id": transactional_id, "log_level": "2",
            **settings,
        }
    )  # fmt: skip
    producer.init_transactions(20)
    return producer


def consumer_of(gateway: Gateway, group_id: str, **settings: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": gateway.bootstrap_servers, "group.id": group_id, "log_level": "2", **settings}
    )


def committed(consumer: Consumer, topic: str) -> int:
    (place,) = consumer.committed([TopicPartition(topic, 0)], 20)
    return place.offset


def test_offsets_count_when_their_transaction_is_committed_and_never_if_it_is_aborted(
    gateway: Gateway, pump: Pump, topic: str, relays: Relays
) -> None:
    producer, consumer = producer_of(gateway, "tx"), consumer_of(gateway, "g")
    metadata = consumer.consumer_group_metadata()
    for offset, is_committed, then in ((5, True, 5), (7, False, 5), (9, True, 9), (11, False, 9)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, 20)
        if is_committed:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
        assert committed(consumer_of(gateway, "g", **{"isolation.level": "read_committed"}), topic) == then
    wait_until(lambda: relays.shards[0].open_transactions == 0, 20)
    assert relays.shards[0].refusals == 0
    kinds = [type(record) for record in pump.history]
    assert kinds.count(TransactionalOffsetsPending) == 4
    assert kinds.count(TransactionalOffsetsAborted) == 2


def test_a_stable_fetch_waits_for_an_open_transaction_and_no_longer_than_its_time(
    gateway: Gateway, pump: Pump, topic: str, relays: Relays
) -> None:
    """Nobody ends it: the brokers do, and write that down where the relay reads it."""
    producer = producer_of(gateway, "forgotten", **{"transaction.timeout.ms": "3000"})
    stable = consumer_of(gateway, "g", **{"isolation.level": "read_committed"})
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 5)], stable.consumer_group_metadata(), 20)
    assert committed(consumer_of(gateway, "g", **{"isolation.level": "read_uncommitted"}), topic) < 0
    with pytest.raises(KafkaException):
        stable.committed([TopicPartition(topic, 0)], 0.5)
    (sentence,) = relays.shards[0].sentences(time.time() + 100)
    assert "offsets of g wait for transaction forgotten of producer " in sentence
    wait_until(lambda: relays.shards[0].open_transactions == 0, TIMEOUT_S)
    assert committed(stable, topic) < 0


def test_a_twin_fences_the_first_producer(gateway: Gateway, topic: str, relays: Relays) -> None:
    first, consumer = producer_of(gateway, "tx"), consumer_of(gateway, "g")
    metadata = consumer.consumer_group_metadata()
    first.begin_transaction()
    first.send_offsets_to_transaction([TopicPartition(topic, 0, 5)], metadata, 20)
    second = producer_of(gateway, "tx")
    with pytest.raises(KafkaException) as refused:
        first.send_offsets_to_transaction([TopicPartition(topic, 0, 6)], metadata, 20)
    assert refused.value.args[0].fatal()
    second.begin_transaction()
    second.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], metadata, 20)
    second.commit_transaction(20)
    assert committed(consumer_of(gateway, "g", **{"isolation.level": "read_committed"}), topic) == 7


def test_a_log_that_takes_nothing_is_told_and_holds_up_nobody_else(
    gateway: Gateway, gateway_config: GatewaySettings, topic: str, relays: Relays, admin: AdminClient,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    producer, plain = producer_of(gateway, "tx"), consumer_of(gateway, "plain")
    log = topic_name(gateway_config.topic_prefix)

    def send(offset: int, timeout_s: float) -> None:
        metadata = consumer_of(gateway, "g").consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, timeout_s)

    alter(admin, ResourceType.TOPIC, log, {"max.message.bytes": "100"})  # the ends of transactions are shorter
    producer.begin_transaction()
    with pytest.raises(KafkaException):
        send(5, 20)
    assert f"{log}-0: an append is refused with MESSAGE_TOO_LARGE" in caplog.text
    plain.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    producer.abort_transaction(20)
    alter(admin, ResourceType.TOPIC, log, {"max.message.bytes": "1048588"})
    producer.begin_transaction()
    send(6, 20)
    admin.delete_topics([log])[log].result(20)
    with pytest.raises(KafkaException):
        send(7, 8)
    assert f"{log} cannot be added to a transaction" in caplog.text
    plain.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)


def test_a_log_that_was_made_anew_begins_again_for_groups_that_have_seen_more_of_the_old_one(
    gateway: Gateway, gateway_config: GatewaySettings, topic: str, relays: Relays, admin: AdminClient
) -> None:
    metadata = consumer_of(gateway, "g").consumer_group_metadata()

    def commit(producer: Producer, offset: int) -> None:
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, 20)
        producer.commit_transaction(20)

    first, log = producer_of(gateway, "first"), topic_name(gateway_config.topic_prefix)
    for offset in range(1, 6):
        commit(first, offset)
    wait_until(lambda: relays.shards[0].next_offset == 10, TIMEOUT_S)
    admin.delete_topics([log])[log].result(20)
    wait_until(lambda: relays.not_ready() != [], TIMEOUT_S)
    make_topic(admin, log, 1)
    wait_until(lambda: relays.not_ready() == [], TIMEOUT_S)
    second = producer_of(gateway, "second")
    commit(second, 6)
    assert committed(consumer_of(gateway, "g", **{"isolation.level": "read_committed"}), topic) == 6
    assert relays.shards[0].next_offset == 2


def test_an_open_transaction_holds_up_no_other_group(gateway: Gateway, topic: str, relays: Relays) -> None:
    stalled, other = producer_of(gateway, "stalled"), producer_of(gateway, "other")
    stalled.begin_transaction()
    stalled.send_offsets_to_transaction(
        [TopicPartition(topic, 0, 5)], consumer_of(gateway, "a").consumer_group_metadata(), 20
    )
    other.begin_transaction()
    other.send_offsets_to_transaction(
        [TopicPartition(topic, 0, 6)], consumer_of(gateway, "b").consumer_group_metadata(), 20
    )
    other.commit_transaction(20)
    assert committed(consumer_of(gateway, "b", **{"isolation.level": "read_committed"}), topic) == 6
    stalled.abort_transaction(20)


def test_the_relay_that_began_first_ends_when_it_sees_another(
    gateway: Gateway, gateway_config: GatewaySettings, topic: str, relays: Relays
) -> None:
    twin = relays_of(gateway_config)
    twin.start()
    try:
        wait_until(lambda: twin.shards[0].problem is None, TIMEOUT_S)
        producer, consumer = producer_of(gateway, "tx"), consumer_of(gateway, "g")
        for offset in (5, 6):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 20
            )
            producer.commit_transaction(20)
            wait_until(lambda: relays.have_ended, TIMEOUT_S)
        assert committed(consumer_of(gateway, "g", **{"isolation.level": "read_committed"}), topic) == 6
        assert relays.not_ready() != []
        assert twin.not_ready() == []
    finally:
        twin.stop()


@pytest.mark.end_to_end
def test_franz_gos_own_test_of_transactions(gateway: Gateway, tmp_path: Path, relays: Relays) -> None:
    """Chains of groups that commit in transactions, and abort some: no record twice, none lost."""
    test = tmp_path / "kgo.test"
    try:
        subprocess.run(
            ["go", "test", "-c", "-o", str(test), "github.com/twmb/franz-go/pkg/kgo"],
            check=True, cwd=GO_MODULE, timeout=600,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as problem:
        pytest.skip(f"no Go, or no modules for it: {problem}")
    environment = {
        **os.environ, "KGO_SEEDS": gateway.bootstrap_servers, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "1000",
    }  # fmt: skip
    done = subprocess.run(
        [str(test), "-test.run", "^TestTxnEtl$", "-test.v", "-test.timeout", "300s"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=330,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if "FAIL" in line or "_test.go:" in line]
    assert done.returncode == 0, "\n".join(line for line in told if "deleting" not in line)
    assert "--- PASS: TestTxnEtl" in done.stdout
    assert "AddOffsetsToTxn" not in gateway.metrics.requests, "its transactions are of version 2"
    wait_until(lambda: relays.shards[0].open_transactions == 0, TIMEOUT_S)
    assert relays.shards[0].refusals == 0


# ------------------------------------------------------------------------------------------------ exactly once, killed


class Run:
    """Two loops of librdkafka in a group of its own, and what they were given."""

    def __init__(
        self, kafka: EmbeddedKafka, admin: AdminClient, gateway: str, directory: Path, protocol: str, prefix: str
    ) -> None:
        self.loops = LoopGroup("librdkafka", kafka, gateway, directory, protocol, prefix=prefix)
        for name in (self.loops.source, self.loops.target):
            make_topic(admin, name, PARTITIONS)
        self._produce = produce_to(kafka.bootstrap_servers, self.loops.source)
        self._written = 0

    def go_on(self, seconds: float) -> None:
        self._produce(self._written, self._written + 150)
        self._written += 150
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            self.loops.look()
            time.sleep(0.1)

    def audit(self) -> None:
        assert self.loops.problems(self._written, 2 * TIMEOUT_S) == []


@may_hang
@pytest.mark.end_to_end
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_every_input_comes_out_exactly_once_whatever_is_killed(
    kafka: EmbeddedKafka, admin: AdminClient, gateway_config: GatewaySettings, pump: Pump, tmp_path: Path,
    topic_prefix: str, group_protocol: str,
) -> None:  # fmt: skip
    where = ("--bootstrap-servers", kafka.bootstrap_servers, "--topic-prefix", gateway_config.topic_prefix)
    relay = Command(tmp_path / "relay.log", "Relaying", "relay", *where)
    relay.start()
    gateway = Command(
        tmp_path / "gateway.log", "The gateway is ready", "gateway", *where, "--transactions", "--listen",
        str(gateway_config.listen),
    )  # fmt: skip
    gateway.start()
    run = Run(kafka, admin, str(gateway_config.listen), tmp_path, group_protocol, topic_prefix)
    chance = random.Random(group_protocol)
    try:
        for kill in ("none", "loop", "relay", "gateway", "loop", "gateway", "relay", "none"):
            run.go_on(chance.uniform(2.0, 4.0))
            if kill == "loop":
                run.loops.disturb(chance)
            elif kill != "none":
                command = relay if kill == "relay" else gateway
                command.kill()
                command.start()
        run.audit()
    finally:
        run.loops.end()
        gateway.kill()
        relay.kill()


@may_hang
@pytest.mark.end_to_end
@pytest.mark.spark
def test_the_coordinator_with_its_relay_gateway_and_query_is_killed(
    kafka: EmbeddedKafka, admin: AdminClient, gateway_config: GatewaySettings, tmp_path: Path, topic_prefix: str
) -> None:
    app = Command(
        tmp_path / "run.log", "The gateway is ready", "run", "--bootstrap-servers", kafka.bootstrap_servers,
        "--topic-prefix", gateway_config.topic_prefix, "--checkpoint", str(tmp_path / "checkpoint"), "--gateway",
        str(gateway_config.listen), "--transactions", "--group-initial-rebalance-delay-ms", "0", "--spark",
        "spark.driver.memory=512m",
    )  # fmt: skip
    app.start()
    run = Run(kafka, admin, str(gateway_config.listen), tmp_path, "classic", topic_prefix)
    try:
        for _ in range(2):
            run.go_on(10.0)
            app.kill()
            app.start()
        run.go_on(5.0)
        run.audit()
    finally:
        run.loops.end()
        app.kill()
