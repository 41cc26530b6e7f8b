"""What the dashboard and the command line compare, of a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.group_page import GroupOverTime
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.what_if import summary


class Handover(NamedTuple):
    """A partition that got an owner after another one, while the group had members."""

    protocol: str
    """Of the group at that time."""
    moved: bool
    """It has another owner than before."""
    without_owner_ms: int


def page_of(history: Iterable[bytes], group_id: str) -> GroupOverTime:
    """Return the data of the group's page."""
    index = Index()
    for value in history:
        index.add(value)
    return Documents(index).group(group_id)


def summary_of(history: Iterable[bytes], group_id: str) -> dict[str, Any]:
    """Return the numbers that are compared."""
    return summary(page_of(history, group_id))


def handovers(history: Iterable[bytes], group_id: str, begins_as: str) -> Iterator[Handover]:
    """Yield all handovers. `begins_as`: the group's first protocol."""
    page = page_of(history, group_id)
    conversions = (page["epochs"] or {}).get("conversions", ())
    for lane in page["lanes"]:
        gaps = [gap[:2] for gap in lane["gaps"] if gap[2] == "empty"]
        for before, after in pairwise(lane["owned"]):
            if any(before[2] <= from_ms < after[1] for from_ms, _ in gaps):
                continue
            protocol = ([begins_as] + [to for at_ms, to, *_ in conversions if at_ms <= after[1]])[-1]
            yield Handover(protocol, before[0] != after[0], after[1] - before[2])
