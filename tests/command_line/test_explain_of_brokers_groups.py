"""`explain` of groups that a cluster's own brokers coordinate: what it says is held against what clients did."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner, Result

from group_coordinator.command_line.main import app
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.narrative import words
from schemas.java_hash import group_partition
from tests.waiting import wait_until
from tests.watching.watch.live import consumer, with_topic

pytestmark = pytest.mark.kafka


def explain(kafka: EmbeddedKafka, *arguments: str) -> Result:
    return CliRunner().invoke(
        app, ["explain", "--utc", *arguments, "--bootstrap-servers", kafka.bootstrap_servers], env={"TZ": "UTC"}
    )


class Group(NamedTuple):
    name: str
    member_id: str
    """Of the member that stays."""


@pytest.fixture(params=["classic", "consumer"])
def group(
    request: pytest.FixtureRequest, kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> Iterator[Group]:
    """A group of this protocol, which one member has left; and one beside it."""
    name = f"{topic_prefix}-{request.param}"
    with_topic(kafka, admin, f"{name}-topic")
    members = [member(kafka, name, client_id, request.param) for client_id in ("stays", "leaves")]
    beside = member(kafka, name, "beside", request.param, group=f"{name}-beside")
    everybody = [*members, beside]
    wait_until(lambda: owned(everybody) == [1, 1, 2])
    members[1].close()
    wait_until(lambda: owned([members[0]]) == [2])
    yield Group(name, str(members[0].memberid()))
    for each in (members[0], beside):
        each.close()


def member(kafka: EmbeddedKafka, name: str, client_id: str, protocol: str, group: str = "") -> Consumer:
    properties: dict[str, Any] = {"client.id": client_id, "group.protocol": protocol}
    joined = consumer(kafka, group or name, **properties)
    joined.subscribe([f"{name}-topic"])
    return joined


def owned(members: list[Consumer]) -> list[int]:
    for each in members:
        each.poll(0.1)
    return [len(each.assignment()) for each in members]


def test_the_last_rebalance(kafka: EmbeddedKafka, admin: AdminClient, group: Group) -> None:
    """Read from the one partition that holds the group, and from its broker's log. Names of topics are asked of the
    brokers where records have ids."""
    result = explain(kafka, "--group", group.name, "--broker-log", str(kafka.log_file))
    assert result.exit_code == 0, result.stderr
    assert "leaves" in between(result.stdout, "Why: ", "How it ended")
    assert f"{group.name}-topic" in result.stdout
    assert "beside" not in result.stdout
    assert owners_since(result.stdout, f"{group.name}-topic") == {words.name(group.member_id)}


def test_a_moment(kafka: EmbeddedKafka, group: Group) -> None:
    """A rebalance that had begun then; before the first one there is an answer, too."""
    now = datetime.fromtimestamp(time.time(), UTC).isoformat()
    last = explain(kafka, "--group", group.name)
    if group.name.endswith("classic"):
        assert "its cause are not known" in between(last.stdout, "Why: ", "How it ended")
    told, _, owners = explain(kafka, "--group", group.name, "--at", now).stdout.partition("\nOwners at ")
    assert told == last.stdout
    rows = [line for line in owners.splitlines() if line.startswith(f"{group.name}-topic ")]
    assert rows
    assert all(f" {words.name(group.member_id)} " in row for row in rows)
    early = explain(kafka, "--group", group.name, "--at", "2020-01-01T00:00")
    assert early.exit_code == 1
    assert "had begun then: the first that is known began on" in early.stderr


def test_another_group_and_another_source(kafka: EmbeddedKafka, admin: AdminClient, group: Group) -> None:
    partitions = len(admin.list_topics("__consumer_offsets", timeout=10).topics["__consumer_offsets"].partitions)
    missing = explain(kafka, "--group", "no-such-group")
    assert missing.exit_code == 1
    assert "There is no rebalance of a group 'no-such-group' in" in missing.stderr
    assert f"__consumer_offsets-{group_partition('no-such-group', partitions)} " in missing.stderr
    both = explain(kafka, "--group", group.name, "--from", ".", "--broker-log", "server.log")
    assert both.exit_code == 2
    assert "Choose one of --from and --broker-log." in both.stderr


def owners_since(text: str, topic: str) -> set[str]:
    rows = [line.removesuffix("moved").split() for line in text.splitlines() if line.startswith(f"{topic} ")]
    return {row[3] for row in rows}


def between(text: str, begin: str, end: str) -> str:
    return text[text.index(begin) : text.index(end)]
