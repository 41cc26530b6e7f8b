"""Each type of record has a meaning for a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from group_coordinator.watching.history.view import HistoryView
from schemas.history import HistoryRecord


class Meaning(NamedTuple):
    """The meaning of one type of record."""

    tell: Callable[[HistoryView, Any], None]
    """Says it to a view. The record is of the type that this is the meaning of."""
    state: str | Callable[[Any], str] | None = None
    """The state that the group is in from then on, or what says it of a record; None: the record does not change it."""
    may_cause: bool | Callable[[Any], bool] = False
    """The record may lead to a rebalance, or what says whether it may."""
    is_of_life: bool = True
    """The record belongs to a life of the group. Offsets and refusals also come where there is no group."""


def nothing_more(view: HistoryView, record: HistoryRecord) -> None:
    """Return nothing: the other fields of the meaning say it all."""
