"""Request logs of groups that commit in transactions: the markers tell when the offsets count."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.proving.recordings.following import follow
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.offsets_log import read_offsets_log
from group_coordinator.proving.recordings.recording import RecordingReport, verify_recording
from group_coordinator.proving.recordings.transaction_ends import asked_ends, transaction_ends
from schemas.events import TransactionEnded, decode_group_event
from schemas.records import OffsetCommitKey, OffsetCommitValue, decode_record
from tests.encoded_records import encode_key, encode_offset_commit_value

CLUSTERS = Path(__file__).parents[2] / "fixtures" / "clusters"
REQUEST_LOG, OFFSETS = CLUSTERS / "transactions.request.log.gz", CLUSTERS / "transactions.offsets.jsonl.gz"

Json = dict[str, Any]


def log_lines() -> list[str]:
    return gzip.decompress(REQUEST_LOG.read_bytes()).decode().splitlines(keepends=True)


def verify(tmp_path: Path, lines: list[str], *, markers: bool = False) -> RecordingReport:
    """`markers`: whether the offsets log has those of the transactions, which tell their ends too."""
    path, offsets = tmp_path / "request.log", tmp_path / "offsets.jsonl"
    path.write_text("".join(lines))
    records = gzip.decompress(OFFSETS.read_bytes()).decode().splitlines(keepends=True)
    offsets.write_text("".join(record for record in records if markers or '"control"' not in record))
    return verify_recording(path, offsets=offsets)


def test_a_real_group_that_commits_in_transactions_agrees_to_the_byte() -> None:
    """Its fetches are compared, too: of offsets that are stable, and of those that are not yet."""
    report = verify_recording(REQUEST_LOG, offsets=OFFSETS)
    assert not report.differences, "\n".join(report.lines())
    assert report.records is not None
    assert report.records.equal == report.records.total > 500
    reasons = " ".join(report.not_compared)
    assert "INVALID_PRODUCER_EPOCH for the transaction" in reasons
    assert "in transactions" not in reasons
    assert not report.doubts, "members of consumer groups are known by their epoch, which a commit tells too"


def test_without_the_brokers_own_listener_a_doubt_says_so(tmp_path: Path) -> None:
    report = verify(tmp_path, [line for line in log_lines() if "WRITE_TXN_MARKERS" not in line])
    assert any("in transactions whose markers the log does not have" in doubt for doubt in report.doubts)
    assert sum(count for reason, count in report.not_compared.items() if "does not have" in reason) > 50


def test_without_the_brokers_own_listener_the_markers_tell_the_ends(tmp_path: Path) -> None:
    report = verify(tmp_path, [line for line in log_lines() if "WRITE_TXN_MARKERS" not in line], markers=True)
    assert not any("transactions" in doubt for doubt in report.doubts)
    assert not any("does not have" in reason for reason in report.not_compared)
    assert not report.differences, "\n".join(report.lines())


def test_an_end_that_was_told_otherwise_shows_in_the_offsets_log(tmp_path: Path) -> None:
    lines = log_lines()
    number = next(
        number
        for number, line in enumerate(lines)
        if "WRITE_TXN_MARKERS" in line and '"__consumer_offsets"' in line and '"producerId":2,' in line
    )
    lines[number] = lines[number].replace('"transactionResult":true', '"transactionResult":false')
    report = verify(tmp_path, lines)
    assert {difference.what for difference in report.differences} & {"offsets log", "answer"}


@pytest.mark.parametrize("number", [1798, 2003, 2650, 2772])
def test_a_fetch_that_was_refused_came_before_the_marker_within_its_millisecond(tmp_path: Path, number: int) -> None:
    """Times of lines are cut to milliseconds: this marker seems to be written just before the fetch was taken up."""
    lines = log_lines()
    fetch, marker = lines[number : number + 2]
    assert "OFFSET_FETCH" in fetch
    assert '"errorCode":88' in fetch
    assert "WRITE_TXN_MARKERS" in marker
    second, millisecond = fetch[:20], int(fetch[21:24]) - 1
    lines[number : number + 2] = [f"{second},{millisecond:03}{marker[24:]}", fetch]
    report = verify(tmp_path, lines, markers=True)
    assert not report.differences, "\n".join(report.lines())


def imported_ends(path: Path) -> Counter[tuple[str, int, bool]]:
    """How often (group, producer, whether it committed) comes among the events of a log."""
    log = RequestLog([path])
    log.read()
    records = list(EventsImport(follow(log, {})))
    keyed = [(record.key.decode(), record.value) for record in records if record.key is not None]
    return Counter(
        (group_id, event.producer_id, event.committed)
        for group_id, value in keyed
        if isinstance(event := decode_group_event(group_id, value), TransactionEnded)
    )


def test_an_import_has_the_ends_as_events() -> None:
    ends = imported_ends(REQUEST_LOG)
    assert {group_id for group_id, _, _ in ends} == {"tx-classic", "tx-new"}
    assert {committed for _, _, committed in ends} == {True, False}


def test_where_no_markers_are_told_transactions_end_when_their_producers_ask(tmp_path: Path) -> None:
    """Each that the markers commit is committed; to begin anew ends what was begun, and may find nothing to end."""
    path = tmp_path / "request.log"
    path.write_text("".join(line for line in log_lines() if "WRITE_TXN_MARKERS" not in line))
    told, asked = imported_ends(REQUEST_LOG), imported_ends(path)
    assert Counter({end: asked[end] for end in asked if end[2]}) == Counter({end: told[end] for end in told if end[2]})
    assert told <= asked
    assert (asked - told).total() <= sum("INIT_PRODUCER_ID" in line for line in log_lines())


@pytest.mark.parametrize(
    ("request_json", "response_json"),
    [
        (b'{"transactionalId":"x","producerId":7,"committed":true}', b'{"errorCode":51}'),
        (b'{"transactionalId":null}', b'{"errorCode":0,"producerId":7}'),
        (b"null", b'{"errorCode":0}'),
    ],
)
def test_what_a_broker_refuses_or_is_of_no_transaction_ends_none(request_json: bytes, response_json: bytes) -> None:
    assert asked_ends(Raw(request_json), Raw(response_json), 1, 2, 0, 1) == ()


# ---------------------------------------------------------------- one line of markers


def markers(*partitions: tuple[str, int, int]) -> tuple[Raw, Raw]:
    """(topic, partition, error code) of one committed transaction of producer 7."""
    topics = [{"name": topic, "partitionIndexes": [index]} for topic, index, _ in partitions]
    answered = [
        {"name": topic, "partitions": [{"partitionIndex": index, "errorCode": code}]}
        for topic, index, code in partitions
    ]
    marker = {"producerId": 7, "producerEpoch": 3, "transactionResult": True, "topics": topics, "coordinatorEpoch": 0}
    request, response = {"markers": [marker]}, {"markers": [{"producerId": 7, "topics": answered}]}
    return Raw(json.dumps(request).encode()), Raw(json.dumps(response).encode())


def test_only_markers_that_were_written_to_the_offsets_topic_count() -> None:
    told = markers(("__consumer_offsets", 4, 0), ("__consumer_offsets", 5, 6), ("out", 4, 0))
    (end,) = transaction_ends(*told, 10, 20, 0, 1)
    assert (end.partition, end.earliest_us, end.at_us) == (4, 10, 20)
    assert end.ended == TransactionEnded(producer_id=7, producer_epoch=3, committed=True)


@pytest.mark.parametrize("request_json", [b"null", b"{", b'{"markers":[{"producerId":"x"}]}', b'{"markers":7}'])
def test_what_cannot_be_read_tells_nothing(request_json: bytes) -> None:
    assert transaction_ends(Raw(request_json), markers(("__consumer_offsets", 4, 0))[1], 1, 2, 0, 1) == ()


# ---------------------------------------------------------------- a dump of the offsets topic


def dumped(offset: int, place: str, value: int | None, producer_id: int | None = None, partition: int = 0) -> Json:
    topic, number = place.split("-")
    key = encode_key(OffsetCommitKey("g", topic, int(number)))
    encoded = None
    if value is not None:
        encoded = encode_offset_commit_value(OffsetCommitValue(offset=value, commit_timestamp_ms=9), 4)
    return {
        "partition": partition, "offset": offset, "timestamp_ms": offset, "key": b64encode(key).decode(),
        "value": None if encoded is None else b64encode(encoded).decode(),
        "is_transactional": producer_id is not None, "producer_id": producer_id,
    }  # fmt: skip


def ended(offset: int, producer_id: int, *, committed: bool = True, partition: int = 0) -> Json:
    return {
        "partition": partition, "offset": offset, "timestamp_ms": offset, "producer_id": producer_id,
        "key": b64encode(bytes((0, 0, 0, committed))).decode(), "value": "AAAAAAAA",
        "is_transactional": True, "control": "COMMIT" if committed else "ABORT",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dump", "counting"),
    [
        ([dumped(0, "t-1", 5, 7), dumped(1, "t-0", 6, 7), ended(2, 7)], ["t-0 6 at 2", "t-1 5 at 2"]),
        ([dumped(0, "t-0", 5, 7), ended(1, 7, committed=False)], []),
        ([dumped(0, "t-0", 5, 7), dumped(1, "t-0", 6, 7)], []),
        ([dumped(0, "t-0", 5, 7), dumped(1, "t-0", 6), ended(2, 7)], ["t-0 6 at 1"]),
        ([dumped(0, "t-0", 5, 7), dumped(1, "t-0", None), ended(2, 7)], ["t-0 None at 1"]),
        ([dumped(0, "t-0", 5, 7), dumped(1, "t-0", 6, 8), ended(2, 8), ended(3, 7)], ["t-0 6 at 2"]),
        ([dumped(0, "t-0", 5, 7), ended(0, 7, partition=1)], []),
    ],
)
def test_what_counts_of_a_dump(dump: list[Json], counting: list[str], tmp_path: Path) -> None:
    path = tmp_path / "offsets.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in reversed(dump)))
    log = read_offsets_log(path)
    found = []
    for record in log.by_group.get("g", []):
        key, value = decode_record(record.key, record.value)
        assert isinstance(key, OffsetCommitKey)
        offset = value.offset if isinstance(value, OffsetCommitValue) else None
        found.append(f"{key.topic}-{key.partition} {offset} at {record.offset}")
    assert found == counting
    assert not list(log.doubts())
