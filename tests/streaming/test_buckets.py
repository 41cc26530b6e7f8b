"""Buckets without a JVM: several groups under one key of the state, each as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from pyspark.sql.streaming.state import GroupState

from streaming.buckets import bucket_operator, decode_bucket, encode_bucket
from streaming.operator import OperatorError, streaming_operator
from streaming.stored_group import StoredGroup
from tests.streaming.operator_events import CONFIG, JOIN_MS, EventRow, group_state, heartbeat, join, rows_of, timeout_ms

KEPT = {b"a": StoredGroup(5, b"membership", b"offsets"), b"\xff": StoredGroup(None, b"", b"")}
BLOB_OF_VERSION_1 = bytes.fromhex("920182c401619305c40a6d656d62657273686970c4076f666673657473c401ff93c0c400c400")


def frame(*rows: EventRow) -> pd.DataFrame:
    keys, offsets, clocks, values = zip(*rows, strict=True)
    timestamps = [50_000 + offset for offset in offsets]
    return pd.DataFrame(
        {"key": keys, "offset": offsets, "clock_ms": clocks, "timestamp_ms": timestamps, "value": values}
    )


def in_bucket(rows: Sequence[EventRow], state: GroupState, bucket: int | None = 3) -> list[dict[str, Any]]:
    frames = [frame(*rows)] if rows else []
    return rows_of(bucket_operator(CONFIG)((bucket,), frames, state))


def alone(rows: Sequence[EventRow]) -> list[dict[str, Any]]:
    outputs = []
    for key in dict.fromkeys(row[0] for row in rows):
        group_rows = frame(*(row for row in rows if row[0] == key))
        outputs += rows_of(streaming_operator(CONFIG)((key,), [group_rows], group_state()))
    return outputs


def awake(state: GroupState, watermark_ms: int) -> GroupState:
    """The state as a call for a timer finds it."""
    return group_state(tuple(state.get), watermark_ms=watermark_ms, has_timed_out=True)


def test_groups_of_a_bucket_are_handled_as_if_each_were_alone() -> None:
    rows = [join(b"a", 0), join(b"b", 1), heartbeat(b"a", 2), (b"\xff\xfe", 3, JOIN_MS, b"{}"), heartbeat(b"b", 4)]
    assert in_bucket(rows, group_state()) == alone(rows)


def test_a_group_that_no_row_touches_stays_the_bytes_that_it_was() -> None:
    state = group_state()
    in_bucket([join(b"a", 0), join(b"b", 1)], state)
    before = decode_bucket(*state.get)
    state = group_state(tuple(state.get))
    in_bucket([join(b"b", 2)], state)
    after = decode_bucket(*state.get)
    assert after[b"a"] == before[b"a"]
    assert after[b"b"] != before[b"b"]


def test_a_timer_wakes_the_groups_that_are_due_and_the_bucket_waits_for_the_next() -> None:
    state = group_state()
    in_bucket([join(b"a", 0), join(b"b", 1, JOIN_MS + 2_000)], state)
    assert timeout_ms(state) == JOIN_MS + 6_000 - 1
    timed_out = awake(state, JOIN_MS + 6_000)
    outputs = in_bucket([], timed_out)
    assert {row["group_key"] for row in outputs} == {b"a"}
    assert any(b"session" in (row["value"] or b"") for row in outputs)
    assert timeout_ms(timed_out) == JOIN_MS + 8_000 - 1


def test_records_without_a_key_leave_no_state() -> None:
    state = group_state()
    outputs = in_bucket([(None, 0, JOIN_MS, b"?")], state, bucket=None)
    assert [row["topic"] for row in outputs] == ["c.dead-letters"]
    assert not state.exists


def test_a_bucket_is_kept_and_read_again_also_what_version_1_wrote() -> None:
    assert decode_bucket(encode_bucket(KEPT)) == KEPT
    assert decode_bucket(BLOB_OF_VERSION_1) == KEPT


def test_groups_that_are_alike_take_little_room() -> None:
    groups = {b"group-%d" % number: StoredGroup(number, b"membership" * 5, b"offsets" * 20) for number in range(60)}
    assert len(encode_bucket(groups)) < 60 * 200 // 5
    assert decode_bucket(encode_bucket(groups)) == groups


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\x00",
        encode_bucket(KEPT)[:-1],
        b"\x92\x01\x80\x00",
        b"\x92\x01" + b"\x91" * 5_000,
        b"\x93\x03\x01\xc4\x01\x00",  # another version
        b"\x93\x02\x05\xc4\x03\xff\xff\xff",  # nothing that was compressed
        b"\x93\x02\xce\xff\xff\xff\xff\xc4\x01\x00",  # four gigabytes out of one byte
    ],
)
def test_what_is_no_bucket_fails_loudly(packed: bytes) -> None:
    with pytest.raises(OperatorError, match="the state holds"):
        decode_bucket(packed)
