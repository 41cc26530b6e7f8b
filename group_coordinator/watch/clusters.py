"""Clusters as sources of the dashboard: each by its offsets topic, or by polls where that is closed; one or several."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from group_coordinator.dashboard.index import Index
from group_coordinator.dashboard.sources import SourceError
from group_coordinator.dashboard.watched import WatchedSource
from group_coordinator.watch.cluster_status import Cluster, in_cluster, watched
from group_coordinator.watch.offsets_topic import OFFSETS_TOPIC
from group_coordinator.watch.polling import PollSource
from group_coordinator.watch.source import TopicRefusedError, WatchSource
from group_coordinator.watch.writing import GroupHistory, HistorySource

RETRY_S = 30.0
_NOT_STARTED = {"caught_up": False, "detail": "being reached"}


class ClusterSource:
    """One cluster. Where the offsets topic may not be read, its groups are polled."""

    is_live = True

    def __init__(self, topic: WatchSource, polls: Callable[[str], PollSource]) -> None:
        """`polls` makes a source that polls, and is told why."""
        self.name = topic.name
        self._used: WatchSource | PollSource = topic
        self._polls = polls

    def start(self, index: Index) -> None:
        """Raises SourceError."""
        try:
            self._used.start(index)
        except TopicRefusedError as refusal:
            self._used = self._polls(str(refusal))
            self._used.start(index)

    def stop(self) -> None:
        self._used.stop()

    def read_request(self, partition: int, offset: int) -> Any:
        return self._used.read_request(partition, offset)

    def progress(self) -> dict[str, Any]:
        return self._used.progress()

    @property
    def is_whole(self) -> bool:
        return self._used.is_whole

    @property
    def changes(self) -> int:
        return self._used.changes

    def histories(self) -> Iterator[GroupHistory]:
        return self._used.histories()


class ClusterSources:
    """Several clusters. One that cannot be reached hides no other: it is tried again until it answers."""

    is_live = True

    def __init__(self, make: Mapping[str, Callable[[], HistorySource]], retry_s: float = RETRY_S) -> None:
        """`make`: by the name of its cluster, what makes a source; it is made anew for each try."""
        self.name = ", ".join(make)
        self._make = make
        self._retry_s = retry_s
        self._started: dict[str, HistorySource] = {}
        self._lock = threading.Lock()
        """Of what was started."""
        self._unreachable: dict[str, str] = {}
        """Why it cannot be read."""
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, index: Index) -> None:
        """Begin to reach the clusters, in threads of their own, and return at once."""
        for cluster in self._make:
            thread = threading.Thread(target=self._reach, args=(cluster, index), name=f"watch-{cluster}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        for source in self._sources().values():
            source.stop()

    def read_request(self, partition: int, offset: int) -> Any:
        """Return None: what a broker was asked lies in no topic."""
        return None

    def progress(self) -> dict[str, Any]:
        """Return the progress of the clusters that can be reached; every page names the others at its top."""
        started = self._sources()
        progress = {
            cluster: started[cluster].progress() if cluster in started else _NOT_STARTED
            for cluster in self._make
            if cluster in started or cluster not in self._unreachable
        }
        if not progress:
            return {"caught_up": False, "detail": "no cluster can be reached"}
        details = [f"{cluster}: {state['detail']}" for cluster, state in progress.items() if state["detail"]]
        return {"caught_up": all(state["caught_up"] for state in progress.values()), "detail": "; ".join(details)}

    @property
    def is_whole(self) -> bool:
        """Whether all that can be reached have been read."""
        started = self._sources()
        is_each_tried = started.keys() | self._unreachable.keys() == self._make.keys()
        return bool(started) and is_each_tried and all(source.is_whole for source in started.values())

    @property
    def changes(self) -> int:
        started = self._sources()
        return len(started) + sum(source.changes for source in started.values())

    def histories(self) -> Iterator[GroupHistory]:
        started = self._sources()
        for cluster in sorted(started):
            yield from started[cluster].histories()

    def _sources(self) -> dict[str, HistorySource]:
        with self._lock:
            return dict(self._started)

    def _reach(self, cluster: str, index: Index) -> None:
        while not self._stopping.is_set():
            source = self._make[cluster]()
            try:
                source.start(index)
            except SourceError as problem:
                self._unreachable[cluster] = str(problem)
                doubt = f"it is not watched, and tried again every {self._retry_s:g} s. {problem}"
                index.doubt(cluster, in_cluster(cluster, (doubt,)))
                missing = WatchedSource(kind="offsets_log", name=OFFSETS_TOPIC, problem="not reached")
                index.watch(cluster, watched(Cluster(servers=source.name), (missing,), ()))
                self._stopping.wait(self._retry_s)
            else:
                with self._lock:
                    self._started[cluster] = source
                self._unreachable.pop(cluster, None)
                return
