"""The batches of a query without Spark: what it answers, and the state of a shard after each batch, as the checkpoint
would have it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from coordinator_state import decode_group, encode_group
from schemas.events import EventError
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from schemas.ticks import NO_CLOCK, read_tick
from streaming.operator import coordinate_rows
from streaming.operator_config import OperatorConfig
from streaming.rows import EventRow
from streaming.stored_group import ShardState, StateInPieces, StoredGroup, in_pieces


def states_after_batches(log: Sequence[Record], config: OperatorConfig, batch_records: int) -> list[ShardState]:
    """Return the state after each batch of `batch_records` records; groups whose timers are not due are not called."""
    groups: dict[bytes, StoredGroup] = {}
    watermark_ms = NO_CLOCK
    states: list[ShardState] = []
    for start in range(0, len(log), batch_records):
        batch = log[start : start + batch_records]
        clock_ms, rows = _rows_by_key(batch, config, watermark_ms)
        due = [
            key
            for key, group in groups.items()
            if group.next_deadline_ms is not None and group.next_deadline_ms <= watermark_ms
        ]
        for key in dict.fromkeys([*rows, *due]):
            stored = groups.pop(key, None)
            group = None if stored is None else decode_group(stored.membership, stored.offsets)
            outcome = coordinate_rows(key, rows.get(key, ()), config, group=group, clock_ms=watermark_ms)
            if outcome.group is not None:
                groups[key] = StoredGroup(outcome.next_deadline_ms, *encode_group(outcome.group))
        end = start + len(batch)
        states.append(
            ShardState(
                batch_id=len(states), start_offset=start, end_offset=end, clock_ms=watermark_ms, groups=dict(groups)
            )
        )
        watermark_ms = max(watermark_ms, clock_ms)
    return states


def pieces_of(state: ShardState) -> StateInPieces:
    """Return a state as whoever starts a responder gets it."""
    return StateInPieces(replace(state, groups={}), in_pieces(state.groups.items()))


def answers_of_the_query(log: Sequence[Record], config: OperatorConfig) -> list[OutputRecord]:
    """Return all answers to a log, group by group."""
    clock_ms, rows = _rows_by_key(log, config, NO_CLOCK)
    return [
        output
        for key, of_group in rows.items()
        for output in coordinate_rows(key, of_group, config, group=None, clock_ms=clock_ms).records
        if output.topic == config.topics.responses
    ]


def _rows_by_key(
    batch: Sequence[Record], config: OperatorConfig, watermark_ms: int
) -> tuple[int, dict[bytes, list[EventRow]]]:
    clock_ms = watermark_ms
    rows: dict[bytes, list[EventRow]] = {}
    for record in batch:
        if record.key is None:
            try:
                clock_ms = max(clock_ms, read_tick(record.value, record.timestamp_ms, config.group.tick_ahead_bound_ms))
            except EventError:
                continue
        else:
            row = EventRow(record.offset or 0, clock_ms, record.timestamp_ms or 0, record.value)
            rows.setdefault(record.key, []).append(row)
    return clock_ms, rows
