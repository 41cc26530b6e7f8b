"""The members of one process share a producer to the events topic, a reader of the answers, one thread and one lock.

    with MemberHost("localhost:9092") as host:
        members = [Member(host, "billing", ["orders"]) for _ in range(1000)]

The thread carries answers to the members and wakes them when they are due, so they send heartbeats while
their programs work.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, count
from types import TracebackType
from typing import Self, TypeVar
from uuid import uuid4, uuid5

from confluent_kafka import KafkaError, KafkaException, Message

from group_coordinator.coordinating.assignors import load_assignors
from group_coordinator.coordinating.members.action_queue import ActionQueue
from group_coordinator.coordinating.members.cluster import Cluster, TopicWatch
from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import (
    CommitFailed,
    Committed,
    CoordinatorUnknown,
    GaveUp,
    LogBoundsNeeded,
    Notification,
    Output,
    PartitionCountsNeeded,
    Send,
    TopicNamesNeeded,
)
from group_coordinator.coordinating.members.member import new_member
from group_coordinator.coordinating.members.member_machine import MemberMachine
from group_coordinator.coordinating.members.published_topics import PublishedTopics
from group_coordinator.coordinating.members.requests import request_ids
from group_coordinator.ground.kafka_topics.clients import new_producer
from group_coordinator.ground.kafka_topics.errors import NoSuchTopicError, TopicReadError, explaining
from group_coordinator.ground.kafka_topics.reader import TopicReader
from schemas.consumer_protocol import TopicPartition as Partition
from schemas.events import EventError, decode_response_event, encode_request_event
from schemas.shards import partitions_were_added, problem_of_ends

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)

_WAIT_MAX_S = 0.05
"""Longest wait for answers: what a program asks of its member meanwhile may have made another deadline the next."""
START_TIMEOUT_S = 30.0
_LOG_LEVEL_OF_ERRORS = "3"
"""Of syslog, as librdkafka has them."""
_START_PAUSE_S = 0.1
_SHARD_LOOKUP_INTERVAL_MS = 5_000


class HostError(RuntimeError):
    """The coordinator's topics cannot be used; the message says why."""


class HostedMember:
    """A member's state machine in the care of a host, and what it has told its program."""

    def __init__(self, host: MemberHost, machine: MemberMachine) -> None:
        self.machine = machine
        self.inbox: deque[Notification] = deque()
        self.commits_awaited: set[int] = set()
        self.commits_ended: dict[int, Committed | CommitFailed] = {}
        self.wake_at_ms: int | None = None
        self._host = host

    def run(self, action: Callable[[MemberMachine, int], None]) -> None:
        """Tell the machine something, and do what it says."""
        with self._host.changed:
            self._host.insist()
            action(self.machine, self._host.now_ms())
            self._host.act_for(self)


class MemberHost:
    """Runs the members of one process over one connection to the coordinator's topics. A context manager.

    `changed` is the lock of all machines; it is notified whenever one of them has said something to its program.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        prefix: str = "coordinator",
        client_properties: Mapping[str, str] | None = None,
    ) -> None:
        """`client_properties`: librdkafka's, for security. Raises HostError when the topics are not there."""
        # librdkafka prints warnings of what passes by itself, such as a coordinator of transactions that still loads.
        self.properties = {
            "log_level": _LOG_LEVEL_OF_ERRORS,
            **(client_properties or {}),
            "bootstrap.servers": bootstrap_servers,
        }
        self.changed = threading.Condition()
        self._namespace = uuid4()
        self._member_numbers = count()
        self._events, self._responses = f"{prefix}.events", f"{prefix}.responses"
        self._client_host = _own_address()
        self._members: list[HostedMember] = []
        self._routes: dict[bytes, HostedMember] = {}
        self._actions = ActionQueue()
        self._running, self._closed = True, False
        self._failure: BaseException | None = None
        self._next_look_at_shards_ms = 0
        self._assignors = load_assignors()
        self._cluster = Cluster(self.properties)
        self._topic_watch = TopicWatch(
            self._cluster, self.changed, self._topics_of_interest, self._pass_counts, self._later
        )
        self._producer = new_producer({"linger.ms": 5, **self.properties}, {"enable.idempotence": True})
        self._reader = TopicReader(
            self.properties, "member", timeout_s=START_TIMEOUT_S, reports_ends=False, waits_at_the_end=True
        )
        try:
            with explaining(self.properties, START_TIMEOUT_S):
                self._find_topics()
        except TopicReadError as problem:
            raise HostError(str(problem)) from None
        self._published = PublishedTopics(
            self.properties, f"{prefix}.topics", self._shard_count,
            lambda shard, key, value: self._producer.produce(f"{prefix}.progress", value, key, shard),
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="member-host", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def add(self, config: MemberConfig, topics: Iterable[str]) -> HostedMember:
        """Begin a member. Raises ValueError for settings that cannot work, HostError when topics cannot be read."""
        ids = request_ids(uuid5(self._namespace, str(next(self._member_numbers))))
        if config.group_protocol == "consumer":
            self._read_published_topics()
            self._published.expect(config.group_id, topics := list(topics), self._cluster)
            ids = chain([f"{config.client_id}-{next(ids)}"], ids)  # its own id is the first: one that tells who it is
        machine = new_member(config, ids, shard_count=self._shard_count, assignors=self._assignors)
        hosted = HostedMember(self, machine)
        with self.changed:
            self._members.append(hosted)
            self._topic_watch.at_least_every(config.metadata_max_age_ms)
            hosted.run(lambda machine, now_ms: machine.start(now_ms, topics))
        return hosted

    def remove(self, hosted: HostedMember) -> None:
        """Forget a member, which has closed or is not to say anything any more."""
        with self.changed:
            self._members.remove(hosted)
            hosted.wake_at_ms = None
            self._routes = {request_id: route for request_id, route in self._routes.items() if route is not hosted}

    def wait_for(self, condition: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Wait until it holds or the time is up. Raises HostError when nothing will happen any more."""
        with self.changed:
            self.changed.wait_for(lambda: not self._running or condition(), timeout_s)
            self.insist()

    def insist(self) -> None:
        """Raise HostError when the host has been closed, or its thread has died of an error that is not Kafka's."""
        if not self._running:
            reason = f": {self._failure}" if isinstance(self._failure, HostError) else ""
            raise HostError(f"the host of the members has ended{reason}") from self._failure

    def close(self) -> None:
        """Stop. Members that have not been closed fall silent, as in a crash."""
        with self.changed:
            if self._closed:
                return
            self._closed, self._running = True, False
            self.changed.notify_all()
        self._thread.join()
        self._producer.flush(10)
        self._reader.close()
        self._published.stop()

    # ------------------------------------------------------------------------------------------ what the members say

    def act_for(self, hosted: HostedMember) -> None:
        """Do what the member says; its program gets the rest. Call it with the lock held."""
        while outputs := hosted.machine.take_outputs():
            for output in outputs:
                self._act(hosted, output)
        self._set_timer(hosted)
        self.changed.notify_all()

    def _act(self, hosted: HostedMember, output: Output) -> None:
        match output:
            case Send():
                self._send(hosted, output)
            case GaveUp(request_id=request_id):
                self._routes.pop(request_id.encode(), None)
            case PartitionCountsNeeded(topics=topics):
                self._topic_watch.look_up(topics)
            case TopicNamesNeeded(topic_ids=topic_ids):
                hosted.machine.topic_names(self._published.names(hosted.machine.config.group_id, topic_ids))
            case LogBoundsNeeded(partitions=partitions):
                self._find_bounds(hosted, partitions)
            case CoordinatorUnknown(reason=reason):
                log.info("group %s: %s", hosted.machine.config.group_id, reason)
                self._look_at_shards()
            case Committed(commit_id=commit_id) | CommitFailed(commit_id=commit_id):
                self._commit_ended(hosted, commit_id, output)
            case _:
                hosted.inbox.append(output)

    def _send(self, hosted: HostedMember, send: Send) -> None:
        config = hosted.machine.config
        value = encode_request_event(
            send.api,
            send.api_version,
            send.request,
            request_id=send.request_id,
            reply_partition=self._reply_partition,
            client_id=config.client_id,
            client_host=self._client_host,
            topic_metadata=self._published.metadata_for(send.request),
        )
        self._routes[send.request_id.encode()] = hosted
        try:
            self._producer.produce(
                self._events, value, config.group_id.encode(), send.shard, on_delivery=_report_delivery
            )
        except (BufferError, KafkaException) as error:  # its member will give it up and ask again
            log.warning("group %s: a %s cannot be sent: %s", config.group_id, send.api, error)

    def _commit_ended(self, hosted: HostedMember, commit_id: int, ended: Committed | CommitFailed) -> None:
        if commit_id in hosted.commits_awaited:
            hosted.commits_ended[commit_id] = ended
        elif isinstance(ended, CommitFailed):
            log.warning("group %s: commit failed: %s", hosted.machine.config.group_id, ended.error_code.meaning)

    def _set_timer(self, hosted: HostedMember) -> None:
        deadline_ms = hosted.machine.next_deadline_ms()
        if deadline_ms is None or (hosted.wake_at_ms is not None and hosted.wake_at_ms <= deadline_ms):
            return
        hosted.wake_at_ms = deadline_ms
        self._actions.enter(deadline_ms, lambda: self._wake(hosted, deadline_ms))

    def _wake(self, hosted: HostedMember, deadline_ms: int) -> None:
        if hosted.wake_at_ms == deadline_ms:
            hosted.wake_at_ms = None
            hosted.machine.advance_to(self.now_ms())
            self.act_for(hosted)

    # -------------------------------------------------------------------------------------------- what the cluster says

    def _find_bounds(self, hosted: HostedMember, partitions: tuple[Partition, ...]) -> None:
        def on_found(bounds: dict[Partition, tuple[int, int]]) -> None:
            with self.changed:
                hosted.machine.log_bounds(bounds)
                self.act_for(hosted)
                missing = tuple(partition for partition in partitions if partition not in bounds)
                if missing:
                    pause_ms = hosted.machine.config.retry_backoff_max_ms
                    self._later(pause_ms, lambda: self._find_bounds(hosted, missing))

        self._cluster.log_bounds(partitions, on_found)

    def _look_at_shards(self) -> None:
        """Check that the number of shards is unchanged, once for all members."""
        now_ms = self.now_ms()
        if now_ms < self._next_look_at_shards_ms:
            return
        self._next_look_at_shards_ms = now_ms + _SHARD_LOOKUP_INTERVAL_MS
        self._cluster.partition_counts([self._events], self._insist_on_count)

    def _insist_on_count(self, counts: dict[str, int]) -> None:
        """Other shards are other groups' places: nobody would be found any more."""
        count = counts.get(self._events, 0)
        if count and count != self._shard_count:
            problem = HostError(partitions_were_added(self._events, self._shard_count, count))
            log.error("%s", problem)
            with self.changed:
                self._failure, self._running = problem, False
                self.changed.notify_all()

    def _topics_of_interest(self) -> set[str]:
        return {topic for hosted in self._members for topic in hosted.machine.topics_of_interest}

    def _pass_counts(self, counts: dict[str, int]) -> None:
        for hosted in self._members:
            machine = hosted.machine
            if known_counts := {topic: counts[topic] for topic in machine.topics_of_interest if topic in counts}:
                machine.partitions_changed(known_counts)
                self.act_for(hosted)

    # ------------------------------------------------------------------------------------------------------ the thread

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._actions.enter(self.now_ms() + delay_ms, action)

    def _run(self) -> None:
        try:
            self._run_once()
        except BaseException as error:
            with self.changed:
                self._failure, self._running = error, False
                self.changed.notify_all()
            raise

    def _run_once(self) -> None:
        while self._running:
            messages = self._reader.poll(self._wait_s())
            with self.changed:
                for message in messages:
                    self._deliver(message)
                self._actions.do_due(self.now_ms())
            self._producer.poll(0)

    def _wait_s(self) -> float:
        with self.changed:
            next_ms = self._actions.next_ms()
        if next_ms is None:
            return _WAIT_MAX_S
        return min(max(next_ms - self.now_ms(), 0) / 1_000, _WAIT_MAX_S)

    def _deliver(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            log.warning("reading %s: %s", self._responses, error)
            return
        hosted = self._routes.pop(message.key() or b"", None)
        if hosted is None:
            return  # somebody else's, or one that is not waited for any more
        try:
            envelope, response = decode_response_event(message.value() or b"")
        except EventError as problem:
            log.warning("an answer cannot be read: %s", problem)
            return
        hosted.machine.receive(envelope, response, self.now_ms())
        self.act_for(hosted)

    # ------------------------------------------------------------------------------------------------------ the start

    def _find_topics(self) -> None:
        """Fix where answers are read from before anything is asked, lest an answer comes first."""
        self._shard_count = self._partition_count(self._events)
        self._insist_on_ends()
        self._reply_partition = self._namespace.int % self._partition_count(self._responses)
        place = self._responses, self._reply_partition
        self._reader.assign({place: self._reader.bounds_when_led(*place).end})

    def _read_published_topics(self) -> None:
        try:
            self._published.start(START_TIMEOUT_S)
        except TopicReadError as problem:
            raise HostError(str(problem)) from None

    def _partition_count(self, topic: str) -> int:
        try:
            return len(self._reader.partitions(topic))
        except NoSuchTopicError:
            raise HostError(f"There is no topic {topic}: has the coordinator been started, with this prefix?") from None

    def _insist_on_ends(self) -> None:
        """Each partition must be a shard; one that is just starting may take a moment."""
        give_up_s = time.monotonic() + START_TIMEOUT_S
        while True:
            ends = [self._reader.bounds_when_led(self._events, number).end for number in range(self._shard_count)]
            problem = problem_of_ends(self._events, ends)
            if problem is None:
                return
            if time.monotonic() >= give_up_s:
                self._reader.close()
                raise HostError(problem)
            time.sleep(_START_PAUSE_S)


def _report_delivery(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        log.warning("a request did not reach the events topic: %s", error)


def _own_address() -> str:
    """This machine's address, as Java prints it."""
    try:
        return f"/{socket.gethostbyname(socket.gethostname())}"
    except OSError:
        return "/127.0.0.1"
