"""A watched cluster as a source of the dashboard: its offsets topic, its brokers' logs, and names of topics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.described import broker_values, brokers_of, topic_names
from group_coordinator.ground.kafka_topics.errors import STOP_S, TIMEOUT_S
from group_coordinator.watching.dashboard.end_poller import EndPoller
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.readiness import broker_settings
from group_coordinator.watching.dashboard.sources import OfBrokers, SourceError
from group_coordinator.watching.dashboard.watched import WatchedSource
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.doubts import doubts
from group_coordinator.watching.observed.evidence import BOUNDED, Bounds
from group_coordinator.watching.observed.observer import GroupUpdate, Observer
from group_coordinator.watching.observed.offsets_log import FetchedRecords
from group_coordinator.watching.observed.stored_groups import stored_generations
from group_coordinator.watching.observed.transactions import OpenTransaction
from group_coordinator.watching.watch.cluster_status import (
    OFFSETS_LOG,
    Cluster,
    ends_polled,
    in_cluster,
    name_of,
    not_known,
    of_logs,
    watched,
)
from group_coordinator.watching.watch.conditions import Conditions, condition_of, failure_of
from group_coordinator.watching.watch.following_logs import FollowedLogs
from group_coordinator.watching.watch.index_updater import IndexUpdater
from group_coordinator.watching.watch.kept_state import KeptState
from group_coordinator.watching.watch.name_questions import NameQuestions
from group_coordinator.watching.watch.offsets_topic import (
    OffsetsTopicError,
    OffsetsTopicReader,
    OffsetsTopicRefusedError,
)
from group_coordinator.watching.watch.share_offsets import ShareOffsets
from group_coordinator.watching.watch.writing import GroupHistory
from schemas.kafka.record_batches import RawRecord

_POLL_S = 0.2
_FIRST_POLL_S = 2.0
_RETRY_S = 5.0
_READING_SHARE = 3.0
"""Seconds left for reading per second of updating the index, until all is read that was there at the start."""
_LIVE_READING_SHARE = 0.25
"""Then each look at the topic brings what has come since, and groups that churn are shown soon."""
_UPDATE_INTERVAL_S = 0.5
_UPDATE_MAX_S = 0.5
"""Groups that cannot be updated in so long are updated after the next look at the topic."""
_WAITING_MAX = 20_000
"""So many groups may wait for that; then they are updated before more is read."""
_HANGS_MS = 60_000
"""A transaction that has been open for so long is a finding. (Clients' default for one is a minute.)"""
_log = logging.getLogger(__name__)


class TopicRefusedError(SourceError):
    """The offsets topic may not be read, or is not shown to this client."""


class WatchSource(OfBrokers):
    """Reads as no member of any group, commits nothing and creates nothing. One thread reads, two more ask."""

    def __init__(
        self,
        properties: Mapping[str, str],
        broker_logs: Sequence[str] = (),
        *,
        time_zone: tzinfo = UTC,
        follow: bool = False,
        bounds: Bounds = BOUNDED,
        state: Path | None = None,
        cluster: str = "",
    ) -> None:
        """`properties` are librdkafka's. `broker_logs`: names and patterns. `follow`: they are read as they grow.
        `state`: a directory, where what is known is kept over restarts. `cluster`: its name, where there are several.
        """
        self.name = name_of(cluster, properties)
        self._cluster_name = cluster
        self._properties = dict(properties)
        self._bounds = bounds
        self._observer, self._lock = Observer(bounds=bounds), threading.Lock()
        self._state_directory = state
        self._state: KeptState | None = None
        self._state_problem: str | None = None
        self._logs = FollowedLogs(broker_logs, time_zone)
        self._follow = follow
        self._stopping = threading.Event()
        self._caught_up, self._shown = threading.Event(), threading.Event()
        """All that was in the topic at the start has been read, and all of it is in the index."""
        self._cluster = Cluster(servers=self.name)
        self._logs_read = threading.Event()
        """All that was in brokers' logs at the start has been read."""
        self.changes = 0
        """Grows with what is read."""
        self._names: Mapping[str, str] = {}
        self._names_told: Mapping[str, str] = self._names
        """Those that the observer has."""
        self._names_asked, self._questions = threading.Event(), NameQuestions()
        self._broker_values: Mapping[str, str] = {}
        self._ends: dict[int, int] = {}
        """Partition -> its end at the start."""
        self._to_read = self._read = 0
        self._last_ms: int | None = None
        """The latest time of a record of the topic."""
        self._looked_ms: int | None = None
        """When the topic was last fetched."""
        self._records = FetchedRecords()
        self._problem = self._failure = ""
        """Why nothing is read at present, and why nothing will be read any more."""
        self._opened: tuple[OffsetsTopicReader, Mapping[int, list[RawRecord]]] | None = None
        self._threads: list[threading.Thread] = []
        self._end_poller: EndPoller | None = None

    # -------------------------------------------------------------------------------------------------- as a source

    def start(self, index: Index) -> None:
        """Raises SourceError when the topic cannot be read."""
        self.open()
        self.start_opened(index)

    def open(self) -> None:
        """Raises SourceError when the topic cannot be read."""
        reader: OffsetsTopicReader | None = None
        try:
            reader = OffsetsTopicReader(self._properties)
            bounds = reader.bounds()
            positions = self._positions(bounds)
            reader.assign(positions)
            first = reader.poll(_FIRST_POLL_S)  # it shows whether the topic may be read
        except (OffsetsTopicError, KafkaException, OSError) as problem:
            if reader is not None:
                reader.close()
            if isinstance(problem, OffsetsTopicRefusedError):
                raise TopicRefusedError(str(problem)) from problem
            raise SourceError(str(problem)) from problem
        self._ends = {number: end for number, (_, end) in bounds.items() if positions[number] < end}
        self._to_read = sum(end - positions[number] for number, (_, end) in bounds.items())
        self._opened = reader, first

    def start_opened(self, index: Index) -> None:
        """Begin to read what was opened."""
        assert self._opened is not None
        self._threads = [
            threading.Thread(target=self._run, args=(*self._opened, index), name="watch-offsets", daemon=True),
            threading.Thread(target=self._run_names, args=(index,), name="watch-names", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self._end_poller = EndPoller(
            self._properties, index, self.progress, cluster=self._cluster_name,
            share_offsets=ShareOffsets(self._properties),
        )  # fmt: skip
        self._end_poller.start()

    def stop(self) -> None:
        self._stopping.set()
        self._questions.wake()
        for thread, join_s in zip(self._threads, (None, STOP_S), strict=False):
            thread.join(join_s)  # the one that reads also keeps what is known
        if self._end_poller is not None:
            self._end_poller.stop()

    def progress(self) -> dict[str, Any]:
        if self._failure or self._problem:
            return {"caught_up": False, "detail": self._failure or self._problem}
        if self._shown.is_set():
            return {"caught_up": True, "detail": ""}
        read = f"{self._read:,} of {self._to_read:,} records of the offsets topic read"
        if self._caught_up.is_set():
            read = f"all records of the offsets topic read, groups that wait to be shown: {self._observer.waiting:,}"
        return {"caught_up": False, "detail": read}

    def conditions(self) -> Conditions:
        condition = condition_of(caught_up=self._shown.is_set(), problem=self._problem, failure=self._failure)
        return {self._cluster_name: condition}

    @property
    def is_whole(self) -> bool:
        """Whether all that was there at the start has been read."""
        is_named = self._names_asked.is_set() and self._names is self._names_told
        return self._caught_up.is_set() and self._logs_read.is_set() and is_named

    def histories(self) -> Iterator[GroupHistory]:
        """Yield the history of each group as it follows from what is kept, in the order of groups. For any thread."""
        with self._lock:
            group_ids = self._observer.group_ids()
        for group_id in group_ids:
            with self._lock:
                kept_group = self._observer.kept_of(group_id)
            yield GroupHistory(self._cluster_name, kept_group.follow()[1], stored_generations(kept_group.facts))

    # -------------------------------------------------------------------------------------------------------- inside

    def _positions(self, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Where to read from: the beginning, or where the watcher before ended. Raises KafkaException, OSError."""
        if self._state_directory is not None:
            admin = new_admin_client(self._properties)
            self._state = KeptState(self._state_directory, str(admin.list_topics(timeout=TIMEOUT_S).cluster_id))
            self._state_problem = self._state.restore(self._observer)
        kept_offsets = self._observer.next_offsets()
        if any(kept_offsets.get(number, 0) > end for number, (_, end) in bounds.items()):
            self._observer, kept_offsets = Observer(bounds=self._bounds), {}
            self._state_problem = "What was kept is not used: the offsets topic is another one than it was."
        return {number: max(begin, kept_offsets.get(number, begin)) for number, (begin, _) in bounds.items()}

    def _save(self) -> None:
        if self._state is None:
            return
        try:
            self._state.save(self._observer, self.changes)
            self._state_problem = None
        except OSError as problem:
            self._state_problem = f"What is known cannot be kept: {problem}"

    def _run(self, reader: OffsetsTopicReader, first: Mapping[int, list[RawRecord]], index: Index) -> None:
        try:
            with reader:
                self._take(first)
                self._follow_all(reader, index)
        except Exception as problem:
            self._fail(problem, index)

    def _run_names(self, index: Index) -> None:
        try:
            self._ask_names()
        except Exception as problem:
            self._fail(problem, index)

    def _fail(self, problem: Exception, index: Index) -> None:
        offsets_log = OFFSETS_LOG(to_ms=self._looked_ms, last_ms=self._last_ms, problem="failed")
        with self._lock:
            self._failure = failure_of(problem, self.name, _log)
            self._stopping.set()
            self._questions.wake()
            index.watch(self._cluster_name, watched(self._cluster, (offsets_log,), ()))
            index.doubt(self._cluster_name, in_cluster(self._cluster_name, (self._failure,)))

    def _follow_all(self, reader: OffsetsTopicReader, index: Index) -> None:
        updater = IndexUpdater(index, self._cluster_name)
        update_at_s = 0.0
        while not self._stopping.is_set():
            self._read_topic(reader)
            with self._lock:
                self._name_topics()
                self._read_logs()
                begun_s = time.monotonic()
                if begun_s >= update_at_s or self._observer.waiting > _WAITING_MAX:
                    self._observer.want(updater.asked())
                    updater.apply(self._group_updates(is_live=self._shown.is_set()))
                    if self._caught_up.is_set() and not self._stopping.is_set():
                        self._shown.set()
                    self._describe(index, reader)
                    share = _LIVE_READING_SHARE if self._shown.is_set() else _READING_SHARE
                    update_at_s = begun_s + max(_UPDATE_INTERVAL_S, (time.monotonic() - begun_s) * (1 + share))
                if self._state is not None and self._state.is_due:
                    self._save()
        with self._lock:
            self._save()

    def _describe(self, index: Index, reader: OffsetsTopicReader) -> None:
        """Say what is watched, how, and why it may not be all. A failure that was said stays."""
        if self._failure:
            return
        sources = tuple(self._sources())
        index.watch(self._cluster_name, watched(self._cluster, sources, not_known(sources, follow=self._follow)))
        index.broker_settings[self._cluster_name] = broker_settings(self._broker_values, "brokers")
        index.doubt(self._cluster_name, in_cluster(self._cluster_name, self._doubts(reader)))

    def _name_topics(self) -> None:
        names = self._names
        self._observer.name_topics(self._logs.topic_names())
        self._questions.want(self._observer.unnamed_topics)
        if names is not self._names_told:
            self._observer.name_topics(names)
            self._names_told = names
            self.changes += 1

    def _read_logs(self) -> None:
        if self._follow or not self._logs_read.is_set():
            self._logs.of_cluster = self._cluster.id or None
            lines = self._logs.look()
            self._observer.add_lines(lines)
            self.changes += bool(lines)
            if self._logs.are_read:
                self._logs_read.set()

    def _group_updates(self, *, is_live: bool) -> Iterator[GroupUpdate]:
        """What is new. `is_live`: all is told that was there at the start; then as much as a short time allows."""
        give_up_s = time.monotonic() + _UPDATE_MAX_S
        for update in self._observer.take():
            yield update
            is_late = is_live and self._observer.waiting <= _WAITING_MAX and time.monotonic() > give_up_s
            if is_late or self._stopping.is_set():
                return

    def _read_topic(self, reader: OffsetsTopicReader) -> None:
        try:
            fetched = reader.poll(_POLL_S)
        except OffsetsTopicError as problem:
            _log.warning("%s", problem)
            self._problem = str(problem)
            self._stopping.wait(_RETRY_S)
            return
        self._problem = ""
        self._looked_ms = time.time_ns() // 1_000_000
        with self._lock:
            self._take(fetched)
        if not self._caught_up.is_set():
            nexts = reader.next_offsets
            if all(nexts.get(number, 0) >= end for number, end in self._ends.items()):
                self._caught_up.set()

    def _take(self, fetched: Mapping[int, list[RawRecord]]) -> None:
        for number, records in fetched.items():
            if self._stopping.is_set():
                return  # a partition that is not taken is read again
            self._observer.add_records(self._records.entries(number, records))
            self._read += len(records)
            if records:
                self._last_ms = max(self._last_ms or 0, *(record.timestamp_ms for record in records))
        self.changes += bool(fetched)

    def _sources(self) -> Iterator[WatchedSource]:
        """Yield the sources that are read, and how far each is."""
        caught_up = self._caught_up.is_set()
        where = words.count(len(self._observer.next_offsets()), "partition")
        read = words.count(self._read, "record") + ("" if caught_up else f" of {self._to_read:,} so far")
        yield OFFSETS_LOG(
            detail=f"{read}, in {where}",
            to_ms=self._looked_ms if caught_up else self._last_ms,
            last_ms=self._last_ms,
            problem=self._problem,
        )
        yield from of_logs(self._logs.files(), self._cluster, self._observer.skews)
        if self._end_poller is not None:
            yield ends_polled(self._end_poller.asked_ms, self._end_poller.impossible)

    def _doubts(self, reader: OffsetsTopicReader) -> Iterator[str]:
        """Yield sentences on why the pages may not show all."""
        if self._state_problem is not None:
            yield self._state_problem
        yield from self._records.doubts()
        if reader.unread:
            yield f"{reader.unread:,} batches are in a format older than Kafka 0.11: they are left out."
        yield from self._logs.foreign.values()
        for name, problem in self._logs.problems.items():
            yield f"{name} is not read: {problem}"
        transactions = [transaction for transaction in self._observer.open_transactions() if self._hangs(transaction)]
        yield from doubts(self._observer.skews, transactions, self._logs.left_out, UTC)

    def _hangs(self, transaction: OpenTransaction) -> bool:
        return time.time_ns() // 1_000_000 - transaction.since_ms > _HANGS_MS

    def _ask_names(self) -> None:
        """Ask for the brokers and their settings, and for the names of topics."""
        admin = new_admin_client(self._properties)
        while not self._stopping.is_set():
            self._questions.begin()
            begun_s = time.monotonic()
            try:
                metadata = admin.list_topics(timeout=TIMEOUT_S)
                self._cluster = Cluster(servers=self.name, id=metadata.cluster_id or "", brokers=brokers_of(metadata))
                self._broker_values = broker_values(admin, metadata) or self._broker_values
                if (names := topic_names(admin, metadata)) != self._names:
                    self._names = names
            except KafkaException as problem:
                _log.debug("names of topics: %s", problem)
            self._names_asked.set()
            self._questions.wait(time.monotonic() - begun_s, self._stopping)
