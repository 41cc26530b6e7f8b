"""History that is at hand, as a source of a dashboard."""

from __future__ import annotations

from collections.abc import Iterator

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.sources import EndedSource


class ValuesSource(EndedSource):
    """Values of the history topic that are at hand, as a source."""

    def __init__(self, name: str, values: Iterator[bytes] | list[bytes] | tuple[bytes, ...]) -> None:
        self.name = name
        self._values = values

    def start(self, index: Index) -> None:
        for value in self._values:
            index.add(value)
