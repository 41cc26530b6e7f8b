"""The operator without a JVM: Spark's own `GroupState` built by hand, frames in, frames out."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from msgspec.structs import replace
from pyspark.sql.streaming.state import GroupState

from coordinator_state import GroupCoordinator, classic_group, group_event
from schemas.events import decode_group_event
from schemas.messages import HeartbeatRequest, JoinGroupProtocol
from streaming.operator import OUTPUTS_AT_ONCE, OperatorError, coordinate_group, streaming_operator
from tests.streaming.operator_events import (
    CONFIG,
    JOIN,
    JOIN_MS,
    event,
    group_state,
    is_removed,
    is_updated,
    rows_of,
    timeout_ms,
)


def frame(*rows: tuple[int, int, bytes | None]) -> pd.DataFrame:
    """Rows of (offset, clock_ms, value); the timestamps lie apart from the clocks."""
    columns = {"offset": [], "clock_ms": [], "timestamp_ms": [], "value": []}  # type: dict[str, list[Any]]
    for offset, clock_ms, value in rows:
        for name, item in zip(columns, (offset, clock_ms, 50_000 + offset, value), strict=True):
            columns[name].append(item)
    return pd.DataFrame(columns)


def call(key: bytes | None, frames: list[pd.DataFrame], state: GroupState) -> list[dict[str, Any]]:
    return rows_of(streaming_operator(CONFIG)((key,), frames, state))


def kinds(outputs: list[dict[str, Any]]) -> list[str]:
    return [json.loads(row["value"])["type"] for row in outputs if row["topic"] == "c.history"]


def joined() -> GroupState:
    """The state of a group with one member, whose session ends six seconds after JOIN_MS."""
    state = group_state()
    call(b"g", [frame((0, JOIN_MS, event("JoinGroup", 3, JOIN, new_member_id="m")))], state)
    return state


def test_a_request_is_answered_and_the_group_kept_with_its_next_deadline() -> None:
    state = group_state(watermark_ms=99_000)
    outputs = call(b"g", [frame((0, JOIN_MS, event("JoinGroup", 3, JOIN, new_member_id="m")))], state)
    assert "member_joined" in kinds(outputs)
    assert state.exists
    assert state.oldTimeoutTimestamp < timeout_ms(state) <= JOIN_MS + 6_000 - 1


def test_rows_are_handled_in_the_order_of_offsets_whatever_the_frames() -> None:
    heartbeat = event("Heartbeat", 4, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), "heartbeat")
    join = event("JoinGroup", 3, JOIN, "join", new_member_id="m")
    forth = call(b"g", [frame((0, JOIN_MS, join), (1, JOIN_MS, heartbeat))], group_state())
    back = call(b"g", [frame((1, JOIN_MS, heartbeat)), frame((0, JOIN_MS, join))], group_state())
    assert forth == back
    assert [json.loads(row["value"])["request_id"] for row in forth if row["topic"] == "c.responses"] == [
        "join",
        "heartbeat",
    ]


def test_the_clock_is_the_tick_then_the_watermark_then_the_timestamp() -> None:
    def group_time(clock_ms: int, watermark_ms: int) -> int:
        value = event("JoinGroup", 3, JOIN, new_member_id="m")
        outputs = call(b"g", [frame((0, clock_ms, value))], group_state(watermark_ms=watermark_ms))
        return int(next(json.loads(row["value"]) for row in outputs if row["topic"] == "c.history")["time_ms"])

    assert group_time(70_000, 60_000) == 70_000
    assert group_time(0, 60_000) == 60_000
    assert group_time(55_000, 60_000) == 60_000  # a tick that went back
    assert group_time(0, 0) == 50_000


def test_before_the_first_tick_no_time_goes_by() -> None:
    """Whatever the batches: a session of 6 s is not over when a record of a minute later comes,
    but the clock has not begun."""
    rows = [
        (0, 0, event("JoinGroup", 3, JOIN, "join", new_member_id="m")),
        (60_000, 0, event("JoinGroup", 3, JOIN, "another")),
    ]
    state = group_state()
    outputs = call(b"g", [frame(rows[0])], state)
    outputs += call(b"g", [frame(rows[1])], state)
    assert outputs == call(b"g", [frame(*rows)], group_state())
    history = [json.loads(row["value"]) for row in outputs if row["topic"] == "c.history"]
    assert "member_expired" not in [record["type"] for record in history]
    assert {record["time_ms"] for record in history} == {50_000}, "the first record's own timestamp"


def test_silence_expires_a_member_at_its_deadline_and_the_group_is_kept() -> None:
    deadline_ms = JOIN_MS + 6_000
    before = joined().get
    state = group_state(before, watermark_ms=deadline_ms - 1, has_timed_out=True)
    assert "member_expired" not in kinds(call(b"g", [], state))
    assert is_updated(state)
    assert timeout_ms(state) == deadline_ms - 1
    state = group_state(before, watermark_ms=JOIN_MS + 60_000, has_timed_out=True)
    assert "group_empty" in kinds(call(b"g", [], state))
    assert is_updated(state)


def test_undecodable_rows_are_dead_letters_and_change_nothing() -> None:
    before = joined()
    state = group_state(before.get, watermark_ms=JOIN_MS)
    outputs = call(b"g", [frame((5, JOIN_MS + 5_999, b"no json"), (6, JOIN_MS + 5_999, None))], state)
    assert [(row["topic"], json.loads(row["headers"])["reason"]) for row in outputs] == [
        ("c.dead-letters", "not_an_envelope"),
        ("c.dead-letters", "no_value"),
    ]
    assert state.get == before.get
    assert timeout_ms(state) == timeout_ms(before)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, None, "no_key"),
        (None, b"{}", "no_key"),
        (None, b'{"type":"tick","clock_ms":-1}', "malformed_tick"),
        (None, b'{"type":"\xff"}', "no_key"),
        (b"\xff", b"{}", "key_not_utf8"),
        (b"", b"{}", "not_an_envelope"),
    ],
)
def test_rows_without_a_group_are_dead_letters_and_no_state(
    key: bytes | None, value: bytes | None, reason: str
) -> None:
    state = group_state()
    (row,) = call(key, [frame((3, JOIN_MS, value))], state)
    assert (row["key"], row["value"], json.loads(row["headers"])["reason"]) == (key, value, reason)
    assert not state.exists
    assert not is_removed(state)


def test_a_group_of_which_nothing_is_left_leaves_the_state() -> None:
    state = group_state()
    describe = event("Heartbeat", 4, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    outputs = call(b"g", [frame((0, JOIN_MS, describe))], state)
    assert [row["topic"] for row in outputs if row["topic"] == "c.responses"] == ["c.responses"]
    assert not state.exists


def test_a_defect_fails_the_batch_and_names_the_group() -> None:
    state = group_state((b"\x63damaged", b"\x01"))
    with pytest.raises(OperatorError, match=r"group b'g' of c\.events, partition 0: StateError"):
        call(b"g", [], state)


def test_what_is_said_is_passed_on_a_little_at_a_time_also_between_timers() -> None:
    """Members of a large group that expire at once: each is told with the whole group."""
    members, metadata = 60, b"m" * 1_000
    protocol = JoinGroupProtocol(name="range", metadata=metadata)
    coordinator = GroupCoordinator("g", CONFIG.group)
    for number in range(members):
        join = replace(JOIN, protocols=(protocol,))
        coordinator.handle(
            group_event(
                _decoded(event("JoinGroup", 3, join, f"r{number}", new_member_id=f"m{number}")),
                number,
                JOIN_MS,
                JOIN_MS,
            )
        )
    coordinator.handle(
        group_event(
            _decoded(event("JoinGroup", 3, replace(JOIN, member_id="m0", protocols=(protocol,)), "again")),
            100,
            JOIN_MS,
            JOIN_MS,
        )
    )
    assert coordinator.group is not None
    assert len(classic_group(coordinator.group).members) == members
    pieces = list(coordinate_group(b"g", [], CONFIG, group=coordinator.group, clock_ms=JOIN_MS + 10**9))
    assert sum(map(len, pieces)) > 4 * OUTPUTS_AT_ONCE
    assert max(map(len, pieces)) <= 2 * OUTPUTS_AT_ONCE


def _decoded(value: bytes) -> Any:
    return decode_group_event("g", value)
