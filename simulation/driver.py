"""The driver of one shard: cuts the log into batches as Spark does, works them as the operator does, and may fail
anywhere.

A batch is planned (its offsets and its watermark go to the checkpoint), read, worked group by group, written, and
committed with the groups' new states. One that fails is repeated from the plan with the states of the batch before;
what it had written stays written. The watermark of a batch is the last tick of the batches before it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import msgspec

from coordinator_state import (
    GroupConfig,
    GroupCoordinator,
    GroupEvent,
    Output,
    RuleChange,
    decode_group,
    encode_group,
    group_event,
)
from schemas.events import EventError, decode_group_event, decode_group_id
from schemas.ticks import read_tick
from simulation.log import Record
from streaming.log_rules import RulesScan

StateBlobs = tuple[bytes, bytes]

_encode = msgspec.msgpack.Encoder().encode


class Written(NamedTuple):
    """An output as the sink got it."""

    shard: int
    output: Output
    data: bytes


class DeadLetter(NamedTuple):
    """An event that could not be read."""

    offset: int
    reason: str


class Plan(NamedTuple):
    """The checkpoint's note about a batch before it is worked."""

    start: int
    end: int
    watermark_ms: int


class BatchFailed(Exception):
    """The batch failed at the step that was asked for."""


def encode_output(output: Output) -> bytes:
    """Return an output with all its fields, as bytes to compare."""
    return _encode((type(output).__name__, output))


class Row(NamedTuple):
    """An event of a group with its clock: what a group is handed."""

    record: Record
    clock_ms: int


def carry_clock(records: list[Record], scan: RulesScan) -> list[Row]:
    """Return all records but valid ticks and changes of rules, which `scan` takes, each with the last tick before it.
    """
    return [
        Row(record, scan.clock_ms)
        for record in records
        if record.key is not None or not scan.take(record.offset, record.value, record.timestamp_ms)
    ]


def to_event(group_id: str, row: Row) -> GroupEvent:
    """Decode a row into an event. Raises `EventError`."""
    record = row.record
    event = decode_group_event(group_id, record.value)
    return group_event(event, record.offset, row.clock_ms, record.timestamp_ms)


class Driver:
    """One shard's query. `write` is the sink; `records` gives the log; `handled` hears the watermark of each
    committed batch."""

    def __init__(
        self,
        shard: int,
        config: GroupConfig,
        records: list[Record],
        write: Callable[[Written], None],
        handled: Callable[[int], None],
    ) -> None:
        self.shard = shard
        self.config = config
        self.states: dict[str, StateBlobs] = {}
        self.dead_letters: list[DeadLetter] = []
        self.clock_ms = 0
        """The last tick of the committed batches."""
        self.batches = 0
        self.rule_changes: tuple[RuleChange, ...] = ()
        """Those that the checkpoint notes: no batch is worked that has others."""
        self._records = records
        self._write = write
        self._handled = handled
        self._timeouts: dict[str, int] = {}
        self._end = 0
        self._watermark_ms = 0
        self._plan: Plan | None = None

    @property
    def end(self) -> int:
        """Up to where the log is handled."""
        return self._end

    @property
    def is_done(self) -> bool:
        """True if all records are handled, and every timer that the ticks have reached has fired."""
        return self._plan is None and self._end == len(self._records) and self._watermark_ms == self.clock_ms

    def run_batch(self, dice: Random, records_max: int, fail_at: int | None = None, *, is_last: bool = False) -> int:
        """Work on the next batch, or again on the failed one; return its number of steps. Raises
        `BatchFailed`.

        Without new records there is no batch: timers that the last tick has reached fire with what comes next.
        `is_last`: nothing comes any more.
        """
        if self._plan is None:
            if self.is_done or (self._end == len(self._records) and not is_last):
                return 0
            end = min(len(self._records), self._end + dice.randint(1, records_max))
            self._plan = Plan(self._end, end, self.clock_ms)
        return self._work(self._plan, _Steps(fail_at), dice)

    def _work(self, plan: Plan, steps: _Steps, dice: Random) -> int:
        steps.pass_one()  # planned
        scan = RulesScan(self.config.tick_ahead_bound_ms, plan.watermark_ms)
        rows = carry_clock(self._records[plan.start : plan.end], scan)
        known = {change.offset for change in self.rule_changes}
        self.rule_changes += tuple(change for change in scan.changes if change.offset not in known)
        dice.shuffle(rows)  # after Spark's shuffle the rows of a group come in any order
        by_group: dict[bytes | None, list[Row]] = {}
        for row in rows:
            by_group.setdefault(row.record.key, []).append(row)
        states, timeouts, letters = dict(self.states), dict(self._timeouts), list(self.dead_letters)
        letters += [self._no_tick(row.record) for row in by_group.pop(None, ())]
        steps.pass_one()  # read
        for key, group_rows in by_group.items():
            group_id = decode_group_id(key)
            outputs = self._work_group(group_id, group_rows, plan.watermark_ms, states, timeouts, letters)
            self._write_all(outputs, steps)
        due_groups = [group_id for group_id, due_ms in timeouts.items() if due_ms < plan.watermark_ms]
        for group_id in due_groups:
            outputs = self._work_group(group_id, [], plan.watermark_ms, states, timeouts, letters)
            self._write_all(outputs, steps)
        steps.pass_one()  # written; the new states are not committed
        self.states, self._timeouts, self.dead_letters = states, timeouts, letters
        self._end, self.clock_ms, self._watermark_ms, self._plan = plan.end, scan.clock_ms, plan.watermark_ms, None
        self.batches += 1
        self._handled(plan.watermark_ms)
        return steps.passed

    def _no_tick(self, record: Record) -> DeadLetter:
        try:
            read_tick(record.value, record.timestamp_ms, self.config.tick_ahead_bound_ms)
        except EventError as problem:
            return DeadLetter(record.offset, problem.problem.value)
        raise AssertionError("a tick was taken for a request")

    def _write_all(self, outputs: list[Output], steps: _Steps) -> None:
        steps.pass_one()  # a group is worked, nothing of it is written
        for number, output in enumerate(outputs):
            self._write(Written(self.shard, output, encode_output(output)))
            if number == len(outputs) // 2:
                steps.pass_one()  # half of a group is written

    def _work_group(
        self,
        group_id: str,
        rows: list[Row],
        watermark_ms: int,
        states: dict[str, StateBlobs],
        timeouts: dict[str, int],
        letters: list[DeadLetter],
    ) -> list[Output]:
        """One call of the operator's function: state in, rows in the order of offsets, state out."""
        blobs = states.pop(group_id, None)
        timeouts.pop(group_id, None)
        group = None if blobs is None else decode_group(*blobs)
        coordinator = GroupCoordinator(
            group_id, self.config, partition=self.shard, group=group, rule_changes=self.rule_changes
        )
        for row in in_order(rows):
            try:
                event = to_event(group_id, row)
            except EventError as problem:
                letters.append(DeadLetter(row.record.offset, problem.problem.value))
            else:
                coordinator.handle(event)
        coordinator.advance_to(watermark_ms)
        if coordinator.group is not None:
            states[group_id] = encode_group(coordinator.group)
            deadline_ms = coordinator.next_deadline_ms()
            if deadline_ms is not None:
                # Spark fires when the watermark is beyond the timeout; a timer is due when the clock has reached it.
                timeouts[group_id] = max(deadline_ms - 1, watermark_ms, 1)
        return coordinator.take_outputs()


def in_order(rows: list[Row]) -> list[Row]:
    """Sort rows by their offsets."""
    return sorted(rows, key=lambda row: row.record.offset)


class _Steps:
    """Counts the steps of a batch, and fails at one of them."""

    def __init__(self, fail_at: int | None) -> None:
        self.passed = 0
        self._fail_at = fail_at

    def pass_one(self) -> None:
        self.passed += 1
        if self.passed - 1 == self._fail_at:
            raise BatchFailed
