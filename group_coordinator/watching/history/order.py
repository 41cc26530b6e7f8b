"""The order of history, and what in it is a repetition: the topic's writer is at least once."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeVar

from schemas.history import HistoryRecord

Place = tuple[int, int]
"""(epoch, seq): it grows from record to record of a group on one partition of the events topic."""

NOWHERE: Place = (-1, -1)
"""Before every place."""

Key = TypeVar("Key")


def take_place(last: MutableMapping[Key, Place], key: Key, place: Place) -> bool:
    """Return whether a record at this place is new for this key; if so, it is the last one from now on."""
    if place <= last.get(key, NOWHERE):
        return False
    last[key] = place
    return True


def sort_key(record: HistoryRecord) -> tuple[int, int, int]:
    """Return the key by which the records of a group are sorted."""
    return record.cause.partition, record.epoch, record.seq
