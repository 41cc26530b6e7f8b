"""`readiness` of dumps and of live clusters: brokers do what it says when a member of the new protocol comes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from msgspec import convert
from msgspec.structs import replace
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.readiness import NO_COST
from group_coordinator.watching.dashboard.sources import ReplaySource
from group_coordinator.watching.tables.readiness_row import Readiness
from tests.command_line.calls import call, text_of
from tests.waiting import wait_until
from tests.watching.observed.recorded import CLUSTERS, rebalances
from tests.watching.watch.live import consumer, with_topic

DUMP = CLUSTERS / "migration-refused.offsets.jsonl.gz"
LOG = CLUSTERS / "migration-refused.server.log.gz"


def test_a_dump() -> None:
    result = call("readiness", DUMP, "--broker-log", LOG)
    assert result.exit_code == 0
    text = text_of(result)
    assert "live: change this first" in text
    assert "mixed: go" in text
    assert "By brokers' logs: session timeouts of 6 s to 1 min, migration policy bidirectional." in text
    assert "By Kafka's defaults: session timeouts of 45 s to 1 min" in text_of(call("readiness", DUMP))


def test_json() -> None:
    result = call("readiness", DUMP, "--broker-log", LOG, "--json")
    groups = {each["group_id"]: each for each in map(json.loads, result.stdout.splitlines())}
    assert groups.keys() == {"live", "mixed"}
    live = groups["live"]
    assert (live["assignor"], live["members"], live["is_converted_live"]) == ("cooperative-sticky", 4, False)
    told = [row for row in rebalances("migration-refused", with_logs=True) if row.group_id == "live"]
    assert live["cost"]["rebalances"] == sum(not row.initial for row in told)
    assert live["cost"]["without_owner_ms"] > 0
    (alone,) = call("readiness", DUMP, "--broker-log", LOG, "--json", "--group", "live").stdout.splitlines()
    assert json.loads(alone) == live


def test_logs_from_elsewhere(tmp_path: Path) -> None:
    """A log from standard input, or one in a directory, tells what the file does."""
    expected = text_of(call("readiness", DUMP, "--broker-log", LOG)).replace(LOG.name, "")
    with gzip.open(LOG) as log:
        content = log.read()
    result = CliRunner().invoke(app, ["readiness", str(DUMP), "--broker-log", "-"], input=content)
    assert text_of(result) == expected
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / "0.log").write_bytes(content)
    assert text_of(call("readiness", DUMP, "--broker-log", tmp_path)) == expected


@pytest.mark.parametrize("name", ["connect", "migration", "migration-refused"])
def test_the_page_of_our_own_groups(name: str, tmp_path: Path) -> None:
    """Our coordinator decides what a broker was asked: the page judges what it publishes as what the broker stored."""
    assert call("replay", CLUSTERS / f"{name}.request.log.gz", "--out", tmp_path / "out").exit_code == 0
    index = Index()
    ReplaySource(tmp_path / "out").start(index)
    told = {each.group_id: replace(each, cost=NO_COST, stored_ms=0) for each in Documents(index).readiness().groups}
    result = call("readiness", CLUSTERS / f"{name}.offsets.jsonl.gz", "--json")
    stored = [convert(json.loads(line), Readiness) for line in result.stdout.splitlines()]
    assert told == {each.group_id: replace(each, cost=NO_COST, stored_ms=0) for each in stored}
    assert told


def test_mistakes() -> None:
    result = call("readiness", DUMP, "--group", "nobody")
    assert result.exit_code == 1
    assert "There is no classic group 'nobody'." in text_of(result)
    assert call("readiness", "no-such-file").exit_code == 1


@pytest.fixture(scope="module")
def unwilling() -> Iterator[EmbeddedKafka]:
    """A broker that converts no group that has members."""
    with EmbeddedKafka(properties={"group.consumer.migration.policy": "disabled"}) as kafka:
        yield kafka


def joined(kafka: EmbeddedKafka, group_id: str, topic: str, **properties: Any) -> Consumer:
    member = consumer(kafka, group_id, **{"partition.assignment.strategy": "range", **properties})
    member.subscribe([topic])
    wait_until(lambda: (member.poll(0.1), len(member.assignment()))[1] == 2)
    return member


def judgement(kafka: EmbeddedKafka, group_id: str) -> dict[str, Any]:
    result = call("readiness", "--bootstrap-servers", kafka.bootstrap_servers, "--json", "--group", group_id)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def converts(kafka: EmbeddedKafka, group_id: str, topic: str, old: Consumer) -> bool:
    """A member of the new protocol comes: whether the broker takes it, and the group is converted."""
    told: list[KafkaError] = []
    new = consumer(kafka, group_id, **{"group.protocol": "consumer", "error_cb": told.append})
    new.subscribe([topic])
    refused: list[str] = []

    def is_answered() -> bool:
        old.poll(0.1)
        try:
            message = new.poll(0.1)
        except KafkaException as problem:
            refused.append(str(problem))
        else:
            refused.extend(str(error) for error in (message and message.error(), *told) if error is not None)
        return "group id does not exist" in "".join(refused) or len(new.assignment()) > 0

    try:
        wait_until(is_answered, message=lambda: str(refused))
        return len(new.assignment()) > 0
    finally:
        new.close()


@pytest.mark.kafka
@pytest.mark.parametrize(("assignor", "verdict"), [("range", "go"), ("cooperative-sticky", "change this first")])
def test_a_live_cluster(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, assignor: str, verdict: str
) -> None:
    group_id, topic = f"{topic_prefix}-{assignor}", f"{topic_prefix}-{assignor}-topic"
    with_topic(kafka, admin, topic)
    old = joined(kafka, group_id, topic, **{"partition.assignment.strategy": assignor})
    second = consumer(kafka, group_id, **{"partition.assignment.strategy": assignor})
    second.subscribe([topic])
    both = (old, second)
    wait_until(lambda: [(each.poll(0.1), len(each.assignment()))[1] for each in both] == [1, 1])
    second.close()  # librdkafka's cooperative-sticky has data of its own from its second generation on
    wait_until(lambda: (old.poll(0.1), len(old.assignment()))[1] == 2)
    told = judgement(kafka, group_id)
    assert (told["verdict"], told["is_converted_live"]) == (verdict, verdict == "go")
    assert converts(kafka, group_id, topic, old) == told["is_converted_live"]
    old.close()


@pytest.mark.kafka
def test_a_policy(unwilling: EmbeddedKafka) -> None:
    admin = AdminClient({"bootstrap.servers": unwilling.bootstrap_servers})
    with_topic(unwilling, admin, "orders")
    old = joined(unwilling, "billing", "orders")
    told = judgement(unwilling, "billing")
    assert told["verdict"] == "change this first"
    assert "group.consumer.migration.policy is disabled" in told["reasons"][0]
    assert not converts(unwilling, "billing", "orders", old)
    old.close()
    assert judgement(unwilling, "billing")["verdict"] == "go"
    empty = consumer(unwilling, "billing", **{"group.protocol": "consumer"})
    empty.subscribe(["orders"])
    wait_until(lambda: (empty.poll(0.1), len(empty.assignment()))[1] == 2)
    empty.close()
