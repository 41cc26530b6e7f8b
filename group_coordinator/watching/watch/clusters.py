"""Clusters as sources of the dashboard: each by its offsets topic, or by polls where that is closed; one or several."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from group_coordinator.ground.kafka_topics.errors import STOP_S
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.sources import OfBrokers, SourceError
from group_coordinator.watching.watch.cluster_status import OFFSETS_LOG, Cluster, in_cluster, watched
from group_coordinator.watching.watch.conditions import Condition, Conditions, failure_of
from group_coordinator.watching.watch.source import TopicRefusedError, WatchSource
from group_coordinator.watching.watch.writing import GroupHistory, HistorySource

if TYPE_CHECKING:
    from group_coordinator.watching.watch.polling import PollSource

RETRY_S = 30.0
"""Between two tries to reach a cluster, or to read its offsets topic."""
_NOT_STARTED = {"caught_up": False, "detail": "being reached"}
_log = logging.getLogger(__name__)


class ClusterSource(OfBrokers):
    """One cluster. While the offsets topic may not be read, or there is none yet, its groups are polled."""

    def __init__(
        self, topic: Callable[[], WatchSource], polls: Callable[[str], PollSource], look_s: float = RETRY_S
    ) -> None:
        """`topic` makes a source that reads; `polls` one that polls, and is told why. `look_s`: how often a topic that
        was refused is tried again.
        """
        self._topic = topic
        self._polls = polls
        self._look_s = look_s
        self._used: WatchSource | PollSource = topic()
        self.name = self._used.name
        self._changes_before = 0
        """Those of the source that was used before."""
        self._lock = threading.Lock()
        """It is held while the source that is used is exchanged or stopped."""
        self._stopping = threading.Event()
        self._looking: threading.Thread | None = None

    def start(self, index: Index) -> None:
        """Raises SourceError."""
        try:
            self._used.start(index)
        except TopicRefusedError as refusal:
            self._used = self._polls(str(refusal))
            self._used.start(index)
            self._looking = threading.Thread(target=self._look, args=(index,), name="watch-topic", daemon=True)
            self._looking.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            self._used.stop()
        if self._looking is not None:
            self._looking.join(STOP_S)

    def _look(self, index: Index) -> None:
        """Try again and again to read the topic. Groups are polled until it can be read."""
        try:
            while not self._stopping.wait(self._look_s):
                topic = self._topic()
                try:
                    topic.open()
                except SourceError as problem:
                    _log.debug("the offsets topic is not read yet: %s", problem)
                    continue
                self._read_instead(topic, index)
                return
        except Exception:
            _log.exception("looking for the offsets topic of %s; its groups are still polled", self.name)

    def _read_instead(self, topic: WatchSource, index: Index) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            _log.info("the offsets topic of %s can be read now: its groups are polled no more", self.name)
            self._used.stop()
            self._changes_before = self.changes + 1
            self._used = topic
            topic.start_opened(index)

    def progress(self) -> dict[str, Any]:
        return self._used.progress()

    @property
    def is_whole(self) -> bool:
        return self._used.is_whole

    @property
    def changes(self) -> int:
        return self._changes_before + self._used.changes

    def histories(self) -> Iterator[GroupHistory]:
        return self._used.histories()

    def conditions(self) -> Conditions:
        return self._used.conditions()


class ClusterSources(OfBrokers):
    """Several clusters. One that cannot be reached hides no other: it is tried again until it answers.

    Nor does one whose watching fails by a defect. It is not tried again: what has failed once would fail again, unseen.
    """

    def __init__(self, make: Mapping[str, Callable[[], HistorySource]], retry_s: float = RETRY_S) -> None:
        """`make`: by the name of its cluster, what makes a source; it is made anew for each try."""
        self.name = ", ".join(make)
        self._make = make
        self._retry_s = retry_s
        self._started: dict[str, HistorySource] = {}
        self._lock = threading.Lock()
        """It guards what was started."""
        self._unreachable: dict[str, str] = {}
        """Why it cannot be read."""
        self._failed: dict[str, str] = {}
        """Why its start has failed."""
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
            thread.join(STOP_S)
        for source in self._sources().values():
            source.stop()

    def progress(self) -> dict[str, Any]:
        """Return the progress of the clusters that can be reached; every page names the others at its top."""
        started = self._sources()
        progress = {
            cluster: started[cluster].progress() if cluster in started else self._not_started(cluster)
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
        is_each_tried = started.keys() | self._unreachable.keys() | self._failed.keys() == self._make.keys()
        return bool(started) and is_each_tried and all(source.is_whole for source in started.values())

    @property
    def changes(self) -> int:
        started = self._sources()
        return len(started) + sum(source.changes for source in started.values())

    def histories(self) -> Iterator[GroupHistory]:
        started = self._sources()
        for cluster in sorted(started):
            yield from started[cluster].histories()

    def conditions(self) -> Conditions:
        started = self._sources()
        found: dict[str, Condition] = {}
        for cluster in self._make:
            if cluster in started:
                (found[cluster],) = started[cluster].conditions().values()
            elif cluster in self._failed:
                found[cluster] = Condition(state="failed", reason=self._failed[cluster])
            elif cluster in self._unreachable:
                found[cluster] = Condition(state="unreachable", reason=self._unreachable[cluster])
            else:
                found[cluster] = Condition(state="being_reached")
        return found

    def _not_started(self, cluster: str) -> dict[str, Any]:
        return {"caught_up": False, "detail": self._failed[cluster]} if cluster in self._failed else _NOT_STARTED

    def _sources(self) -> dict[str, HistorySource]:
        with self._lock:
            return dict(self._started)

    def _reach(self, cluster: str, index: Index) -> None:
        try:
            while not self._stopping.is_set() and not self._is_reached(cluster, index):
                self._stopping.wait(self._retry_s)
        except Exception as problem:
            self._failed[cluster] = failure_of(problem, cluster, _log)
            self._unreachable.pop(cluster, None)
            self._say_not_watched(cluster, cluster, self._failed[cluster], "failed", index)

    def _is_reached(self, cluster: str, index: Index) -> bool:
        source = self._make[cluster]()
        try:
            source.start(index)
        except SourceError as problem:
            self._unreachable[cluster] = str(problem)
            doubt = f"it is not watched, and tried again every {self._retry_s:g} s. {problem}"
            self._say_not_watched(cluster, source.name, doubt, "not reached", index)
            return False
        with self._lock:
            self._started[cluster] = source
        if self._stopping.is_set():
            source.stop()  # `stop` may not have waited for it
        self._unreachable.pop(cluster, None)
        return True

    def _say_not_watched(self, cluster: str, name: str, doubt: str, problem: str, index: Index) -> None:
        index.doubt(cluster, in_cluster(cluster, (doubt,)))
        missing = OFFSETS_LOG(problem=problem)
        index.watch(cluster, watched(Cluster(servers=name), (missing,), ()))
