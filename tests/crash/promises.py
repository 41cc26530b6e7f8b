"""What is promised to clients, judged from the log and the outputs alone, without the core."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import groupby
from typing import Any

from schemas.events import EventError
from schemas.kafka import records as kafka_records
from schemas.output_records import OutputRecord
from schemas.records import OffsetCommitKey, OffsetCommitValue, decode_record
from schemas.records_file import Record
from schemas.ticks import read_tick
from streaming.config import StreamingConfig
from tests.crash.outputs import Name, Outputs

Partition = tuple[bytes, int]
"""Topic id and number."""
NONE, REBALANCE_IN_PROGRESS = 0, 27


def require_promises(log: list[Record], outputs: Outputs, config: StreamingConfig) -> None:
    """No commit that was accepted is missing from the offsets log; nobody who kept sending heartbeats was expired; and
    no partition of a consumer group ever had two owners."""
    topics = config.topics
    answers, history = _documents(outputs, topics.responses), _documents(outputs, topics.history)
    requests = _requests(log, config.group.tick_ahead_bound_ms)
    _require_commits(requests, [answer for _, answer in answers], outputs, topics.offsets)
    _require_one_owner(outputs, topics.offsets)
    _require_heartbeats(requests, answers, history)


def _records(outputs: Outputs, topic: str) -> list[tuple[Name, OutputRecord]]:
    return [named_record for stream, output in outputs.items() if stream.topic == topic for named_record in output]


def _documents(outputs: Outputs, topic: str) -> list[tuple[Name, Any]]:
    return [(name, json.loads(record.value or b"")) for name, record in _records(outputs, topic)]


def _requests(log: list[Record], tick_ahead_max_ms: int) -> dict[int, tuple[int, dict[str, Any]]]:
    """Offset -> (clock of the request, the request), of those that are JSON objects."""
    requests, clock_ms = {}, 0
    for record in log:
        assert record.offset is not None
        try:
            if record.key is None:
                clock_ms = max(clock_ms, read_tick(record.value, record.timestamp_ms, tick_ahead_max_ms))
                continue
            requests[record.offset] = clock_ms, json.loads(record.value or b"")
        except (EventError, ValueError, RecursionError):
            continue
    return requests


def _require_commits(requests: dict[int, Any], answers: list[Any], outputs: Outputs, topic: str) -> None:
    stored = set()
    for _, record in _records(outputs, topic):
        key, value = decode_record(record.key or b"", record.value)
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            stored.add((int(record.headers["offset"]), key.topic, key.partition, value.offset))
    accepted = 0
    for answer in answers:
        if answer["api"] != "OffsetCommit":
            continue
        offset = answer["answers_offset"]
        body = requests[offset][1]["body"]
        expected = {
            (topic["name"], part["partition_index"]): part["committed_offset"]
            for topic in body["topics"]
            for part in topic["partitions"]
        }
        for answer_topic in answer["body"]["topics"]:
            for part in answer_topic["partitions"]:
                if part["error_code"] == NONE:
                    place = answer_topic["name"], part["partition_index"]
                    assert (offset, *place, expected[place]) in stored, (
                        f"the commit of event {offset} was accepted and lost"
                    )
                    accepted += 1
    assert accepted


def _require_heartbeats(
    requests: dict[int, Any], answers: list[tuple[Name, Any]], history: list[tuple[Name, Any]]
) -> None:
    heard: dict[tuple[str, str], list[tuple[Name, int]]] = defaultdict(list)
    apis = set()
    for name, answer in answers:
        clock_ms, request = requests[answer["answers_offset"]]
        member_id = _heard_of(answer, request)
        if member_id is not None:
            apis.add(answer["api"])
            heard[answer["group_id"], member_id].append((name, clock_ms))
    assert apis == {"Heartbeat", "ConsumerGroupHeartbeat"}
    for expired, record in history:
        if record["type"] == "member_expired":
            member_id, since_ms = record["member"]["member_id"], record["time_ms"] - record["session_timeout_ms"]
            assert not [
                name for name, at_ms in heard[record["group_id"], member_id] if at_ms > since_ms and name < expired
            ], f"{member_id} was sending heartbeats and was expired"


def _heard_of(answer: dict[str, Any], request: dict[str, Any]) -> str | None:
    """The member whose heartbeat was accepted by this answer."""
    body, member_id = answer["body"], None
    if answer["api"] == "Heartbeat" and body.get("error_code", NONE) in (NONE, REBALANCE_IN_PROGRESS):
        member_id = request["body"]["member_id"]
    if answer["api"] == "ConsumerGroupHeartbeat" and body["error_code"] == NONE and body["member_epoch"] >= 0:
        member_id = body["member_id"]
    return member_id


def _require_one_owner(outputs: Outputs, topic: str) -> None:
    """What a member has, or has yet to give up, is nobody else's after all that is written for one event."""
    given = 0
    for stream, named_records in outputs.items():
        if stream.topic != topic:
            continue
        owned: dict[str, set[Partition]] = {}
        for (_, offset), of_event in groupby(named_records, lambda named: (named[0].epoch, named[1].headers["offset"])):
            for _, record in of_event:
                _note_ownership(owned, record)
            owners = Counter(partition for partitions in owned.values() for partition in partitions)
            given += len(owners)
            shared = [partition for partition, count in owners.items() if count > 1]
            assert not shared, f"after event {offset} {shared} of {stream.group_id} have two owners"
    assert given


def _note_ownership(owned: dict[str, set[Partition]], record: OutputRecord) -> None:
    """Take in what a record of the offsets log says of a member's partitions."""
    decoded = kafka_records.decode_record(record.key or b"", record.value)
    assert not isinstance(decoded, int)
    if decoded.name == "ConsumerGroupCurrentMemberAssignment":
        value = decoded.value or {"assigned_partitions": (), "partitions_pending_revocation": ()}
        owned[decoded.key["member_id"]] = {
            (topic["topic_id"], number)
            for topic in (*value["assigned_partitions"], *value["partitions_pending_revocation"])
            for number in topic["partitions"]
        }
