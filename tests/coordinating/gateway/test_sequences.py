"""Sequence numbers in the log of transactions: the producer writes none there, so gateways must know them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.protocol.producer.produce import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.coordinating.transactions.log_topic import topic_name
from group_coordinator.coordinating.transactions.relays import Relays
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from tests.coordinating.gateway.raw_producer import Identity, RawProducer
from tests.coordinating.gateway.relaying import log_of
from tests.coordinating.gateway.wire import request


@pytest.fixture
def twin(gateway: Gateway, gateway_config: GatewaySettings, relays: Relays) -> Iterator[Gateway]:
    """A second gateway to the same coordinator."""
    config = replace(gateway_config, listen="127.0.0.1:0")
    with Gateway(config, transaction_log=log_of(config)) as twin:
        yield twin


def commit(gateway: Gateway, producer: Identity, topic: str, *offsets: int) -> list[int]:
    """Commit these offsets in one transaction, and return the codes of the answers."""
    with RawProducer(gateway.bootstrap_servers) as connection:
        connection.add_group(producer, "g")
        codes = [connection.commit(producer, "g", topic, offset) for offset in offsets]
        connection.end(producer, committed=True)
    return codes


def committed(gateway: Gateway, topic: str) -> int:
    consumer = Consumer(
        {"bootstrap.servers": gateway.bootstrap_servers, "group.id": "g", "isolation.level": "read_committed"}
    )
    (place,) = consumer.committed([TopicPartition(topic, 0)], 20)
    return int(place.offset)


def new_producer(gateway: Gateway, transactional_id: str = "tx") -> Identity:
    with RawProducer(gateway.bootstrap_servers) as connection:
        return connection.identify(transactional_id)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_gateway_that_knows_nothing_of_a_producer_takes_its_commits(
    gateway: Gateway, twin: Gateway, topic: str, relays: Relays, count: int
) -> None:
    """Its first numbers have been used. Brokers would say of a second batch that they have it, and nobody would ever
    see that one."""
    producer = new_producer(gateway)
    assert commit(gateway, producer, topic, *range(count)) == [0] * count
    assert commit(twin, producer, topic, 100, 101) == [0, 0], "none waits in vain for its answer"
    assert committed(twin, topic) == 101
    again = new_producer(gateway)
    assert again.epoch == producer.epoch + 1
    assert commit(twin, again, topic, 102, 103) == [0, 0]
    assert committed(twin, topic) == 103


def test_very_many_producers_of_the_last_day_hold_up_nobody(
    kafka: EmbeddedKafka, gateway: Gateway, gateway_config: GatewaySettings, topic: str, relays: Relays
) -> None:
    """A leader that is asked for its producers names all of them: of so many in more than a megabyte."""
    write_batches(kafka.bootstrap_servers, topic_name(gateway_config.topic_prefix), producers=28_000)
    producer = new_producer(gateway)
    assert commit(gateway, producer, topic, 1, 2) == [0, 0]
    assert committed(gateway, topic) == 2


def write_batches(bootstrap_servers: str, log: str, *, producers: int) -> None:
    """Each is of another producer. They need no transaction, and no relay makes anything of them."""
    data, version = ProduceRequest.TopicProduceData, 9

    def batch(producer_id: int) -> Any:
        builder = DefaultRecordBatchBuilder(2, 0, False, producer_id, 0, 0, 1_000)
        builder.append(0, None, b"k", b"v", [])
        records = data.PartitionProduceData(index=0, records=bytes(builder.build()), version=version)
        return ProduceRequest[version](
            transactional_id=None, acks=-1, timeout_ms=30_000,
            topic_data=[data(name=log, partition_data=[records], version=version)],
        )  # fmt: skip

    host, port = bootstrap_servers.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 60.0) as connection, connection.makefile("rb") as answers:
        for begin in range(0, producers, 500):
            numbers = range(begin, min(begin + 500, producers))
            connection.sendall(b"".join([request(batch(1 << 40 | number), number) for number in numbers]))
            for _ in numbers:
                answers.read(int.from_bytes(answers.read(4)))
