"""A world in one process under virtual time:
a log with ticks, the real coordinator core, and members with applications.

Everything that happens is an entry of one agenda, ordered by time and then by when it was entered, so a world that is
built the same way runs the same way. Requests and answers travel as the bytes that lie on the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import NAMESPACE_OID, uuid5

from msgspec import UNSET, UnsetType

from coordinator_state import Answer, Coordinator, GroupConfig
from coordinator_state import Output as CoordinatorOutput
from coordinator_state.outputs import group_event
from group_coordinator.coordinating.members.action_queue import ActionQueue
from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import (
    Assigned,
    GaveUp,
    LogBoundsNeeded,
    Lost,
    Notification,
    PartitionCountsNeeded,
    Revoked,
    Send,
    TopicNamesNeeded,
)
from group_coordinator.coordinating.members.member import new_member
from group_coordinator.coordinating.members.requests import request_ids
from group_coordinator.local_group import names_of, topic_metadata
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.consumer_protocol import TopicPartition
from schemas.events import (
    decode_group_event,
    decode_response_event,
    decode_tick,
    encode_json,
    encode_request_event,
    encode_tick,
)
from schemas.group_metadata_events import TopicMetadata
from tests.coordinating.members.cluster_news import answers_to_expressions

N = TypeVar("N")
GROUP = "readers"
START_MS = 1_700_000_000_000
CATCH_UP = 1.1
"""How much faster than real time a clock that is behind may go."""


@dataclass(frozen=True)
class LogEntry:
    """A record of the events topic."""

    timestamp_ms: int
    key: bytes | None
    value: bytes


class Application:
    """A program with one member: it polls, processes what it owns, and keeps a diary of what it was told."""

    def __init__(
        self, world: World, name: str, config: MemberConfig, topics: Iterable[str], poll_every_ms: int
    ) -> None:
        self.world = world
        self.name = name
        self.poll_every_ms = poll_every_ms
        self.member = new_member(config, request_ids(uuid5(NAMESPACE_OID, name)))
        self.alive = True
        self.polling = True
        self.owned: dict[TopicPartition, None] = {}
        self.diary: list[Notification] = []
        self.sent: list[Send] = []
        self._wake_at_ms: int | None = None
        self.member.start(world.now_ms, topics)

    def told(self, kind: type[N]) -> list[N]:
        """The notifications of this kind, oldest first."""
        return [notification for notification in self.diary if isinstance(notification, kind)]

    def requests(self, api: str) -> list[Any]:
        """The requests of this API that the member has sent, oldest first."""
        return [send.request for send in self.sent if send.api == api]

    def poll(self) -> None:
        """One turn of the application's loop: process what the last poll gave, poll, act on what it says."""
        if self.member.may_process:
            self._process()
        self.member.poll(self.world.now_ms)
        self.act()

    def act(self) -> None:
        """Do what the member says, until it has nothing more to say; then see when it must be woken."""
        while outputs := self.member.take_outputs():
            for output in outputs:
                match output:
                    case Send():
                        self.sent.append(output)
                        self.world.carry_request(self, output)
                    case GaveUp():
                        pass
                    case _:
                        self.diary.append(output)
                        self._heed(output)
        self._set_alarm()

    def _heed(self, notification: Notification) -> None:
        match notification:
            case Assigned(partitions=partitions):
                self.owned.update(dict.fromkeys(partitions))
            case Revoked(partitions=partitions) | Lost(partitions=partitions):
                for partition in partitions:
                    del self.owned[partition]
            case PartitionCountsNeeded(topics=topics):
                self.member.partitions_changed({topic: self.world.topics.get(topic, 0) for topic in topics})
            case TopicNamesNeeded(topic_ids=topic_ids):
                self.member.topic_names(names_of(topic_ids, self.world.known_topics))
            case LogBoundsNeeded(partitions=partitions):
                self.member.log_bounds(
                    {partition: (0, self.world.log_ends.get(partition, 0)) for partition in partitions}
                )
            case _:
                pass

    def _process(self) -> None:
        for partition, position in dict(self.member.positions).items():
            if partition not in self.owned:
                continue
            for offset in range(position, self.world.log_ends.get(partition, 0)):
                self.world.processed.append((partition, offset, self.name))
                self.member.processed(partition, offset)

    def _set_alarm(self) -> None:
        deadline_ms = self.member.next_deadline_ms()
        if deadline_ms is None or deadline_ms == self._wake_at_ms:
            return
        self._wake_at_ms = deadline_ms
        self.world.at(deadline_ms, lambda: self._wake(deadline_ms))

    def _wake(self, deadline_ms: int) -> None:
        if self.alive and self._wake_at_ms == deadline_ms:
            self._wake_at_ms = None
            self.member.advance_to(self.world.now_ms)
            self.act()


class World:
    """The agenda, the events log, the coordinator that reads it, and the applications."""

    def __init__(
        self,
        topics: dict[str, int],
        *,
        config: GroupConfig | None = None,
        tick_ms: int = 500,
        batch_ms: int = 100,
        latency_ms: int = 5,
    ) -> None:
        self.now_ms = START_MS
        self.topics = dict(topics)
        self.topics_version = 1
        self.known_topics = self.topics
        """The topics whose names members can look up."""
        self.log_ends: dict[TopicPartition, int] = {}
        self.processed: list[tuple[TopicPartition, int, str]] = []
        """Every record that an application has processed, in order: partition, offset, application."""
        self.applications: dict[str, Application] = {}
        self.coordinator = Coordinator(config or GroupConfig(group_initial_rebalance_delay_ms=0))
        self.coordinator_runs = True
        self.outputs: list[CoordinatorOutput] = []
        self.request_delays: Callable[[Application, Send], tuple[int, ...]] = lambda _, __: (latency_ms,)
        """After how many milliseconds a request reaches the log, once for each; none: it is lost."""
        self.answer_delays: Callable[[Application, Answer], tuple[int, ...]] = lambda _, __: (latency_ms,)
        """The same for an answer on its way to its member."""
        self._actions = ActionQueue()
        self._log: list[LogEntry] = []
        self._next_offset = 0
        self._ticker_ms = START_MS
        self._log_clock_ms = START_MS
        self._tick_ms = tick_ms
        self._batch_ms = batch_ms
        self._senders: dict[str, Application] = {}
        self._tick()
        self._batch()

    # ----------------------------------------------------------------------------------------------------- the agenda

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        """Enter something that is to happen; what lies in the past happens now."""
        self._actions.enter(max(time_ms, self.now_ms), action)

    def run(self, duration_ms: int) -> None:
        """Let this much time pass."""
        end_ms = self.now_ms + duration_ms
        while (next_ms := self._actions.next_ms()) is not None and next_ms <= end_ms:
            self.now_ms = next_ms
            self._actions.do_due(next_ms)
        self.now_ms = end_ms

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> int:
        """Let time pass until the condition holds; returns how long it took. Fails when it never does."""
        begin_ms = self.now_ms
        while not condition():
            assert self.now_ms - begin_ms < limit_ms, f"not within {limit_ms} ms"
            self.run(10)
        return self.now_ms - begin_ms

    # ------------------------------------------------------------------------------------------------ the applications

    def start(
        self, name: str, topics: Iterable[str] = ("orders",), poll_every_ms: int = 100, **settings: Any
    ) -> Application:
        """Start an application with one member; a name may come back after it has ended."""
        config = MemberConfig(**({"group_id": GROUP, "client_id": name, "auto_offset_reset": "earliest"} | settings))
        run = sum(1 for application in self.applications if application.split("#")[0] == name)
        application = Application(self, f"{name}#{run}" if run else name, config, topics, poll_every_ms)
        self.applications[application.name] = application
        self._poll(application)
        return application

    def crash(self, application: Application) -> None:
        """It is gone without a word."""
        application.alive = False

    def close(self, application: Application, **options: Any) -> None:
        """It closes its member and ends when that is done."""
        application.member.close(self.now_ms, **options)
        application.act()
        self.run_until(lambda: application.member.is_closed)
        application.alive = False

    def owners(self) -> dict[TopicPartition, str]:
        """Who owns each partition; fails when two living applications own the same."""
        owners: dict[TopicPartition, str] = {}
        for application in self.applications.values():
            for partition in application.owned if application.alive else ():
                assert partition not in owners, f"{partition} belongs to {owners[partition]} and {application.name}"
                owners[partition] = application.name
        return owners

    def is_shared(self) -> bool:
        """Whether every partition has an owner, and nobody means to change that."""
        alive = [application for application in self.applications.values() if application.alive]
        settled = all(program.member.state == "stable" and not program.member.is_rejoining for program in alive)
        return settled and len(self.owners()) == sum(self.topics.values())

    def history(self, kind: type[N]) -> list[N]:
        """The history records of this kind, oldest first."""
        return [output for output in self.outputs if isinstance(output, kind)]

    def _poll(self, application: Application) -> None:
        if not application.alive:
            return
        if application.polling:
            application.poll()
        self.at(self.now_ms + application.poll_every_ms, lambda: self._poll(application))

    # --------------------------------------------------------------------------------------------------- the data

    def produce(self, topic: str, records: int) -> None:
        """Append this many records to every partition of a topic."""
        for partition in range(self.topics[topic]):
            key = TopicPartition(topic, partition)
            self.log_ends[key] = self.log_ends.get(key, 0) + records

    def grow(self, topic: str, partition_count: int) -> None:
        """A topic gets more partitions, or comes into being, and everybody's metadata is refreshed."""
        self.topics[topic] = partition_count
        self.topics_version += 1
        news = topic_metadata(self.topics, self.topics_version)
        for group_id in self.coordinator.groups:
            self._append(group_id.encode(), encode_json(news))
        for application in self.applications.values():
            if topic in application.member.topics_of_interest:
                application.member.partitions_changed({topic: partition_count})

    def committed(self, group_id: str = GROUP) -> dict[TopicPartition, int]:
        """The committed offsets that the coordinator holds."""
        group = self.coordinator.groups[group_id]
        return {
            TopicPartition(topic, partition): committed.offset
            for topic, partitions in group.offsets.topics.items()
            for partition, committed in partitions.items()
        }

    # ------------------------------------------------------------------------------------- the log and its coordinator

    def carry_request(self, application: Application, send: Send) -> None:
        """A request leaves its member: it reaches the log later, not at all, or more than once."""
        self._senders[send.request_id] = application
        value = encode_request_event(
            send.api,
            send.api_version,
            send.request,
            request_id=send.request_id,
            reply_partition=0,
            client_id=application.member.config.client_id,
            topic_metadata=self._brought_along(send),
        )
        entry_key = application.member.config.group_id.encode()
        for delay_ms in self.request_delays(application, send):
            self.at(self.now_ms + delay_ms, lambda: self._append(entry_key, value))

    def _brought_along(self, send: Send) -> TopicMetadata | UnsetType:
        """What is attached to requests that join a consumer group, as gateways do."""
        joins = isinstance(send.request, ConsumerGroupHeartbeatRequest) and send.request.member_epoch == JOIN_EPOCH
        return topic_metadata(self.topics, self.topics_version) if joins else UNSET

    def _append(self, key: bytes | None, value: bytes) -> None:
        self._log.append(LogEntry(self.now_ms, key, value))

    def _tick(self) -> None:
        """The ticker lives in the coordinator's driver: while that is down nothing moves time, and it never jumps."""
        if self.coordinator_runs:
            self._ticker_ms = min(self.now_ms, self._ticker_ms + int(self._tick_ms * CATCH_UP))
            self._append(None, encode_tick(self._ticker_ms))
        self.at(self.now_ms + self._tick_ms, self._tick)

    def _batch(self) -> None:
        """The coordinator handles what the log has."""
        while self.coordinator_runs and self._next_offset < len(self._log):
            self._handle(self._next_offset, self._log[self._next_offset])
            self._next_offset += 1
        for group_id, news in answers_to_expressions(self.coordinator, self.topics, self.topics_version).items():
            self._append(group_id.encode(), encode_json(news))
        self.at(self.now_ms + self._batch_ms, self._batch)

    def _handle(self, offset: int, entry: LogEntry) -> None:
        if entry.key is None:
            self._log_clock_ms = decode_tick(entry.value).clock_ms
            self._publish(self.coordinator.advance_to(self._log_clock_ms))
            return
        group_id = entry.key.decode()
        decoded = decode_group_event(group_id, entry.value)
        event = group_event(decoded, offset, self._log_clock_ms, entry.timestamp_ms)
        self._publish(self.coordinator.handle(group_id, event))

    def _publish(self, outputs: list[CoordinatorOutput]) -> None:
        self.outputs += outputs
        for output in outputs:
            if isinstance(output, Answer):
                self._carry_answer(output)

    def _carry_answer(self, answer: Answer) -> None:
        application = self._senders[answer.request_id]
        value = encode_json(answer.document())
        for delay_ms in self.answer_delays(application, answer):
            self.at(self.now_ms + delay_ms, lambda: self._deliver(application, value))

    def _deliver(self, application: Application, value: bytes) -> None:
        if application.alive:
            envelope, response = decode_response_event(value)
            application.member.receive(envelope, response, self.now_ms)
            application.act()
