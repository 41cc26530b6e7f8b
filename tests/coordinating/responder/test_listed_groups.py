"""While the query is away both gateways list, describe and miss groups as a responder has answered, whichever of them
was asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from tests.coordinating.responder.shard_without_query import SESSION_MS, Shard
from tests.making_topics import make_topic
from tests.streaming.running_app import TIMEOUT_S
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end


class AskedGateway:
    """One of the gateways, and who asks it. (An admin client that nobody holds answers nobody.)"""

    def __init__(self, gateway: Gateway) -> None:
        self.bootstrap_servers = gateway.bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers, "log_level": 0})

    def listed(self) -> dict[str, tuple[str, str]]:
        groups = self._admin.list_consumer_groups().result(TIMEOUT_S).valid
        return {group.group_id: (group.state.name, group.type.name) for group in groups}

    def described(self) -> tuple[str, int]:
        description = self._admin.describe_consumer_groups(["g"])["g"].result(TIMEOUT_S)
        return description.state.name, len(description.members)

    def delete(self) -> None:
        self._admin.delete_consumer_groups(["g"])["g"].result(TIMEOUT_S)


@pytest.fixture
def gateways(shard: Shard) -> Iterator[tuple[AskedGateway, AskedGateway]]:
    shard.coordinator_ticker()
    config = GatewaySettings(
        listen="127.0.0.1:0", bootstrap_servers=shard.config.bootstrap_servers,
        topic_prefix=shard.config.topic_prefix,
    )  # fmt: skip
    with ExitStack() as stack:
        first, second = (AskedGateway(stack.enter_context(Gateway(config))) for _ in range(2))
        yield first, second


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_both_gateways_tell_of_a_group_what_its_members_were_answered(
    shard: Shard, gateways: tuple[AskedGateway, AskedGateway], admin: AdminClient, topic_prefix: str, protocol: str
) -> None:
    responder = shard.start_responder()
    make_topic(admin, f"{topic_prefix}-data")
    asked, other = gateways
    of_protocol: dict[str, int] = {"session.timeout.ms": SESSION_MS} if protocol == "classic" else {}
    consumer = Consumer(
        {
            "bootstrap.servers": asked.bootstrap_servers, "group.id": "g", "group.protocol": protocol, "log_level": 0,
            **of_protocol,
        }
    )  # fmt: skip
    consumer.subscribe([f"{topic_prefix}-data"])

    def is_stable() -> bool:
        consumer.poll(0.1)
        return asked.described() == ("STABLE", 1)

    wait_until(is_stable, TIMEOUT_S, interval_s=0)
    assert [gateway.listed() for gateway in (other, asked)] == [{"g": ("STABLE", protocol.upper())}] * 2
    assert other.described() == ("STABLE", 1)
    consumer.close()
    assert [gateway.listed() for gateway in (other, asked)] == [{"g": ("EMPTY", protocol.upper())}] * 2
    assert other.described() == ("EMPTY", 0)
    other.delete()
    assert [gateway.listed() for gateway in (asked, other)] == [{}] * 2
    assert asked.described() == ("DEAD", 0)
    assert responder.failure is None
