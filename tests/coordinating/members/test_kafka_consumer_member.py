"""Members of the consumer protocol on a real broker, also beside classic ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.members.effects import OffsetAndMetadata
from group_coordinator.coordinating.members.host import MemberHost
from group_coordinator.coordinating.members.kafka_member import CommitError, Member
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.consumer_group_history import GroupConverted
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.history import MemberExpired
from streaming.topics import TopicSettings
from tests.coordinating.gateway.pump import Pump
from tests.coordinating.members.polling import poll_until
from tests.making_topics import make_topic

PARTITIONS = 6
BATCH = 60
CLASSIC: dict[str, Any] = {"heartbeat_interval_ms": 300, "partition_assignment_strategy": ("cooperative-sticky",)}
CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}


@pytest.fixture
def pump(kafka: EmbeddedKafka, topic_settings: TopicSettings) -> Iterator[Pump]:
    with Pump(kafka.bootstrap_servers, topic_settings) as pump:
        yield pump


@pytest.fixture
def topic(admin: AdminClient, topic_prefix: str) -> str:
    name = f"{topic_prefix}-data"
    make_topic(admin, name, PARTITIONS)
    return name


@pytest.fixture
def host(kafka: EmbeddedKafka, topic_prefix: str, pump: Pump) -> Iterator[MemberHost]:
    with MemberHost(kafka.bootstrap_servers, prefix=topic_prefix) as host:
        yield host


def produce(kafka: EmbeddedKafka, topic: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(first, first + BATCH):
        producer.produce(topic, partition=number % PARTITIONS, value=str(number).encode())
    producer.flush()


def start(host: MemberHost, topic: str, **settings: Any) -> Member:
    return Member(host, "rolling", [topic], auto_offset_reset="earliest", **settings)


def test_a_rolling_migration_up_and_down_loses_and_doubles_nothing(
    kafka: EmbeddedKafka, host: MemberHost, topic: str, pump: Pump
) -> None:
    members: list[Member] = []
    values: list[str] = []

    def is_settled() -> bool:
        owned = [partition for member in members for partition in member.assignment]
        group = pump.coordinator.groups.get("rolling")
        stable = group is not None and group.body.state_name == "Stable"
        each_has_some = all(member.assignment and member.machine.state == "stable" for member in members)
        return stable and each_has_some and len(owned) == len(set(owned)) == PARTITIONS

    for turn, kind in enumerate([CLASSIC] * 3 + [CONSUMER] * 3 + [CLASSIC] * 3):
        produce(kafka, topic, turn * BATCH)
        if len(members) == 3:
            members.pop(0).close()
        members.append(start(host, topic, **kind))
        poll_until(members, is_settled, 60, values)
    assert [record.to_protocol for record in pump.told(GroupConverted, "rolling")] == ["consumer", "classic"]
    produce(kafka, topic, 9 * BATCH)  # behind all that could be read twice
    poll_until(members, lambda: len(values) >= 10 * BATCH, 60, values)
    assert sorted(map(int, values)) == list(range(10 * BATCH)), "each record once"
    assert not pump.told(MemberExpired, "rolling")
    for member in members:
        member.close()


def test_an_expression_finds_topics_that_are_there_and_that_come(
    host: MemberHost, topic: str, topic_prefix: str, admin: AdminClient
) -> None:
    with Member(host, "finders", pattern=f"{topic_prefix}-d.*", client_id="finder", **CONSUMER) as member:
        poll_until([member], lambda: len(member.assignment) == PARTITIONS, 60)
        assert member.machine.member_id.startswith("finder-"), "so that people know it"
        member.subscribe([f"{topic_prefix}-later"])
        poll_until([member], lambda: not member.assignment, 60)
        make_topic(admin, f"{topic_prefix}-later", 2)
        poll_until([member], lambda: len(member.assignment) == 2, 60)


def test_offsets_are_committed_by_hand_and_found_again(kafka: EmbeddedKafka, host: MemberHost, topic: str) -> None:
    produce(kafka, topic, 0)
    settings: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **CONSUMER}
    with Member(host, "savers", [topic], **settings) as member:
        poll_until([member], lambda: len(member.machine.positions) == PARTITIONS, 60)
        member.commit(dict.fromkeys(member.assignment, 7))
        with pytest.raises(CommitError) as refused:
            member.commit({TopicPartition(topic, 0): OffsetAndMetadata(2, "x" * 5_000)})
        assert refused.value.error_code is ErrorCode.OFFSET_METADATA_TOO_LARGE
    with Member(host, "savers", [topic], **settings) as member:
        poll_until([member], lambda: len(member.machine.positions) == PARTITIONS, 60)
        assert all(position >= 7 for position in member.machine.positions.values())


def test_the_classic_protocol_has_no_expressions(kafka: EmbeddedKafka, host: MemberHost) -> None:
    with pytest.raises(ValueError, match="only with group_protocol consumer"):
        Member(host, "finders", pattern=".*")
    with start(host, "any", **CLASSIC) as member, pytest.raises(ValueError, match="only with group_protocol consumer"):
        member.subscribe_pattern(".*")
