"""What the dashboard and the command line compare, of a history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from group_coordinator.dashboard.documents import Documents
from group_coordinator.dashboard.index import Index
from group_coordinator.dashboard.what_if import summary


def summary_of(history: Iterable[bytes], group_id: str) -> dict[str, Any]:
    """Return the numbers that are compared."""
    index = Index()
    for value in history:
        index.add(value)
    return summary(Documents(index).group(group_id))
