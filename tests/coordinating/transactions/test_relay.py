"""The relay on real brokers: what it writes has the order of the log, and no gap, whatever becomes of the brokers."""

from __future__ import annotations

import os
import signal
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.transactions import relay
from group_coordinator.coordinating.transactions.log_topic import topic_name
from group_coordinator.coordinating.transactions.relay import RelaySettings, ShardRelay
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import TransactionEnded, decode_group_event, encode_request_event
from schemas.messages import TxnOffsetCommitRequest
from schemas.transaction_messages import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from tests.making_topics import make_topic
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

TRANSACTIONS = 40
TIMEOUT_S = 1.0


def commit_in_transactions(kafka: EmbeddedKafka, log_topic: str) -> None:
    """As a gateway does, each in a transaction of its own."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": log_topic})
    producer.init_transactions(30)
    for offset in range(TRANSACTIONS):
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=log_topic, group_id="g", producer_id=7, producer_epoch=0,
            topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
        )  # fmt: skip
        value = encode_request_event(
            "TxnOffsetCommit", 3, request, request_id=f"r{offset}", reply_partition=0, client_id="c", client_host="h"
        )
        producer.begin_transaction()
        producer.produce(log_topic, value, b"g", 0)
        producer.commit_transaction(30)


def places(kafka: EmbeddedKafka, events_topic: str) -> list[int]:
    """The places in the log of all events, in their order, each when it comes first."""
    found: dict[int, None] = {}
    for record in read_topic({"bootstrap.servers": kafka.bootstrap_servers}, events_topic):
        event = decode_group_event("g", record.value())
        told = event[1] if isinstance(event, tuple) else event
        assert isinstance(told, TxnOffsetCommitRequest | TransactionEnded)
        assert told.log is not None
        found[told.log.offset] = None
    return list(found)


def test_events_that_wait_for_a_broker_go_in_order_or_not_at_all(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group takes no event that comes behind a later one: an end that is passed over would be lost to it."""
    monkeypatch.setattr(relay, "_TIMEOUT_S", TIMEOUT_S)
    log_topic, events_topic = topic_name(topic_prefix), f"{topic_prefix}.events"
    make_topic(admin, log_topic)
    commit_in_transactions(kafka, log_topic)
    with EmbeddedKafka() as away:
        make_topic(new_admin_client({"bootstrap.servers": away.bootstrap_servers}), events_topic)
        assert away.pid is not None
        os.kill(away.pid, signal.SIGSTOP)
        # The queue is so small that what comes later waits for room while the first ones wait for the broker.
        running = ShardRelay(
            RelaySettings(
                log_properties={"bootstrap.servers": kafka.bootstrap_servers}, log_topic=log_topic,
                events_properties={"bootstrap.servers": away.bootstrap_servers, "queue.buffering.max.messages": "10"},
                events_topic=events_topic, shards=1, open_bytes_max=1 << 20,
            ),
            0,
        )  # fmt: skip
        running.start()
        try:
            time.sleep(4 * TIMEOUT_S)
            os.kill(away.pid, signal.SIGCONT)
            wait_until(lambda: running.lag == 0 and len(set(places(away, events_topic))) == 2 * TRANSACTIONS, 60)
        finally:
            os.kill(away.pid, signal.SIGCONT)
            running.stop()
        in_order = places(away, events_topic)
    assert in_order == sorted(in_order)
