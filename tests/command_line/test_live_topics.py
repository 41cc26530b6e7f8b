"""`groups` and `explain` on a real broker's topics, which the core's outputs were written to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.config import StreamingConfig
from streaming.rows import output_record
from streaming.topics import ensure_topics
from tests.command_line.histories import START_MS, A
from tests.coordinator_state.harness import GroupHarness, assignment

REQUEST_LOG = Path(__file__).parent.parent / "fixtures" / "recordings" / "chaos-a.request.log.gz"


def call(kafka: EmbeddedKafka, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*arguments, "--bootstrap-servers", kafka.bootstrap_servers], env={"TZ": "UTC"})
    return result.exit_code, result.stdout, result.stderr


def whose(kafka: EmbeddedKafka, prefix: str) -> str:
    """What is said of where the groups were found."""
    return f"The groups are those of the coordinator that writes {prefix}.history at {kafka.bootstrap_servers}.\n"


@pytest.fixture
def prefix(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> str:
    """Topics with three groups: one stable with offsets, one rebalancing, one gone;
    and the records that they consume."""
    config = StreamingConfig.load(
        {
            "bootstrap_servers": kafka.bootstrap_servers,
            "topic_prefix": topic_prefix,
            "offsets_partitions": 3,
            "responses_partitions": 1,
        }
    )
    ensure_topics(admin, config.topic_settings)
    topic = f"{topic_prefix}-consumed"
    for future in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        future.result()
    groups = [GroupHarness(group_id, now_ms=START_MS) for group_id in ("billing", "moving", "gone")]
    billing, moving, gone = groups
    billing.stable(A, "b")
    billing.join(A)
    billing.join("b")
    billing.sync(A, 3, {A: assignment(topic, 0), "b": assignment(topic, 1)})
    billing.commit(A, 3, {(topic, 0): 3, ("deleted-topic", 7): 5})
    moving.stable("m")
    moving.add("n")
    gone.stable("g")
    gone.leave("g")
    gone.sleep(700_000)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(10):
        producer.produce(topic, str(number), partition=0)
    operator = config.operator_config()
    for group in groups:
        for output in group.outputs:
            record = output_record(output, operator)
            producer.produce(record.topic, record.value, record.key, record.partition)
    producer.flush()
    return topic_prefix


def test_the_list(kafka: EmbeddedKafka, prefix: str) -> None:
    exit_code, stdout, _ = call(kafka, "groups", "--topic-prefix", prefix)
    assert exit_code == 0
    rows = [line.split() for line in stdout.splitlines()]
    assert [row[:5] for row in rows] == [
        ["GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION/EPOCH"],
        ["billing", "Classic", "Stable", "2", "3"],
        ["moving", "Classic", "PreparingRebalance", "2", "1"],
    ]


def test_a_group_with_owners_and_lag(kafka: EmbeddedKafka, prefix: str) -> None:
    exit_code, stdout, stderr = call(kafka, "groups", "--topic-prefix", prefix, "--group", "billing")
    assert (exit_code, stderr) == (0, whose(kafka, prefix))
    topic = f"{prefix}-consumed"
    assert [line.split() for line in stdout.splitlines()] == [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"],
        ["billing", "deleted-topic", "7", "5", "-", "-", "-", "-", "-"],
        ["billing", topic, "0", "3", "10", "7", A, "/127.0.0.1", "client"],
        ["billing", topic, "1", "-", "0", "-", "b", "/127.0.0.1", "client"],
    ]


def test_lag_reaches_no_further_back_than_the_log(kafka: EmbeddedKafka, admin: AdminClient, prefix: str) -> None:
    """redpanda #30624: what retention has removed is no backlog. The committed offset is shown as it is."""
    topic = f"{prefix}-consumed"
    for future in admin.delete_records([TopicPartition(topic, 0, 8)]).values():
        future.result(30)
    _, stdout, _ = call(kafka, "groups", "--topic-prefix", prefix, "--group", "billing")
    assert ["billing", topic, "0", "3", "10", "2"] in [line.split()[:6] for line in stdout.splitlines()]
    _, stdout, _ = call(kafka, "groups", "--topic-prefix", prefix, "--group", "billing", "--json")
    (row_found,) = [row for row in json.loads(stdout)["offsets"] if (row["topic"], row["partition"]) == (topic, 0)]
    assert (
        row_found["current_offset"],
        row_found["log_start_offset"],
        row_found["log_end_offset"],
        row_found["lag"],
    ) == (3, 8, 10, 2)


def test_a_groups_members_and_state(kafka: EmbeddedKafka, prefix: str) -> None:
    _, members, _ = call(kafka, "groups", "--topic-prefix", prefix, "--group", "billing", "--members")
    assert f"1            {prefix}-consumed(0)" in members
    _, state, warning = call(kafka, "groups", "--topic-prefix", prefix, "--group", "moving", "--state")
    verbose = call(kafka, "groups", "--topic-prefix", prefix, "--group", "moving", "--state", "--verbose")
    assert verbose == (0, state, warning), "as kafka-consumer-groups may be asked"
    assert state.splitlines()[1].split()[:5] == ["moving", "range", "PreparingRebalance", "2", "1"]
    assert warning == f"{whose(kafka, prefix)}Warning: Consumer group 'moving' is rebalancing.\n\n"


def test_a_group_as_json(kafka: EmbeddedKafka, prefix: str) -> None:
    _, stdout, _ = call(kafka, "groups", "--topic-prefix", prefix, "--group", "billing", "--json")
    group = json.loads(stdout)
    assert (group["group_id"], group["state"], group["generation_id"]) == ("billing", "Stable", 3)
    lags = {(offset["topic"], offset["partition"]): offset["lag"] for offset in group["offsets"]}
    assert lags[f"{prefix}-consumed", 0] == 7


def test_a_group_that_is_not_there(kafka: EmbeddedKafka, prefix: str) -> None:
    exit_code, _, stderr = call(kafka, "groups", "--topic-prefix", prefix, "--group", "gone")
    assert exit_code == 1
    assert "has no such group: the brokers are asked." in stderr
    assert stderr.endswith("group-coordinator: Consumer group 'gone' does not exist.\n")
    _, _, stderr = call(kafka, "groups", "--topic-prefix", "no-such", "--group", "gone")
    assert "The groups are those of the brokers:" in stderr
    assert "has no topic no-such.history." in stderr


def test_the_rules_of_a_log(kafka: EmbeddedKafka, prefix: str) -> None:
    assert call(kafka, "rules", "--topic-prefix", prefix)[1] == "Shard 0 goes by 4.3, as its log names none.\n"
    as_json = call(kafka, "rules", "--topic-prefix", prefix, "--json")[1]
    assert json.loads(as_json) == {"shard": 0, "rules": "4.3", "from_offset": None}
    exit_code, stdout, _ = call(kafka, "rules", "--topic-prefix", prefix, "--set", "4.4")
    assert (exit_code, stdout) == (0, "Shard 0 goes by 4.4 from offset 0 on.\n")
    assert call(kafka, "rules", "--topic-prefix", prefix)[1] == stdout
    exit_code, _, stderr = call(kafka, "rules", "--topic-prefix", prefix, "--set", "4.9")
    assert exit_code == 2
    assert "4.9" in stderr
    exit_code, _, stderr = call(kafka, "rules", "--topic-prefix", "no-such")
    assert (exit_code, "There is no topic no-such.events." in stderr) == (1, True)


def test_explain_on_the_live_topic(kafka: EmbeddedKafka, prefix: str) -> None:
    exit_code, stdout, _ = call(kafka, "explain", "--topic-prefix", prefix, "--group", "moving", "--utc")
    assert exit_code == 0
    assert stdout.splitlines()[0] == "Before:"
    assert "Why: n joined." in stdout
    assert "How it ended: it is not over, as far as this history goes." in stdout
