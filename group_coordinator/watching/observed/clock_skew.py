"""How far the times in a broker's log are from those of its records: an estimate from lines and records that match.

A generation's assignment is told by one line and stored by one record, both at the same moment by the clock of the same
broker. Where the two differ, the log was written in another time zone, or its times are a collector's.
"""

from __future__ import annotations

from statistics import median_low

from msgspec import Struct

from group_coordinator.watching.broker_logs.broker_lines import AssignmentTaken, BrokerLine
from group_coordinator.watching.observed.offsets_log import LogRecord, is_of_classic_group
from group_coordinator.watching.observed.stored_groups import is_written_again

TOLERANCE_MS = 250
"""What a busy broker needs between a record and its line."""

_GENERATIONS_MAX = 4_096
"""So many are compared, the newest."""

Generation = tuple[str, int]
Times = dict[Generation, tuple[int, bool]]
"""When each was recorded or told, and whether it was so once only: else the last time."""


_NEVER = 0, False


class Skew(Struct, frozen=True, kw_only=True):
    """It says how far the clock of one broker's log differs from that of the records."""

    skew_ms: int
    """What is to be taken from the times of its lines; 0 where they are as near as they can be."""
    pairs: int
    """From how many pairs it was estimated."""


class Skews:
    """The skews of all brokers' logs. Only generations count that were recorded once and told once."""

    def __init__(self) -> None:
        self._recorded: Times = {}
        self._told: dict[int | None, Times] = {}

    def record(self, record: LogRecord) -> None:
        """Take a record of the offsets topic."""
        generation = _generation(record)
        if generation is not None:
            _note(self._recorded, generation, record.timestamp_ms)

    def line(self, line: BrokerLine) -> None:
        """Take a line of a broker's log."""
        if isinstance(line.event, AssignmentTaken):
            generation = line.event.group_id, line.event.generation_id
            _note(self._told.setdefault(line.broker, {}), generation, line.time_ms)

    def estimate(self) -> dict[int | None, Skew]:
        """Return the skew of each broker whose lines have records."""
        estimates = {}
        _keep_newest(self._recorded)
        for broker, times in self._told.items():
            _keep_newest(times)
            differences = [
                told_ms - self._recorded[generation][0]
                for generation, (told_ms, is_single) in times.items()
                if is_single and self._recorded.get(generation, _NEVER)[1]
            ]
            if differences:
                skew_ms = median_low(differences)
                estimates[broker] = Skew(
                    skew_ms=skew_ms if abs(skew_ms) > TOLERANCE_MS else 0,
                    pairs=len(differences),
                )
        return estimates


def _note(times: Times, generation: Generation, time_ms: int) -> None:
    before_ms, is_single = times.get(generation, (time_ms, True))
    times[generation] = max(before_ms, time_ms), is_single and before_ms == time_ms
    if len(times) > 2 * _GENERATIONS_MAX:
        _keep_newest(times)


def _keep_newest(times: Times) -> None:
    """Drop the oldest. The rest follows from the generations that came, in whatever order."""
    if len(times) > _GENERATIONS_MAX:
        by_time = sorted(times, key=lambda generation: (times[generation][0], generation))
        for generation in by_time[:-_GENERATIONS_MAX]:
            del times[generation]


def _generation(record: LogRecord) -> Generation | None:
    """Return the generation that a record stores; None for a record of another kind, of an empty group, and for one
    that was written long after the assignment."""
    if not is_of_classic_group(record) or not record.value or not record.value["members"] or is_written_again(record):
        return None
    return record.group_id, int(str(record.value["generation"]))
