"""A log with groups of both protocols is worth its name: in it groups assign, reconcile, commit, and migrate."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from schemas.kafka.records import decode_record, record_types
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from streaming.config import StreamingConfig
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log
from tests.streaming.replays import in_process

CONFIG = StreamingConfig(**SETTINGS)
HAPPENS = {
    "consumer_member_joined", "consumer_member_updated", "consumer_member_away", "regex_resolved",
    "target_assignment_computed", "member_reconciled", "members_reconciled", "group_converted",
    "member_joined", "member_left", "member_expired", "member_dropped", "offsets_committed",
}  # fmt: skip


def of_mixed_groups(outputs: list[OutputRecord], topic: str) -> list[Any]:
    documents = [json.loads(output.value or b"") for output in outputs if output.topic.endswith(topic)]
    return [document for document in documents if document["group_id"].startswith("mixed-")]


@pytest.fixture(scope="module", params=[2, 3, 4])
def log(request: pytest.FixtureRequest) -> list[Record]:
    return make_log(request.param, groups=3, mixed_groups=3, requests=600)


@pytest.fixture(scope="module")
def outputs(log: list[Record]) -> list[OutputRecord]:
    return in_process(log, CONFIG)


def test_members_come_reconcile_and_go(outputs: list[OutputRecord]) -> None:
    history = of_mixed_groups(outputs, "history")
    assert {record["type"] for record in history} >= HAPPENS
    converted = Counter(record["to_protocol"] for record in history if record["type"] == "group_converted")
    assert converted["consumer"] >= 2
    assert converted["classic"] >= 2
    slow = [record for record in history if record["type"] == "rebalance_completed" and record["waited_for"]]
    assert slow, "somebody had to give up partitions first"


def test_members_of_the_consumer_protocol_are_given_partitions_and_commit(
    log: list[Record], outputs: list[OutputRecord]
) -> None:
    requests = {record.offset: record.value or b"" for record in log if (record.key or b"").startswith(b"mixed-")}
    answers = of_mixed_groups(outputs, "responses")
    assigned, native = 0, set()
    for answer in answers:
        if answer["api"] == "ConsumerGroupHeartbeat" and answer["body"]["error_code"] == 0:
            native.add(answer["body"]["member_id"])
            assigned += bool((answer["body"].get("assignment") or {}).get("topic_partitions"))
    assert assigned > 30
    accepted = 0
    for answer in answers:
        if answer["api"] == "OffsetCommit":
            body = json.loads(requests[answer["answers_offset"]])["body"]
            codes = {part["error_code"] for topic in answer["body"]["topics"] for part in topic["partitions"]}
            accepted += codes == {0} and body["member_id"] in native and body["generation_id_or_member_epoch"] > 0
    assert accepted, "a commit with the epoch of its member"


def test_every_kind_of_record_of_consumer_groups_is_written_and_deleted(outputs: list[OutputRecord]) -> None:
    written = set()
    for output in outputs:
        if output.topic.endswith("offsets"):
            record = decode_record(output.key or b"", output.value)
            assert not isinstance(record, int)
            written.add((record.name, record.value is None))
    names = {name for name in record_types().values() if name.startswith("ConsumerGroup")}
    expected = {(name, deleted) for name in names for deleted in (False, True)}
    # Kafka 4.3 only deletes the metadata of partitions, which releases up to 4.0 wrote.
    assert written >= expected - {("ConsumerGroupPartitionMetadata", False)}
