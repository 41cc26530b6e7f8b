"""A recording as a source that is watched."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.sources import EndedSource
from group_coordinator.watching.observed.evidence import BOUNDED
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.stored_groups import stored_generations
from group_coordinator.watching.watch.conditions import Condition, Conditions
from group_coordinator.watching.watch.index_updater import IndexUpdater
from group_coordinator.watching.watch.writing import GroupHistory
from tests.watching.observed.pieces import Piece, add


class Recorded(EndedSource):
    """A source that is given a recording, piece by piece."""

    def __init__(self, name: str, cluster: str = "") -> None:
        self.name = name
        self.cluster = cluster
        self.observer = Observer(bounds=BOUNDED)
        self.is_whole = False
        self.changes = 0
        self.lock = threading.Lock()
        self.updater: IndexUpdater | None = None

    def start(self, index: Index) -> None:
        with self.lock:
            self.updater = IndexUpdater(index, self.cluster)
            self.updater.apply(self.observer.take())

    def give(self, piece: Sequence[Piece]) -> None:
        with self.lock:
            add(self.observer, piece)
            if self.updater is not None:
                self.updater.apply(self.observer.take())
            self.changes += 1

    def conditions(self) -> Conditions:
        return {self.cluster: Condition(state="watched")}

    def histories(self) -> Iterator[GroupHistory]:
        with self.lock:
            groups = [self.observer.kept_of(group_id) for group_id in self.observer.group_ids()]
        return (GroupHistory(self.cluster, group.follow()[1], stored_generations(group.facts)) for group in groups)
