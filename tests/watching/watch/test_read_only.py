"""A broker's own request log tells what the watcher asks for: it reads and describes, and nothing else."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.watch.polling import PollSource
from tests.command_line.processes import command, wait_for
from tests.making_topics import make_topic
from tests.waiting import wait_until
from tests.watching.watch.request_log import Asked, asked_by_watchers, logging_broker

pytestmark = pytest.mark.kafka

TOPIC = "orders"
GROUPS = ("of-classic", "of-consumer")
READS = {"API_VERSIONS", "METADATA", "DESCRIBE_CLUSTER", "DESCRIBE_TOPIC_PARTITIONS", "LIST_OFFSETS", "FETCH"}
POLLS = READS | {"LIST_GROUPS", "FIND_COORDINATOR", "DESCRIBE_GROUPS", "CONSUMER_GROUP_DESCRIBE", "OFFSET_FETCH"}


@pytest.fixture(scope="module")
def broker(kafka_jars: Path) -> Iterator[tuple[EmbeddedKafka, str]]:
    with logging_broker() as (kafka, address):
        make_topic(AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), TOPIC, 2)
        yield kafka, address


@contextmanager
def living_groups(kafka: EmbeddedKafka) -> Iterator[list[Consumer]]:
    """A member of a classic group, one of a consumer group, and one that has committed in a transaction."""
    members = [member_of(kafka, protocol) for protocol in ("classic", "consumer")]
    try:
        wait_until(lambda: all(map(has_partitions, members)))
        members[0].commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions()
        producer.begin_transaction()
        offsets = [TopicPartition(TOPIC, 1, 0)]
        producer.send_offsets_to_transaction(offsets, members[0].consumer_group_metadata())
        producer.commit_transaction()
        yield members
    finally:
        for member in members:
            member.close()


def member_of(kafka: EmbeddedKafka, protocol: str) -> Consumer:
    member = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": f"of-{protocol}",
            "group.protocol": protocol,
            "enable.auto.commit": False,
        }
    )
    member.subscribe([TOPIC])
    return member


def has_partitions(member: Consumer) -> bool:
    member.poll(0.1)
    return bool(member.assignment())


def test_the_command(broker: tuple[EmbeddedKafka, str], tmp_path: Path) -> None:
    kafka, address = broker
    arguments = ("--broker-log", str(kafka.log_file), "--follow", "--port", "0", "--state", str(tmp_path / "state"))
    with (
        living_groups(kafka) as members,
        command(tmp_path, "watch", "--bootstrap-servers", address, *arguments) as process,
    ):
        page = re.search(r"http://\S+", wait_for(process, tmp_path, "Ctrl-C"))
        assert page is not None
        wait_until(lambda: members_on(page[0]) == {"of-classic": 1, "of-consumer": 1})
        for member in members:  # a rebalance of each, and an end, while it watches
            member.unsubscribe()
        wait_until(lambda: members_on(page[0]) == {"of-classic": 0, "of-consumer": 0})
        wait_until(lambda: TOPIC in topics_of("LIST_OFFSETS", asked_by_watchers(kafka.log_file)))
    requests = asked_by_watchers(kafka.log_file)
    assert {request.client_id for request in requests} == {"group-coordinator-watch"}
    asked = {request.api for request in requests}
    assert {"METADATA", "LIST_OFFSETS", "FETCH"} <= asked <= READS | {"DESCRIBE_CONFIGS"}
    assert topics_of("FETCH", requests) == {"__consumer_offsets"}
    assert_nothing_is_made(requests)


def test_polls(broker: tuple[EmbeddedKafka, str]) -> None:
    kafka, address = broker
    before = len(asked_by_watchers(kafka.log_file))
    index = Index()
    source = PollSource({"bootstrap.servers": address}, "it is refused", interval_s=0.2)
    with living_groups(kafka):
        source.start(index)
        try:
            wait_until(lambda: all(owners(index, group) == 2 for group in GROUPS))
            wait_until(lambda: TOPIC in topics_of("LIST_OFFSETS", asked_by_watchers(kafka.log_file)[before:]))
            kinds = {group: facts.kind for group in GROUPS if (facts := index.facts(group)) is not None}
        finally:
            source.stop()
    assert kinds == {"of-classic": "classic", "of-consumer": "consumer"}
    requests = asked_by_watchers(kafka.log_file)[before:]
    assert {"LIST_GROUPS", "DESCRIBE_GROUPS", "OFFSET_FETCH"} <= {request.api for request in requests} <= POLLS
    assert_nothing_is_made(requests)


def members_on(page: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{page}api/v1/groups", timeout=10) as answer:
        return {row["group_id"]: row["members"] for row in json.load(answer)["groups"]}


def owners(index: Index, group_id: str) -> int:
    facts = index.facts(group_id)
    return 0 if facts is None else facts.partitions


def topics_of(api: str, requests: list[Asked]) -> set[str]:
    """Return the topics that are asked for by name, or by id where a version names them so."""
    bodies = [request.body for request in requests if request.api == api]
    return {topic.get("name") or topic.get("topic") for body in bodies for topic in body["topics"]}


def assert_nothing_is_made(requests: list[Asked]) -> None:
    """Brokers make topics that are asked for where a client allows it, and the offsets topic for the first group."""
    metadata: list[dict[str, Any]] = [request.body for request in requests if request.api == "METADATA"]
    assert not [body for body in metadata if body["topics"] and body["allowAutoTopicCreation"]]
    assert all(request.body["keyType"] == 0 for request in requests if request.api == "FIND_COORDINATOR")
