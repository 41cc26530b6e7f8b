"""A recording as a source that is watched."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from group_coordinator.dashboard.index import Index
from group_coordinator.dashboard.sources import EndedSource
from group_coordinator.observed.evidence import BOUNDED
from group_coordinator.observed.observer import Observer
from group_coordinator.watch.telling import Telling
from group_coordinator.watch.writing import GroupHistory
from tests.observed.pieces import Piece, add


class Recorded(EndedSource):
    """A source that is given a recording, piece by piece."""

    def __init__(self, name: str, cluster: str = "") -> None:
        self.name = name
        self.cluster = cluster
        self.observer = Observer(bounds=BOUNDED)
        self.is_whole = False
        self.changes = 0
        self.lock = threading.Lock()
        self.telling: Telling | None = None

    def start(self, index: Index) -> None:
        with self.lock:
            self.telling = Telling(index, self.cluster)
            self.telling.tell(self.observer.take())

    def give(self, piece: Sequence[Piece]) -> None:
        with self.lock:
            add(self.observer, piece)
            if self.telling is not None:
                self.telling.tell(self.observer.take())
            self.changes += 1

    def histories(self) -> Iterator[GroupHistory]:
        with self.lock:
            kept = [self.observer.kept_of(group_id) for group_id in self.observer.group_ids()]
        return (GroupHistory(self.cluster, each.follow()[1]) for each in kept)
