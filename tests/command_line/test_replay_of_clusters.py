"""`replay` of a dump of a cluster's offsets topic, with and without its brokers' logs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from group_coordinator.watching.observed.offsets_log import LogRecord
from schemas.kafka.json_form import uuid_to_json
from tests.command_line.calls import FIXTURES, call, text_of
from tests.watching.observed.recorded import entries

CLUSTERS = FIXTURES / "clusters"
DUMP = CLUSTERS / "old-3.9.offsets.jsonl.gz"


def test_what_happened_and_why(tmp_path: Path) -> None:
    out, tables, report = tmp_path / "out", tmp_path / "tables", tmp_path / "report.html"
    done = call(
        "replay", DUMP, "--broker-log", CLUSTERS / "old-3.9.server.log*", "--in-process", "--out", out,
        "--tables", tables, "--tables-format", "parquet", "--report", report,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Read 408 records of the offsets topic, and" in text_of(done)
    rebalances = pq.read_table(tables / "rebalances").to_pylist()
    assert {rebalance["trigger"] for rebalance in rebalances} > {"member_expired", "member_left", "member_joined"}
    assert {row["topic"] for row in pq.read_table(tables / "ownership").to_pylist()} == {"orders", "payments"}
    assert "<html" in report.read_text()
    explained = text_of(call("explain", "--from", out, "--group", "web", "--utc"))
    assert "log of broker 1, old-3.9.server.log.gz, line" in explained


@pytest.mark.parametrize("name", ["consumer-protocol", "migration", "share-streams", "transactions", "connect"])
def test_groups_of_every_kind_are_in_the_report(name: str, tmp_path: Path) -> None:
    report, logs = tmp_path / "report.html", CLUSTERS / f"{name}.server.log.gz"
    done = call("replay", CLUSTERS / f"{name}.offsets.jsonl.gz", "--broker-log", logs, "--report", report)
    assert done.exit_code == 0, done.output
    assert "<html" in report.read_text()


def test_an_epoch_is_explained(tmp_path: Path) -> None:
    call("replay", CLUSTERS / "consumer-protocol.offsets.jsonl.gz", "--out", tmp_path)
    explained = text_of(call("explain", "--from", tmp_path, "--group", "shop", "--generation", "6", "--utc"))
    assert "Why: " in explained
    assert "moved" in explained


@pytest.mark.parametrize(("group", "counted"), [("tx-new", "epoch"), ("tx-classic", "generation")])
def test_what_a_group_counts_is_named(group: str, counted: str, tmp_path: Path) -> None:
    done = call("replay", CLUSTERS / "transactions.request.log.gz", "--in-process", "--out", tmp_path)
    assert "GROUP       STATE      GENERATION/EPOCH  " in text_of(done)
    unknown = text_of(call("explain", "--from", tmp_path, "--group", group, "--generation", "99"))
    assert f"No rebalance of '{group}' led to {counted} 99; there are " in unknown


def test_without_logs_the_causes_are_not_known() -> None:
    done = call("replay", DUMP)
    assert done.exit_code == 0, done.output
    assert "not known" in text_of(done)
    assert "Brokers' logs (--broker-log) would tell why" in text_of(done)


def test_topics_have_the_names_that_are_given(tmp_path: Path) -> None:
    dump = CLUSTERS / "transactions.offsets.jsonl.gz"
    lines = {"tx-new"}
    call("replay", dump, "--out", tmp_path / "a")
    topics = _topics(tmp_path / "a", lines)
    (topic_id,) = _topic_ids(tmp_path / "a")
    names = tmp_path / "names.json"
    names.write_text(json.dumps({topic_id: "renamed"}))
    assert call("replay", dump, "--topic-names", names, "--out", tmp_path / "b").exit_code == 0
    assert (topics, _topics(tmp_path / "b", lines)) == ({"in"}, {"renamed"})


def _topics(out: Path, groups: set[str]) -> set[str]:
    records = [json.loads(json.loads(line)["value"]) for line in (out / "history.jsonl").read_text().splitlines()]
    targets = [record for record in records if record["type"] == "member_reconciled" and record["group_id"] in groups]
    return {topic["topic"] for target in targets for topic in target["assigned"]}


def _topic_ids(out: Path) -> set[str]:
    """Of the dump's topics, as Kafka prints them."""

    topic_ids = set()
    for entry in entries("transactions"):
        value = entry.value if isinstance(entry, LogRecord) else None
        topics = value.get("topic_partitions") if value else None
        topic_ids |= {uuid_to_json(topic["topic_id"]) for topic in (topics if isinstance(topics, tuple) else ())}
    return topic_ids


def test_mistakes_are_told(tmp_path: Path) -> None:
    assert "is no file" in text_of(call("replay", DUMP, "--broker-log", tmp_path / "nothing.log"))
    assert "go with a dump" in text_of(call("replay", FIXTURES / "kafka_json.jsonl.gz", "--broker-log", DUMP))
    assert "go with a dump" in text_of(call("replay", FIXTURES / "kafka_json.jsonl.gz", DUMP))
    names = tmp_path / "names.json"
    names.write_text("[]")
    assert "should be a JSON object" in text_of(call("replay", DUMP, "--topic-names", names))


def test_request_logs_dump_and_broker_logs_complete_each_other(tmp_path: Path) -> None:
    logs = [CLUSTERS / f"three-brokers.broker-{number}.request.log.gz" for number in (2, 3, 1)]
    done = call(
        "replay", *logs, CLUSTERS / "three-brokers.offsets.jsonl.gz", "--broker-log",
        CLUSTERS / "three-brokers.broker-*.server.log.gz", "--in-process", "--out", tmp_path / "out",
    )  # fmt: skip
    output = text_of(done)
    assert "0 differ" in output
    history = (tmp_path / "out" / "history.jsonl").read_text().splitlines()
    records = [json.loads(json.loads(line)["value"]) for line in history]
    moves = [record for record in records if record["type"] == "coordinator_changed"]
    assert {(move["group_id"], move["broker_id"]) for move in moves} >= {("mail", 1), ("mail", 2), ("billing", 3)}
    assert len(moves) == 10
    expired = {record["member"]["client_id"] for record in records if record["type"] == "member_expired"}
    assert not expired & {"mail-a", "mail-b"}


def test_an_import_takes_brokers_logs_too(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    logs = [CLUSTERS / f"three-brokers.broker-{number}.request.log.gz" for number in (1, 2, 3)]
    done = call(
        "import", "kafka-request-log", *logs, "--offsets", CLUSTERS / "three-brokers.offsets.jsonl.gz", "--broker-log",
        CLUSTERS / "three-brokers.broker-*.server.log.gz", "--out", events,
    )  # fmt: skip
    assert "0 differ" in text_of(done)
    values = [json.loads(line)["value"] for line in events.read_text().splitlines()]
    loads = [json.loads(value) for value in values if "recorded_load" in value]
    assert sorted(row["broker_id"] for row in loads) == [1, 1, 2, 2, 2, 2, 2, 3, 3, 3]
