"""Partitions that are added to the events topic: a gateway that runs ends, and another does not start."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from group_coordinator.coordinating.gateway.config import GatewayError, GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.coordinating.gateway.shard_count import ShardCount
from group_coordinator.ground.kafka_topics import described
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_request_event
from schemas.messages import HeartbeatRequest
from schemas.shards import partitions_were_added, problem_of_ends
from streaming.topics import TopicSettings
from tests.coordinating.gateway.pump import Pump
from tests.waiting import wait_until

SOMETHING = encode_request_event(
    "Heartbeat", 4, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), request_id="r", reply_partition=0,
    client_id="c",
)  # fmt: skip


def test_the_words() -> None:
    text = partitions_were_added("c.events", 1, 3)
    assert text.startswith("c.events had 1 partition and has 3 partitions now: ")
    assert "offsets export" in text


@pytest.mark.parametrize("ends", [(), (0,), (7,), (0, 0), (7, 1)])
def test_all_is_well(ends: tuple[int, ...]) -> None:
    """Before the coordinator has begun nothing is known."""
    assert problem_of_ends("c.events", ends) is None


def test_one_that_is_empty_beside_others_is_no_shard() -> None:
    problem = problem_of_ends("c.events", (7, 0, 0))
    assert problem is not None
    assert problem.startswith("Nobody coordinates partition 1, 2 of c.events")
    assert "run --shard 1" in problem


def test_a_gateway_ends_and_none_begins(
    gateway_config: GatewaySettings,
    pump: Pump,
    admin: AdminClient,
    kafka: EmbeddedKafka,
    topic_settings: TopicSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = topic_settings.topics.events
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(events, SOMETHING, b"g", partition=0)
    producer.flush()
    monkeypatch.setattr("group_coordinator.coordinating.gateway.shard_count.START_TIMEOUT_S", 1.0)
    with Gateway(gateway_config) as gateway:
        admin.create_partitions([NewPartitions(events, 2)])[events].result(20)
        wait_until(lambda: not gateway.is_ready)
        with pytest.raises(GatewayError, match="had 1 partition and has 2 partitions now"):
            gateway.check()
    with pytest.raises(GatewayError, match="Nobody coordinates partition 1"):
        Gateway(gateway_config).start()


def test_kafka_that_is_away_is_no_reason_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described, "_TIMEOUT_S", 0.5)
    count = ShardCount({"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": "100"}, "c.events", 3)
    assert count.look() == 3
