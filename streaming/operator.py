"""The operator: one group's rows in, its outputs out. The one place where Spark meets the core.

`coordinate_group` is what happens, a pure function of the group's state, its rows and the clock that the ticks give;
`streaming_operator` binds it to Spark's way of calling a function by group. Rows and outputs pass through in pieces, so
that memory holds a few of them, however many a batch has.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import NamedTuple

from pyspark.sql.streaming.state import GroupState

from coordinator_state import Group, GroupCoordinator, decode_group, encode_group, group_event
from coordinator_state.rule_changes import names_rules, read_rules, rules_in
from schemas.events import EventError, decode_group_event, decode_group_id
from schemas.output_records import OutputRecord
from schemas.ticks import read_tick
from streaming.arrow_columns import Columns
from streaming.operator_config import OperatorConfig
from streaming.parts import HeldStates, Part
from streaming.rows import EventRow, dead_letter, output_record
from streaming.state_function import GroupRecords, Outputs, StateFunction

Key = tuple[bytes | None]
"""The grouping key: the bytes of the event's key. Not its text: a key that is no UTF-8 would be a poison."""
OUTPUTS_AT_ONCE = 16
"""After an event or a timer that brings the group's outputs to so many, they are passed on. Each may take a megabyte
or more."""


class OperatorError(RuntimeError):
    """A defect of ours, or a state that cannot be read. The batch fails, the checkpoint stands, nothing is skipped."""


class NextState(NamedTuple):
    """The state of a group after its rows, and its next deadline."""

    group: Group | None
    next_deadline_ms: int | None


class Outcome(NamedTuple):
    """The state of a group after its rows, and its outputs."""

    group: Group | None
    next_deadline_ms: int | None
    records: list[OutputRecord]


OutputChunks = Generator[list[OutputRecord], None, NextState]
"""Records in the order in which they were said, a few at a time; at the end, what is left of the group."""


def streaming_operator(config: OperatorConfig, held: HeldStates | None = None) -> StateFunction:
    """Return the function for `applyInPandasWithState`, with state as `STATE_SCHEMA` and event-time timeouts. `held`
    keeps the states while further parts of their groups follow."""
    held_states = HeldStates() if held is None else held

    def coordinate(key: Key, chunks: Iterable[Columns], state: GroupState) -> Outputs:
        # The largest tick of the earlier batches: a row with no tick before it in this batch has that clock.
        watermark_ms = state.getCurrentWatermarkMs()
        part = Part(key[0], list(chunks))
        group_key = part.group_key
        with error_context(group_key, config):
            held_states.take_over(part, state)
            group = decode_group(*state.get) if state.exists else None
            rows = sorted(
                (row for chunk in part.chunks for row in event_rows(chunk, watermark_ms)), key=attrgetter("offset")
            )
            next_state = yield from with_key(
                group_key, coordinate_group(group_key, rows, config, group=group, clock_ms=watermark_ms)
            )
            _store(next_state, state, watermark_ms)
            held_states.hold(part, state)

    return StateFunction(coordinate)


def with_key(group_key: bytes | None, chunks: OutputChunks) -> Generator[GroupRecords, None, NextState]:
    """Add the key to the pieces of a group's outputs."""
    while True:
        try:
            records = next(chunks)
        except StopIteration as end:
            next_state: NextState = end.value
            return next_state
        yield group_key, records


def coordinate_group(
    group_key: bytes | None, rows: Iterable[EventRow], config: OperatorConfig, *, group: Group | None, clock_ms: int
) -> OutputChunks:
    """Handle rows, which are in the order of their offsets, then let the clock reach `clock_ms`.

    A row that cannot be read becomes a dead letter; it changes nothing and does not even move the group's clock.
    """
    try:
        group_id = decode_group_id(group_key)
    except EventError as problem:
        for row in rows:
            if group_key is None and rules_in(row.value) is not None:
                continue
            yield [dead_letter(group_key, row, problem if group_key is not None else _without_key(row, config), config)]
        return NextState(None, None)
    coordinator = GroupCoordinator(
        group_id, config.group, partition=config.partition, group=group, rule_changes=config.rule_changes
    )
    dead_letters: list[OutputRecord] = []
    for row in rows:
        try:
            event = decode_group_event(group_id, row.value)
        except EventError as problem:
            dead_letters.append(dead_letter(group_key, row, problem, config))
            if len(dead_letters) >= OUTPUTS_AT_ONCE:
                yield dead_letters
                dead_letters = []
            continue
        while coordinator.fire_next(row.clock_ms):
            if len(coordinator.outputs) >= OUTPUTS_AT_ONCE:
                yield _take_records(coordinator, config)
        coordinator.handle(group_event(event, row.offset, row.clock_ms, row.timestamp_ms))
        if len(coordinator.outputs) >= OUTPUTS_AT_ONCE:
            yield _take_records(coordinator, config)
    while coordinator.fire_next(clock_ms):
        if len(coordinator.outputs) >= OUTPUTS_AT_ONCE:
            yield _take_records(coordinator, config)
    yield dead_letters + _take_records(coordinator, config)
    return NextState(coordinator.group, coordinator.next_deadline_ms())


def coordinate_rows(
    group_key: bytes | None, rows: Iterable[EventRow], config: OperatorConfig, *, group: Group | None, clock_ms: int
) -> Outcome:
    """Coordinate all rows at once, in any order; the dead letters of events come first."""
    ordered = sorted(rows, key=attrgetter("offset"))
    chunks = coordinate_group(group_key, ordered, config, group=group, clock_ms=clock_ms)
    records: list[OutputRecord] = []
    while True:
        try:
            records += next(chunks)
        except StopIteration as end:
            next_state: NextState = end.value
            records.sort(key=lambda record: "epoch" in record.headers)
            return Outcome(next_state.group, next_state.next_deadline_ms, records)


def _take_records(coordinator: GroupCoordinator, config: OperatorConfig) -> list[OutputRecord]:
    """Return the group's new outputs as records for the sink."""
    return [output_record(output, config) for output in coordinator.take_outputs()]


def _without_key(row: EventRow, config: OperatorConfig) -> EventError:
    """Return why a record with a null key is no tick, or names no rules."""
    try:
        if names_rules(row.value):
            read_rules(row.value)
        read_tick(row.value, row.timestamp_ms, config.group.tick_ahead_bound_ms)
    except EventError as problem:
        return problem
    raise AssertionError(f"the tick at offset {row.offset} was taken for a request")


def event_rows(chunk: Columns, clock_floor_ms: int) -> list[EventRow]:
    """Return the rows of events; their clocks are at least `clock_floor_ms`."""
    columns = (chunk[name] for name in EventRow._fields)
    return [
        EventRow(offset, max(clock_ms, clock_floor_ms), timestamp_ms, value)
        for offset, clock_ms, timestamp_ms, value in zip(*columns, strict=True)
    ]


def _store(next_state: NextState, state: GroupState, watermark_ms: int) -> None:
    """Keep the group, or forget it: a timed-out call that did neither would be repeated in every later batch."""
    if next_state.group is None:
        if state.exists:
            state.remove()
        return
    state.update(encode_group(next_state.group))
    set_timeout(state, next_state.next_deadline_ms, watermark_ms)


def set_timeout(state: GroupState, next_deadline_ms: int | None, watermark_ms: int) -> None:
    """Let Spark call the state's key again when the deadline is due."""
    if next_deadline_ms is not None:
        # Spark fires when watermark > t, strictly; ours are due at deadline <= watermark.
        state.setTimeoutTimestamp(max(next_deadline_ms - 1, watermark_ms, 1))


@contextmanager
def error_context(group_key: bytes | None, config: OperatorConfig) -> Iterator[None]:
    """Add the group to an exception, so that the failed query names it."""
    try:
        yield
    except Exception as error:
        where = f"group {group_key!r} of {config.topics.events}, partition {config.partition}"
        raise OperatorError(f"{where}: {type(error).__name__}: {error}") from error
