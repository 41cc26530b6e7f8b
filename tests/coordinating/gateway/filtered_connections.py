"""Connections that refuse the coordinator's topics to clients, and what is sent through them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafka.protocol.consumer.fetch import FetchRequest

from group_coordinator.coordinating.gateway.authorization import Authorizer, parse_rules
from group_coordinator.coordinating.gateway.config import Address, Bounds
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.topic_access import TopicAccess
from group_coordinator.coordinating.gateway.topic_filter import TopicFilter
from group_coordinator.coordinating.gateway.versions import accepted_versions
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.machines import carried

SECRET, HONEST = "coordinator.events", "orders"

OURS = accepted_versions(rewrites_addresses=False, taps=False)


def access(rules: str = "") -> TopicAccess:
    return TopicAccess("coordinator", Authorizer(parse_rules(rules, "coordinator")))


def connection(rules: str = "", topic_access: TopicAccess | None = None) -> Connection:
    return Connection(
        OURS,
        lambda node_id, _: Address("gateway", 20_000 + node_id),
        Bounds(),
        requires_sasl=False,
        topic_filter=TopicFilter(topic_access or access(rules)),
    )


def fetch_request(version: int, *topics: str | UUID, session: tuple[int, int] = (0, 0)) -> FetchRequest:
    cls = FetchRequest.FetchTopic
    partition = cls.FetchPartition(
        version=version, partition=3, current_leader_epoch=-1, fetch_offset=7, last_fetched_epoch=-1,
        log_start_offset=-1, partition_max_bytes=100,
    )  # fmt: skip
    names: list[dict[str, str | UUID]] = [
        {"topic_id" if isinstance(topic, UUID) else "topic": topic} for topic in topics
    ]
    fetch_topics = [cls(version=version, partitions=[partition], **name) for name in names]
    return FetchRequest(
        version=version, replica_id=-1, max_wait_ms=1, min_bytes=1, max_bytes=99, isolation_level=1,
        session_id=session[0], session_epoch=session[1], topics=fetch_topics, forgotten_topics_data=[], rack_id="",
    )  # fmt: skip


def sent(machine: Connection, cls: Any, version: int) -> Any:
    """What the broker is asked, decoded."""
    (frame,) = wire.frames(carried(machine.to_broker))
    return cls.decode(frame[4:], version=version, header=True)


def told(machine: Connection, cls: Any, version: int) -> Any:
    """What the client is told, decoded."""
    assert machine.closing is None
    (frame,) = wire.frames(carried(machine.to_client))
    return cls.decode(frame[4:], version=version, header=True)
