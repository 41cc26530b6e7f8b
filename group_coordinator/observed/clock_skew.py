"""How far the times in a broker's log are from those of its records: an estimate from lines and records that match.

A generation's assignment is told by one line and stored by one record, both at the same moment by the clock of the same
broker. Where the two differ, the log was written in another time zone, or its times are a collector's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def estimate(records: Iterable[LogRecord], lines: Iterable[BrokerLine]) -> dict[int | None, Skew]:
    """The skew of each broker's log. Only generations count that were recorded once and told once."""
    recorded = _alone((_generation(record), record.timestamp_ms) for record in records)
    told: dict[int | None, list[tuple[Generation | None, int]]] = {}
    for line in lines:
        if isinstance(line.event, AssignmentTaken):
            place = line.event.group_id, line.event.generation_id
            told.setdefault(line.broker, []).append((place, line.time_ms))
    found = {}
    for broker, places in told.items():
        of_broker = _alone(places)
        differences = [time_ms - recorded[place] for place, time_ms in of_broker.items() if place in recorded]
        if differences:
            skew_ms = median_low(differences)
            found[broker] = Skew(
                skew_ms=skew_ms if abs(skew_ms) > TOLERANCE_MS else 0,
                pairs=len(differences),
                spread_ms=max(differences) - min(differences),
            )
    return found


def _generation(record: LogRecord) -> Generation | None:
    """The generation that a record stores; None for a record of another kind, and of an empty group."""
    if record.name != "GroupMetadata" or not record.value or not record.value["members"]:
        return None
    return record.group_id, int(str(record.value["generation"]))


def _alone(places: Iterable[tuple[Generation | None, int]]) -> Mapping[Generation, int]:
    """The times of generations that come once."""
    times: dict[Generation, list[int]] = {}
    for place, time_ms in places:
        if place is not None:
            times.setdefault(place, []).append(time_ms)
    return {place: found[0] for place, found in times.items() if len(found) == 1}
