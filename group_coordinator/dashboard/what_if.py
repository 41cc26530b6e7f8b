"""The same log under other settings is shown beside what happened.

The replay itself is the caller's; this compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct


class Change(Struct, frozen=True, kw_only=True):
    """The changed settings; None leaves one as it was."""

    session_timeout_ms: int | None = None
    """Every member's session timeout."""
    initial_delay_ms: int | None = None
    """The coordinator's `group_initial_rebalance_delay_ms`."""
    static_members: bool = False
    """Every client has its client id as its static id."""
    assignor: str | None = None
    """The assignor that all members offer."""


ReplayFunction = Callable[[str, Change], Iterable[bytes]]
"""(group id, change) -> the values of the group's history records, as they would lie on the history topic. It is asked
for `Change()`, too: how near that comes to what happened says how far the rest can be believed.

Raises ValueError, with a sentence for the user, for what cannot be replayed.
"""


def summary(page: Mapping[str, Any]) -> dict[str, Any]:
    """Return the few numbers of a group's page that are compared."""
    rebalances = page["rebalances"]
    durations_ms = sorted(rebalance["took"] for rebalance in rebalances if rebalance["took"] is not None)
    return {
        "rebalances": len(rebalances),
        "by_trigger": dict(Counter(rebalance["trigger"] for rebalance in rebalances)),
        "rebalancing_ms": sum(durations_ms),
        "median_ms": durations_ms[len(durations_ms) // 2] if durations_ms else None,
        "longest_ms": durations_ms[-1] if durations_ms else None,
        "unowned_ms": page["unowned_ms"],
        "refusals": len(page["refusals"]),
        "moves": _moves(page),
        "spread": _spread(page),
    }


def _moves(page: Mapping[str, Any]) -> int:
    """Return how often a partition moved from one member to another."""
    return sum(
        first[0] != second[0]
        for lane in page["lanes"]
        for first, second in pairwise(lane["owned"])
    )


def _spread(page: Mapping[str, Any]) -> list[int] | None:
    """The fewest and the most partitions that a member owns at the end; None: nobody owns any."""
    owners = Counter(owned[0] for lane in page["lanes"] for owned in lane["owned"] if owned[2] is None)
    idle = any(member["joined"] is not None and member["ended"] is None and number not in owners
               for number, member in enumerate(page["members"]))  # fmt: skip
    return [0 if idle else min(owners.values()), max(owners.values())] if owners else None
