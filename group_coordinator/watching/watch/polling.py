"""A cluster whose offsets topic may not be read, polled through the admin API: a source of the dashboard."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from group_coordinator.ground.kafka_topics.errors import STOP_S
from group_coordinator.watching.dashboard.clusters import unqualified
from group_coordinator.watching.dashboard.end_poller import EndPoller
from group_coordinator.watching.dashboard.index import Index, decoded
from group_coordinator.watching.dashboard.sources import OfBrokers, SourceError
from group_coordinator.watching.dashboard.watched import WatchedSource
from group_coordinator.watching.history.order import sort_key
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.polled import Polls
from group_coordinator.watching.watch.cluster_status import (
    BETWEEN_POLLS,
    OFFSETS_LOG,
    Cluster,
    ends_polled,
    in_cluster,
    name_of,
    watched,
)
from group_coordinator.watching.watch.conditions import Conditions, condition_of, failure_of
from group_coordinator.watching.watch.index_updater import IndexUpdater
from group_coordinator.watching.watch.polled_groups import CLUSTER, GROUPS, Poll, answer_polls
from group_coordinator.watching.watch.separate_process import ProcessEndedError, SeparateProcess
from group_coordinator.watching.watch.writing import GroupHistory

INTERVAL_S = 5.0
_LOST = (
    "Groups are polled every {:g} s, because the offsets topic is not read ({}). "
    "Generations and epochs are counted here and are not Kafka's."
)
_GRANT = "It needs the right to describe groups: --operation Describe --group '*'."
_ABORTED = "The Kafka client was aborted, as it can be while coordinators are away; it is started again."
_log = logging.getLogger(__name__)


class PollSource(OfBrokers):
    """Asks, and changes nothing."""

    def __init__(
        self, properties: Mapping[str, str], why: str, interval_s: float = INTERVAL_S, cluster: str = ""
    ) -> None:
        """`properties` are librdkafka's. `why` the offsets topic is not read. `cluster`: where there are several."""
        self.name = name_of(cluster, properties)
        self._cluster_name = cluster
        self._properties = dict(properties)
        self._lost = _LOST.format(interval_s, why.rstrip("."))
        self._interval_s = interval_s
        self._process = SeparateProcess("watch-polls", answer_polls, self._properties)
        self._stopping = threading.Event()
        self._polled = threading.Event()
        self._problem = ""
        self._failure = ""
        """Why nothing will be asked any more."""
        self._cluster = Cluster(servers=self.name)
        self._thread: threading.Thread | None = None
        self._end_poller: EndPoller | None = None
        self._index: Index | None = None

    def start(self, index: Index) -> None:
        """Raises SourceError when the groups cannot be listed."""
        try:
            poll = self._ask(CLUSTER)
        except ProcessEndedError as problem:
            raise SourceError(f"{_ABORTED} {problem}") from problem
        if poll.problem:
            self._process.stop()
            raise SourceError(poll.problem)
        self._cluster = Cluster(servers=self.name, id=poll.cluster_id, brokers=poll.brokers)
        index.doubt(self._cluster_name, in_cluster(self._cluster_name, (self._lost,)))
        self._index = index
        self._thread = threading.Thread(target=self._run, args=(index,), name="watch-polls", daemon=True)
        self._thread.start()
        self._end_poller = EndPoller(self._properties, index, self.progress, cluster=self._cluster_name)
        self._end_poller.start()

    def stop(self) -> None:
        self._stopping.set()
        self._process.stop()
        if self._thread is not None:
            self._thread.join(STOP_S)
        if self._end_poller is not None:
            self._end_poller.stop()

    def progress(self) -> dict[str, Any]:
        problem = self._failure or self._problem
        is_known = self._polled.is_set() and not problem
        return {"caught_up": is_known, "detail": problem or ("" if is_known else "the first poll is under way")}

    def conditions(self) -> Conditions:
        condition = condition_of(caught_up=self._polled.is_set(), problem=self._problem, failure=self._failure)
        return {self._cluster_name: condition}

    @property
    def is_whole(self) -> bool:
        """Whether there was a poll."""
        return self._polled.is_set()

    @property
    def changes(self) -> int:
        """Grows with what the polls tell."""
        return 0 if self._index is None else self._index.records

    def histories(self) -> Iterator[GroupHistory]:
        """Yield what the dashboard still has of each group, in order: nothing else has what polls told."""
        cluster = self._cluster_name
        for group_id in () if self._index is None else self._index.group_ids(cluster):
            group_records = None if self._index is None else self._index.group_records(group_id)
            if group_records is not None:
                records = sorted(chain(decoded(group_records.life), decoded(group_records.commits)), key=sort_key)
                yield GroupHistory(cluster, [unqualified(cluster, record) for record in records])

    @property
    def process_id(self) -> int | None:
        """Return the id of the process that asks."""
        return self._process.process_id

    def _run(self, index: Index) -> None:
        try:
            self._poll_again_and_again(index)
        except Exception as problem:
            self._failure = failure_of(problem, self.name, _log)
            failed = WatchedSource(kind="poll", name="polls of groups", problem="failed")
            index.watch(self._cluster_name, watched(self._cluster, (failed,), ()))
            index.doubt(self._cluster_name, in_cluster(self._cluster_name, (self._failure,)))

    def _poll_again_and_again(self, index: Index) -> None:
        polls, updater = Polls(), IndexUpdater(index, self._cluster_name)
        while not self._stopping.is_set():
            begun_s = time.monotonic()
            try:
                poll = self._ask(GROUPS)
            except ProcessEndedError as problem:
                poll = Poll(problem=f"{_ABORTED} {problem}")
            if not poll.problem:
                now_ms = time.time_ns() // 1_000_000
                updater.apply(polls.take(now_ms, poll.groups, poll.unanswered))
                index.doubt(self._cluster_name, in_cluster(self._cluster_name, self._doubts(poll)))
                self._polled.set()
                self._describe(index, now_ms, len(poll.groups))
            elif not self._stopping.is_set():
                _log.warning("polling groups: %s", poll.problem)
            self._problem = poll.problem
            self._stopping.wait(self._pause_s(poll, time.monotonic() - begun_s))

    def _pause_s(self, poll: Poll, took_s: float) -> float:
        """Return how long to wait. A poll that took long leaves as much time to the brokers, unless it was waiting."""
        has_waited = poll.problem or len(poll.unanswered) > poll.refused
        return self._interval_s if has_waited else max(self._interval_s, took_s)

    def _ask(self, question: str) -> Poll:
        """Raises ProcessEndedError."""
        answer: Poll = self._process.ask(question)
        return answer

    def _doubts(self, poll: Poll) -> Iterator[str]:
        """Yield the sentences on what is not shown, and why."""
        yield self._lost
        if poll.refused:
            yield f"This client may not describe {words.count(poll.refused, 'group')}, which are left out. {_GRANT}"
        silent = len(poll.unanswered) - poll.refused
        if silent:
            yield f"The last poll had no answer about {words.count(silent, 'group')}: what is shown of them is older."
        if not poll.groups and not poll.unanswered:
            yield f"No group is shown to this client: there is none, or it may not see them. {_GRANT}"

    def _describe(self, index: Index, now_ms: int, groups: int) -> None:
        """Say what is watched, and how."""
        detail = f"{words.count(groups, 'group')}, asked every {self._interval_s:g} s"
        polled = WatchedSource(kind="poll", name="polls of groups", detail=detail, to_ms=now_ms)
        refused = OFFSETS_LOG(problem="not read")
        poller = self._end_poller
        ends = () if poller is None else (ends_polled(poller.asked_ms, poller.impossible),)
        index.watch(self._cluster_name, watched(self._cluster, (polled, refused, *ends), (BETWEEN_POLLS,)))
