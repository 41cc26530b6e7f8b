"""The operator: one group's rows in, its outputs out. The one place where Spark meets the core.

`coordinate_rows` is what happens, a pure function of the group's state, its rows and the clock that the ticks give;
`streaming_operator` binds it to Spark's way of calling a function by group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import NamedTuple

from pyspark.sql.streaming.state import GroupState

from coordinator_state import Group, GroupCoordinator, decode_group, encode_group, group_event
from schemas.events import EventError, decode_group_event, decode_group_id
from schemas.ticks import read_tick
from streaming.operator_config import OperatorConfig
from streaming.rows import EventRow, OutputRecord, dead_letter, output_record
from streaming.state_function import Columns, Outputs, StateFunction

Key = tuple[bytes | None]
"""The grouping key: the bytes of the event's key. Not its text: a key that is no UTF-8 would be a poison."""


class OperatorError(RuntimeError):
    """A defect of ours, or a state that cannot be read. The batch fails, the checkpoint stands, nothing is skipped."""


class Outcome(NamedTuple):
    """What is left of a group after its rows, and what it said."""

    group: Group | None
    next_deadline_ms: int | None
    records: list[OutputRecord]


def streaming_operator(config: OperatorConfig) -> StateFunction:
    """The function for `applyInPandasWithState`, with state as `STATE_SCHEMA` and event-time timeouts."""

    def coordinate(key: Key, chunks: Iterable[Columns], state: GroupState) -> Outputs:
        (group_key,) = key
        # The largest tick of the earlier batches: a row with no tick before it in this batch has that clock.
        watermark_ms = state.getCurrentWatermarkMs()
        with blame(group_key, config):
            group = decode_group(*state.get) if state.exists else None
            rows = [row for chunk in chunks for row in event_rows(chunk, watermark_ms)]
            outcome = coordinate_rows(group_key, rows, config, group=group, clock_ms=watermark_ms)
            _store(outcome, state, watermark_ms)
        return [(group_key, outcome.records)]

    return StateFunction(coordinate)


def coordinate_rows(
    group_key: bytes | None, rows: Iterable[EventRow], config: OperatorConfig, *, group: Group | None, clock_ms: int
) -> Outcome:
    """Handle rows in the order of their offsets, then let the clock reach `clock_ms`.

    A row that cannot be read becomes a dead letter; it changes nothing and does not even move the group's clock.
    """
    ordered = sorted(rows, key=attrgetter("offset"))
    try:
        group_id = decode_group_id(group_key)
    except EventError as problem:
        return Outcome(None, None, unreadable(group_key, ordered, problem, config))
    coordinator = GroupCoordinator(group_id, config.group, partition=config.partition, group=group)
    records = handle_rows(coordinator, group_key, group_id, ordered, config)
    coordinator.advance_to(clock_ms)
    records += take_records(coordinator, config)
    return Outcome(coordinator.group, coordinator.next_deadline_ms(), records)


def handle_rows(
    coordinator: GroupCoordinator, group_key: bytes | None, group_id: str, rows: Iterable[EventRow], config: OperatorConfig
) -> list[OutputRecord]:
    """Hand rows, which are in order, to the core: the dead letters, then what the group says to the others."""
    letters: list[OutputRecord] = []
    for row in rows:
        try:
            event = decode_group_event(group_id, row.value)
        except EventError as problem:
            letters.append(dead_letter(group_key, row, problem, config))
            continue
        coordinator.handle(group_event(event, row.offset, row.clock_ms, row.timestamp_ms))
    return letters + take_records(coordinator, config)


def take_records(coordinator: GroupCoordinator, config: OperatorConfig) -> list[OutputRecord]:
    """What a group has said since the last time, as records for the sink."""
    return [output_record(output, config) for output in coordinator.take_outputs()]


def unreadable(group_key: bytes | None, rows: Iterable[EventRow], problem: EventError, config: OperatorConfig) -> list[OutputRecord]:
    """The dead letters of rows whose key names no group, which is the problem."""
    return [dead_letter(group_key, row, problem if group_key is not None else _without_key(row, config), config) for row in rows]


def _without_key(row: EventRow, config: OperatorConfig) -> EventError:
    """Why a record with a null key is no tick."""
    try:
        read_tick(row.value, row.timestamp_ms, config.group.tick_ahead_bound_ms)
    except EventError as problem:
        return problem
    raise AssertionError(f"the tick at offset {row.offset} was taken for a request")


def event_rows(chunk: Columns, clock_floor_ms: int) -> list[EventRow]:
    """The rows; their clocks are at least `clock_floor_ms`."""
    columns = (chunk[name] for name in EventRow._fields)
    return [
        EventRow(offset, max(clock_ms, clock_floor_ms), timestamp_ms, value)
        for offset, clock_ms, timestamp_ms, value in zip(*columns, strict=True)
    ]


def _store(outcome: Outcome, state: GroupState, watermark_ms: int) -> None:
    """Keep the group, or forget it: a timed-out call that did neither would be repeated in every later batch."""
    if outcome.group is None:
        if state.exists:
            state.remove()
        return
    state.update(encode_group(outcome.group))
    set_timeout(state, outcome.next_deadline_ms, watermark_ms)


def set_timeout(state: GroupState, next_deadline_ms: int | None, watermark_ms: int) -> None:
    """Have the state's key called again when the deadline is due."""
    if next_deadline_ms is not None:
        # Spark fires when watermark > t, strictly; ours are due at deadline <= watermark.
        state.setTimeoutTimestamp(max(next_deadline_ms - 1, watermark_ms, 1))


@contextmanager
def blame(group_key: bytes | None, config: OperatorConfig) -> Iterator[None]:
    """Names the group in whatever goes wrong, so that the failed query says where to look."""
    try:
        yield
    except Exception as error:
        where = f"group {group_key!r} of {config.topics.events}, partition {config.partition}"
        raise OperatorError(f"{where}: {type(error).__name__}: {error}") from error
