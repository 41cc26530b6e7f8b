"""A verdict on a group, and its kinds."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

VerdictKind = Literal[
    "stuck", "losing", "stalled", "flapping", "storming", "skipped", "rewound", "uneven", "expiring", "empty_with_lag",
    "deploying", "rebalancing", "stable", "empty", "unknown", "dead",
]
"""The worst first: the order in which groups are listed."""
Severity = Literal[0, 1, 2, 3]
"""3: somebody should look now. 2: somebody should look. 1: it passes. 0: all is well."""
SEVERITY: dict[VerdictKind, Severity] = {
    "stuck": 3,
    "losing": 3,
    "stalled": 3,
    "flapping": 3,
    "storming": 3,
    "skipped": 2,
    "rewound": 2,
    "uneven": 2,
    "expiring": 2,
    "empty_with_lag": 2,
    "deploying": 1,
    "rebalancing": 1,
    "stable": 0,
    "empty": 0,
    "unknown": 1,
    "dead": 0,
}
"""3: somebody should look now. 2: somebody should look. 1: it passes. 0: all is well."""
IN_TROUBLE = 2
"""From this severity on."""


class Verdict(Struct, frozen=True, kw_only=True):
    """The judgement of a group."""

    kind: VerdictKind
    reason: str
    """A sentence, without the group's name; no word of how long, where that would change by the minute."""
    who: str | None = None
    """The member (or client) that it is about."""
    holds_until_ms: int | None = None
    """When time alone may change it; None: only a record can."""
