"""What is promised to clients is kept in random logs of both protocols, and a promise that is broken is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemas.kafka.records import decode_record, encode_record
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from streaming.config import StreamingConfig
from tests.crash.outputs import Name, Outputs, Stream, expected_of
from tests.crash.promises import require_promises
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log

CONFIG = StreamingConfig(**SETTINGS)
Doctor = Callable[[Stream, OutputRecord], OutputRecord | None]
CURRENT = "ConsumerGroupCurrentMemberAssignment"


def a_log(seed: int) -> list[Record]:
    return make_log(seed, groups=3, mixed_groups=4, requests=600)


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return a_log(1)


@pytest.mark.parametrize("seed", range(6))
def test_promises_are_kept(seed: int) -> None:
    log = a_log(seed)
    require_promises(log, expected_of(CONFIG, log), CONFIG)


def doctored(outputs: Outputs, doctor: Doctor) -> Outputs:
    """The outputs with each record as the doctor leaves it."""
    changed: Outputs = {}
    for stream, records in outputs.items():
        changed[stream] = [
            (name, record) for name, each in records if (record := doctor(stream, each)) is not None
        ]  # fmt: skip
    return changed


def record_name(stream: Stream, record: OutputRecord) -> str:
    """Of the type of a record of the offsets log; empty: it is of another topic."""
    if not stream.topic.endswith("offsets"):
        return ""
    decoded = decode_record(record.key or b"", record.value)
    assert not isinstance(decoded, int)
    return decoded.name


def test_a_commit_that_is_lost_is_noticed(log: list[Record]) -> None:
    def lose_commits(stream: Stream, record: OutputRecord) -> OutputRecord | None:
        is_mixed = stream.group_id.startswith("mixed-")
        return None if is_mixed and record_name(stream, record) == "OffsetCommit" else record

    with pytest.raises(AssertionError, match="was accepted and lost"):
        require_promises(log, doctored(expected_of(CONFIG, log), lose_commits), CONFIG)


def test_a_partition_that_is_given_up_too_late_is_noticed(log: list[Record]) -> None:
    """A member keeps what it had been given once."""
    first: dict[tuple[Stream, bytes], tuple[Any, ...]] = {}

    def keep_partitions(stream: Stream, record: OutputRecord) -> OutputRecord:
        if record.value is None or record_name(stream, record) != CURRENT:
            return record
        decoded = decode_record(record.key or b"", record.value)
        assert not isinstance(decoded, int)
        assert decoded.value is not None
        assigned = first.setdefault((stream, record.key or b""), decoded.value["assigned_partitions"])
        return record._replace(value=encode_record(_with(decoded, assigned_partitions=assigned))[1])

    with pytest.raises(AssertionError, match="have two owners"):
        require_promises(log, doctored(expected_of(CONFIG, log), keep_partitions), CONFIG)


def _with(record: Any, **values: Any) -> Any:
    return type(record)(name=record.name, key=record.key, version=record.version, value=record.value | values)


@pytest.mark.parametrize("api", ["Heartbeat", "ConsumerGroupHeartbeat"])
def test_a_member_that_is_expired_in_vain_is_noticed(log: list[Record], api: str) -> None:
    """After an accepted heartbeat somebody says that the member is expired."""
    outputs = expected_of(CONFIG, log)
    responses, history = CONFIG.topics.responses, CONFIG.topics.history
    (stream, name, answer) = next(
        (stream, name, answer)
        for stream, records in outputs.items() if stream.topic == responses
        for name, record in records
        if (answer := json.loads(record.value or b""))["api"] == api and answer["body"]["error_code"] == 0
    )  # fmt: skip
    heartbeat = json.loads(log[answer["answers_offset"]].value or b"")["body"]
    _, last = outputs[Stream(history, stream.group_id)][-1]
    time_ms = json.loads(last.value or b"")["time_ms"]
    expired = {
        "type": "member_expired", "group_id": stream.group_id, "time_ms": time_ms, "session_timeout_ms": time_ms,
        "member": {"member_id": heartbeat["member_id"]},
    }  # fmt: skip
    record = last._replace(value=json.dumps(expired).encode())
    outputs[Stream(history, stream.group_id)].append((Name(name.epoch + 1, 0), record))
    with pytest.raises(AssertionError, match="was sending heartbeats and was expired"):
        require_promises(log, outputs, CONFIG)
