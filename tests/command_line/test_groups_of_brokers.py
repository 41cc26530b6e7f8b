"""`groups` of groups that a cluster's own brokers coordinate: what it says is what the admin client is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.config import StreamingConfig
from streaming.topics import ensure_topics
from tests.waiting import wait_until
from tests.watching.watch.live import consumer, with_topic

pytestmark = pytest.mark.kafka


class Called(NamedTuple):
    exit_code: int
    out: str
    err: str


def call(kafka: EmbeddedKafka, *arguments: str) -> Called:
    result = CliRunner().invoke(app, [*arguments, "--bootstrap-servers", kafka.bootstrap_servers], env={"TZ": "UTC"})
    return Called(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(params=["classic", "consumer"])
def member(
    request: pytest.FixtureRequest, kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> Iterator[Consumer]:
    """The only member of a group of this protocol: it has read and committed some of the messages."""
    name = f"{topic_prefix}-{request.param}"
    with_topic(kafka, admin, name)
    joined = consumer(kafka, name, **{"client.id": "reader", "group.protocol": request.param})
    joined.subscribe([name])
    wait_until(lambda: joined.poll(0.2) is not None and len(joined.assignment()) == 2)
    joined.commit(offsets=[TopicPartition(name, 0, 2), TopicPartition(name, 1, 5)], asynchronous=False)
    yield joined
    joined.close()


def group_of(member: Consumer) -> str:
    """The group is called as its topic."""
    return member.assignment()[0].topic


def true_offsets(admin: AdminClient, group_id: str) -> dict[int, tuple[int, int]]:
    """Partition -> committed offset and end of the log."""
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)]).values()
    committed = {each.partition: each.offset for each in future.result().topic_partitions or ()}
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    ends = admin.list_offsets({TopicPartition(group_id, number): latest for number in committed})
    return {place.partition: (committed[place.partition], future.result().offset) for place, future in ends.items()}


def test_one_group(kafka: EmbeddedKafka, admin: AdminClient, member: Consumer) -> None:
    group_id = group_of(member)
    told = call(kafka, "groups", "--group", group_id)
    assert told.exit_code == 0, told.err
    assert "The groups are those of the brokers" in told.err
    assert f"{group_id} (" in told.out
    assert "Verdict: stable." in told.out
    rows = {int(row[2]): row for line in told.out.splitlines() if (row := line.split())[1:2] == [group_id]}
    truth = true_offsets(admin, group_id)
    assert truth.keys() == rows.keys() == {0, 1}
    for partition, (offset, end) in truth.items():
        assert [int(each) for each in rows[partition][3:6]] == [offset, end, end - offset]
        assert rows[partition][6] == member.memberid()
        assert rows[partition][8] == "reader"
    members = call(kafka, "groups", "--group", group_id, "--members")
    assert f"{group_id}(0-1)" in members.out
    assert str(member.memberid()) in members.out
    state = call(kafka, "groups", "--group", group_id, "--state")
    (described,) = admin.describe_consumer_groups([group_id]).values()
    # No record of the offsets topic names the assignor that a consumer group takes by default.
    assignor = described.result().partition_assignor if group_id.endswith("classic") else "-"
    assert state.out.splitlines()[-1].split()[1] == assignor


def test_one_group_as_json_and_in_the_list(kafka: EmbeddedKafka, admin: AdminClient, member: Consumer) -> None:
    group_id = group_of(member)
    document = json.loads(call(kafka, "groups", "--group", group_id, "--json").out)
    truth = true_offsets(admin, group_id)
    partitions = document["partitions"]
    assert {each["partition"]: (each["committed_offset"], each["log_end_offset"]) for each in partitions} == truth
    assert document["group"]["lag"] == sum(end - offset for offset, end in truth.values())
    assert [each["member_id"] for each in document["members"]] == [member.memberid()]
    listed = call(kafka, "groups")
    assert listed.exit_code == 0, listed.err
    (line,) = [line.split() for line in listed.out.splitlines() if line.startswith(f"{group_id} ")]
    assert line[2:4] == ["Stable", "1"]
    assert (int(line[5]), line[6]) == (document["group"]["lag"], "stable")
    lines = call(kafka, "groups", "--json", "--type", document["group"]["type"]).out.splitlines()
    as_json = [json.loads(line) for line in lines]
    assert next(each for each in as_json if each["group_id"] == group_id)["lag"] == document["group"]["lag"]
    true_ids = {each.group_id for each in admin.list_consumer_groups().result().valid}
    assert {each["group_id"] for each in as_json} <= true_ids
    assert {each["type"] for each in as_json} == {document["group"]["type"]}


def test_a_group_that_never_commits(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> None:
    """Nobody knows how far it is: no lag is told, least of all none."""
    name = f"{topic_prefix}-never"
    with_topic(kafka, admin, name)
    joined = consumer(kafka, name, **{"enable.auto.commit": False})
    joined.subscribe([name])
    wait_until(lambda: joined.poll(0.2) is not None and len(joined.assignment()) == 2)
    assert true_offsets(admin, name) == {}
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    ends = admin.list_offsets({TopicPartition(name, number): latest for number in range(2)})
    messages = sum(each.result().offset for each in ends.values())
    told = f"2 of 2 partitions without a commit, up to {messages:,} messages unread"
    assert f"; {told}." in call(kafka, "groups", "--group", name).out
    (row,) = (line for line in call(kafka, "groups").out.splitlines() if line.startswith(f"{name} "))
    assert row.split()[5] == "-"
    assert row.endswith(told)
    joined.close()


def test_where_our_coordinator_runs_the_brokers_groups_are_found_too(
    kafka: EmbeddedKafka, admin: AdminClient, member: Consumer, topic_prefix: str
) -> None:
    """A name that it does not know is the brokers'; their list is for the asking. `explain` decides in the same way."""
    group_id, prefix = group_of(member), f"{topic_prefix}-own"
    config = StreamingConfig.load(
        {"bootstrap_servers": kafka.bootstrap_servers, "topic_prefix": prefix, "responses_partitions": 1}
    )
    ensure_topics(admin, config.topic_settings)
    arguments: tuple[Any, ...] = ("--topic-prefix", prefix)
    wait_until(lambda: call(kafka, "groups", *arguments).exit_code == 0)  # new topics have no leader yet
    own = call(kafka, "groups", *arguments)
    assert f"those of the coordinator that writes {prefix}" in own.err
    assert group_id not in own.out
    assert f"{group_id} " in call(kafka, "groups", "--brokers", *arguments).out
    for command in ("groups", "explain"):
        told = call(kafka, command, "--group", group_id, *arguments)
        assert told.exit_code == 0, told.err
        assert "has no such group: the brokers are asked." in told.err
        assert group_id in told.out
    explained = json.loads(call(kafka, "explain", "--group", group_id, "--json", *arguments).out)
    assert explained["group_id"] == group_id
    assert [each["member_id_after"] for each in explained["moves"]] == [member.memberid()]


def test_a_group_that_nobody_has(kafka: EmbeddedKafka) -> None:
    told = call(kafka, "groups", "--group", "no-such-group")
    assert told.exit_code == 1
    assert "Consumer group 'no-such-group' does not exist." in told.err
