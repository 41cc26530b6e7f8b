"""The history of all groups of a watched cluster, from all records and all lines at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.observed.clock_skew import Skew
from group_coordinator.watching.observed.evidence import ALL, Bounds
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.offsets_log import Entry
from group_coordinator.watching.observed.transactions import OpenTransaction
from schemas.history import History


class Observed(Struct, frozen=True, kw_only=True):
    """What came of the evidence."""

    history: list[History]
    """Group by group, in order."""
    skews: Mapping[int | None, Skew]
    """Broker id -> how far the clock of its log differs."""
    open_transactions: tuple[OpenTransaction, ...]
    """Those whose end is not in the log, the oldest first."""
    unnamed_topics: tuple[str, ...] = ()
    """The ids of topics whose names nothing tells, in hexadecimal digits."""


def observe(
    entries: Iterable[Entry], lines: Iterable[BrokerLine], topic_names: Mapping[str, str], bounds: Bounds = ALL
) -> Observed:
    """Return what records and lines tell of all groups. `entries` come by partition and offset, `lines` in any order.
    `topic_names` has the known names by topic id."""
    observer = Observer(topic_names, bounds)
    observer.add_records(entries)
    lines = list(lines)
    observer.add_lines(lines)
    history = list(observer.whole(max((line.time_ms for line in lines), default=0)))
    return Observed(
        history=history,
        skews=observer.skews,
        open_transactions=observer.open_transactions(),
        unnamed_topics=tuple(observer.unnamed_topics),
    )
