"""Commits in transactions count at the marker that commits them, and never after one that aborts them."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from group_coordinator.watching.observed.cluster import Observed, observe
from group_coordinator.watching.observed.offsets_log import CommitRecord, UnknownRecord, raw_line, read_raw
from schemas.history import OffsetsCommitted
from schemas.observed_history import OffsetsRemoved
from schemas.records import OffsetCommitKey, OffsetCommitValue
from schemas.transaction_history import (
    TransactionalOffsetsAborted,
    TransactionalOffsetsPending,
    TransactionalOffsetsReplaced,
)
from tests.encoded_records import encode_key, encode_offset_commit_value
from tests.watching.observed.commits import commit, marker, read, text


def committed(observed: Observed) -> list[tuple[int, int | None]]:
    """Return when which offset was committed."""
    commits = [record for record in observed.history if isinstance(record, OffsetsCommitted)]
    return [(record.timestamp_ms, change.offset) for record in commits for change in record.offsets]


def test_at_the_marker() -> None:
    observed = observe([commit(0, 5), commit(1, 9, 42), marker(2, "COMMIT", 42)], (), {})
    assert committed(observed) == [(1_000, 5), (1_002, 9)]
    assert observed.open_transactions == ()


def test_never_after_an_abort() -> None:
    observed = observe([commit(0, 5), commit(1, 9, 42), marker(2, "ABORT", 42), commit(3, 6)], (), {})
    assert committed(observed) == [(1_000, 5), (1_003, 6)]
    assert [type(record) for record in observed.history[1:3]] == [
        TransactionalOffsetsPending,
        TransactionalOffsetsAborted,
    ]


def test_a_later_plain_commit_holds() -> None:
    observed = observe([commit(0, 9, 42), commit(1, 6), marker(2, "COMMIT", 42)], (), {})
    assert committed(observed) == [(1_001, 6)]
    replaced = observed.history[-1]
    assert isinstance(replaced, TransactionalOffsetsReplaced)
    assert (replaced.producer_id, [change.offset for change in replaced.offsets]) == (42, [9])
    observed = observe([commit(0, 9, 42), commit(1, 6), marker(2, "ABORT", 42)], (), {})
    assert isinstance(observed.history[-1], TransactionalOffsetsAborted)


def test_a_tombstone_between_them_takes_what_is_pending_along() -> None:
    """As when the topic is deleted. Source: Kafka's `OffsetMetadataManager.replay`."""
    observed = observe([commit(0, 5), commit(1, 9, 42), commit(2, None), marker(3, "COMMIT", 42)], (), {})
    assert committed(observed) == [(1_000, 5)]
    observed = observe([commit(0, 5), commit(1, 9, 42), commit(2, None)], (), {})
    assert observed.open_transactions == ()


def test_one_that_hangs_blocks_nobody_and_is_a_finding() -> None:
    observed = observe([commit(0, 9, 42), commit(1, 6), commit(2, 7, 43), marker(3, "COMMIT", 43)], (), {})
    assert committed(observed) == [(1_001, 6), (1_003, 7)]
    (hanging,) = observed.open_transactions
    assert (hanging.producer_id, hanging.since_ms, hanging.group_ids, hanging.offsets) == (42, 1_000, ("g",), 1)


def test_another_producer_s_marker_ends_nothing() -> None:
    observed = observe([commit(0, 9, 42), marker(1, "COMMIT", 43)], (), {})
    assert committed(observed) == []


def test_an_offset_that_goes_says_that_it_is_not_known_why() -> None:
    (removed,) = [
        record
        for record in observe([commit(0, 5), commit(1, None)], (), {}).history
        if isinstance(record, OffsetsRemoved)
    ]
    assert removed.offsets[0].previous_offset == 5
    assert removed.cause.certainty == "not_known"


def test_a_type_that_is_not_known_is_counted() -> None:
    key = b64encode(b"\x00\x63\x00\x01g").decode()
    line = {"partition": 0, "offset": 0, "timestamp_ms": 0, "key": key, "value": None}
    assert read_raw(*raw_line(json.dumps(line).encode())) == UnknownRecord(99)


@pytest.mark.parametrize("number", [0, 1])
def test_both_types_of_commits_are_commits(number: int) -> None:
    """Old brokers wrote type 0."""
    key = number.to_bytes(2) + encode_key(OffsetCommitKey("g", "t", 0))[2:]
    value = encode_offset_commit_value(OffsetCommitValue(offset=5, commit_timestamp_ms=0), 1)
    line = {"partition": 7, "offset": 0, "timestamp_ms": 1_000, "key": text(key), "value": text(value)}
    record = read(line)
    assert isinstance(record, CommitRecord)
    assert committed(observe([record], (), {})) == [(1_000, 5)]
