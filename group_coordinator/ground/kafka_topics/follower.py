"""A thread that reads topics on and on, from their beginning or from now, and hands over what comes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaError, Message

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.ground.kafka_topics.errors import TopicReadError, explaining
from group_coordinator.ground.kafka_topics.reader import TopicReader, offset_of, partition_of

_POLL_S = 0.5
_log = logging.getLogger(__name__)


class TopicFollower:
    """Reads from `start` until `stop`, and survives every outage of Kafka. Callbacks are called in its thread."""

    def __init__(
        self,
        client_properties: Mapping[str, str],
        name: str,
        take: Callable[[list[Message]], None],
        *,
        on_caught_up: Callable[[], None] = lambda: None,
        on_failure: Callable[[TopicReadError], None] = lambda failure: None,
        on_poll: Callable[[], None] = lambda: None,
    ) -> None:
        """`take`: called with the records that have come. `on_poll`: called after each look, also when nothing has
        come.

        `on_caught_up`: called once, when all has been taken that the partitions which are read from their beginning had
        at the start. `on_failure`: called when the thread ends without having been asked to.
        """
        self.ends_at_start: Mapping[Partition, int] = {}
        """The ends that all partitions had at the start."""
        self.unread_at_start = 0
        """Offsets between the beginning and the end, then, of the partitions that are read from their beginning."""
        self.taken_of_unread = 0
        """Records among them that have been taken."""
        self.has_caught_up = False
        """True when all of them have been taken."""
        self.reader = TopicReader(client_properties, name, waits_at_the_end=True)
        self._client_properties = client_properties
        self._take = take
        self._on_caught_up = on_caught_up
        self._on_failure = on_failure
        self._on_poll = on_poll
        self._positions: dict[Partition, int] = {}
        self._behind: dict[Partition, int] = {}
        """Partitions of which not all has been taken that was there at the start -> their end then."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"read-{name}", daemon=True)

    def start(
        self,
        *,
        from_beginning: Iterable[Partition] = (),
        from_end: Iterable[Partition] = (),
        since_ms: int | None = None,
    ) -> dict[Partition, int]:
        """Fix where to read from, and begin; returns the positions. Raises TopicReadError, and then all is closed.

        `since_ms`: the partitions `from_end` are read from the first record on that has this timestamp or a later one.
        """
        try:
            with explaining(self._client_properties):
                ends = {partition: self.reader.bounds_when_led(*partition).end for partition in from_end}
                if since_ms is not None:
                    ends = {partition: self.reader.offset_since(*partition, since_ms) for partition in ends}
                logs = {partition: self.reader.bounds_when_led(*partition) for partition in from_beginning}
        except BaseException:
            self.reader.close()
            raise
        self.ends_at_start = ends | {partition: bounds.end for partition, bounds in logs.items()}
        self.unread_at_start = sum(bounds.end - bounds.begin for bounds in logs.values())
        self._behind = {partition: bounds.end for partition, bounds in logs.items() if bounds.begin < bounds.end}
        self._positions = ends | {partition: bounds.begin for partition, bounds in logs.items()}
        self.reader.assign(self._positions)
        self._thread.start()
        return self._positions

    @property
    def is_stopping(self) -> bool:
        """True if the thread was asked to end."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Stop reading; returns when the thread has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as problem:
            topics = " and ".join(dict.fromkeys(topic for topic, _ in self._positions))
            _log.exception("reading %s", topics)
            self._on_failure(TopicReadError(f"{topics} is read no more: {problem!r}."))
        finally:
            self.reader.close()

    def _follow(self) -> None:
        if not self._behind:
            self._caught_up()
        while not self._stopping.is_set():
            messages = self.reader.poll(_POLL_S)
            if messages:
                self._handle(messages)
            self._on_poll()

    def _handle(self, messages: list[Message]) -> None:
        records = []
        reached_ends = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                reached_ends.append(partition_of(message))
            else:
                _log.warning("reading %s: %s", message.topic(), error.str())
        if records:
            self._take(records)
        if self._behind:
            self._catch_up(records, reached_ends)

    def _catch_up(self, records: list[Message], reached_ends: list[Partition]) -> None:
        for message in records:
            partition = partition_of(message)
            end = self._behind.get(partition)
            if end is not None:
                self.taken_of_unread += 1
                if offset_of(message) + 1 >= end:
                    del self._behind[partition]
        for partition in reached_ends:  # compaction may have taken the last records
            self._behind.pop(partition, None)
        if not self._behind:
            self._caught_up()

    def _caught_up(self) -> None:
        self.has_caught_up = True
        self._on_caught_up()
