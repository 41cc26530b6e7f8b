"""What is promised to clients, judged from the log and the outputs alone, without the core."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from schemas.events import EventError
from schemas.records import OffsetCommitKey, OffsetCommitValue, decode_record
from schemas.records_file import Record
from schemas.ticks import read_tick
from streaming.config import StreamingConfig
from tests.crash.outputs import Outputs

NONE, REBALANCE_IN_PROGRESS = 0, 27


def require_promises(log: list[Record], outputs: Outputs, config: StreamingConfig) -> None:
    """No commit that was accepted is missing from the offsets log; nobody who kept sending heartbeats was expired."""
    topics = config.topic_settings.topics
    answers = [json.loads(record.value or b"") for record in _records(outputs, topics.responses)]
    requests = _requests(log)
    _require_commits(requests, answers, outputs, topics.offsets)
    _require_heartbeats(
        requests, answers, [json.loads(record.value or b"") for record in _records(outputs, topics.history)]
    )


def _records(outputs: Outputs, topic: str) -> list[Any]:
    return [record for stream, output in outputs.items() if stream.topic == topic for _, record in output]


def _requests(log: list[Record]) -> dict[int, tuple[int, dict[str, Any]]]:
    """Offset -> (clock of the request, the request), of those that are JSON objects."""
    requests, clock_ms = {}, 0
    for record in log:
        assert record.offset is not None
        try:
            if record.key is None:
                clock_ms = max(clock_ms, read_tick(record.value, record.timestamp_ms, 3_000))
                continue
            requests[record.offset] = clock_ms, json.loads(record.value or b"")
        except (EventError, ValueError, RecursionError):
            continue
    return requests


def _require_commits(requests: dict[int, Any], answers: list[Any], outputs: Outputs, topic: str) -> None:
    stored = set()
    for record in _records(outputs, topic):
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


def _require_heartbeats(requests: dict[int, Any], answers: list[Any], history: list[Any]) -> None:
    heartbeats: dict[str, list[int]] = defaultdict(list)
    for answer in answers:
        if answer["api"] == "Heartbeat" and answer["body"].get("error_code", NONE) in (NONE, REBALANCE_IN_PROGRESS):
            clock_ms, request = requests[answer["answers_offset"]]
            heartbeats[request["body"]["member_id"]].append(clock_ms)
    assert heartbeats
    for record in history:
        if record["type"] == "member_expired":
            member_id, at_ms = record["member"]["member_id"], record["time_ms"]
            since_ms = at_ms - record["session_timeout_ms"]
            assert not [heartbeat for heartbeat in heartbeats[member_id] if since_ms < heartbeat <= at_ms], (
                f"{member_id} was sending heartbeats and was expired"
            )
