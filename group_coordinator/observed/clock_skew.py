"""How far the times in a broker's log are from those of its records: an estimate from lines and records that match.

A generation's assignment is told by one line and stored by one record, both at the same moment by the clock of the same
broker. Where the two differ, the log was written in another time zone, or its times are a collector's.
"""

from __future__ import annotations

from statistics import median_low

from msgspec import Struct

from group_coordinator.observed.offsets_log import LogRecord
from group_coordinator.recordings.broker_lines import AssignmentTaken, BrokerLine

TOLERANCE_MS = 250
"""What a busy broker needs between a record and its line."""

Generation = tuple[str, int]


class Skew(Struct, frozen=True, kw_only=True):
    """Of one broker's log."""

    skew_ms: int
    """What is to be taken from the times of its lines; 0 where they are as near as they can be."""
    pairs: int
    """From how many pairs it was estimated."""
    spread_ms: int
    """Between the pairs that differ least and most."""


class Skews:
    """The skews of all brokers' logs. Only generations count that were recorded once and told once."""

    def __init__(self) -> None:
        self._recorded: dict[Generation, int | None] = {}
        """When; None where it was more than once."""
        self._told: dict[int | None, dict[Generation, int | None]] = {}

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
        """The skew of each broker whose lines have records."""
        found = {}
        for broker, told in self._told.items():
            differences = [
                told_ms - recorded_ms
                for generation, told_ms in told.items()
                if told_ms is not None and (recorded_ms := self._recorded.get(generation)) is not None
            ]
            if differences:
                skew_ms = median_low(differences)
                found[broker] = Skew(
                    skew_ms=skew_ms if abs(skew_ms) > TOLERANCE_MS else 0,
                    pairs=len(differences),
                    spread_ms=max(differences) - min(differences),
                )
        return found


def _note(times: dict[Generation, int | None], generation: Generation, time_ms: int) -> None:
    times[generation] = time_ms if times.get(generation, time_ms) == time_ms else None


def _generation(record: LogRecord) -> Generation | None:
    """The generation that a record stores; None for a record of another kind, and of an empty group."""
    if record.name != "GroupMetadata" or not record.value or not record.value["members"]:
        return None
    return record.group_id, int(str(record.value["generation"]))
