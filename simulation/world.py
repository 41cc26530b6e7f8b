"""A world: processes, a network between them and the log, a ticker and a driver for each shard, and what goes wrong.

Everything that happens is an entry of one agenda, ordered by time and then by when it was entered: the same scenario
happens the same way. Requests and answers travel as the bytes that lie on the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple, Protocol

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from coordinator_state import Answer
from coordinator_state.rule_changes import names_rules
from group_coordinator.coordinating.members.action_queue import ActionQueue
from group_coordinator.coordinating.members.effects import Send
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.events import RENEWAL_AT_PRESENT, SESSION_RENEWAL, encode_json, encode_request_event, encode_tick
from schemas.group_metadata_events import TopicMetadata
from schemas.java_hash import group_partition
from schemas.messages import JoinGroupRequest, JoinGroupResponse, OffsetCommitRequest, Request
from schemas.rules_events import encode_rules
from simulation.driver import BatchFailed, Driver, Written
from simulation.log import Log, ticks_of
from simulation.process import Process
from simulation.random_streams import RandomStreams
from simulation.scenario import BadNetwork, DriverCrash, MemberPlan, ProducerPlan, RelayAway, Scenario
from simulation.scenario import Protocol as GroupProtocol
from simulation.topic_watch import ClusterTopics, TopicWatch
from streaming.clock import AppendedRecord, Renewal, SendTimes, TickClock


class Ticker:
    """Appends ticks to one partition while it is up."""

    def __init__(self, log: Log, shard: int, interval_ms: int, session_min_ms: int, ahead_max_ms: int) -> None:
        self._log = log
        self._shard = shard
        self._interval_ms = interval_ms
        self._half_session_ms = session_min_ms // 2
        self._ahead_max_ms = ahead_max_ms
        self._clock: TickClock | None = None

    def start(self, wall_ms: int, monotonic_ms: int) -> None:
        """Go on from where the log stands."""
        records = [
            record for record in self._log.partitions[self._shard]
            if record.key is not None or not names_rules(record.value)
        ]  # fmt: skip
        ticks = [clock_ms for _, clock_ms in ticks_of(records, self._ahead_max_ms)]
        if ticks:
            start_ms = max(ticks)
        elif records:
            start_ms = records[0].timestamp_ms
        else:
            start_ms = wall_ms
        self._clock = TickClock(
            start_ms,
            None if records else monotonic_ms,
            interval_ms=self._interval_ms,
            lead_ms=self._half_session_ms,
            pause_ms=self._half_session_ms,
            ahead_max_ms=self._ahead_max_ms,
            has_ticks=bool(ticks),
        )

    def stop(self) -> None:
        self._clock = None

    def handled(self, watermark_ms: int) -> None:
        if self._clock is not None:
            self._clock.handled(watermark_ms)

    def tick(self, wall_ms: int, monotonic_ms: int, timestamp_ms: int) -> None:
        """Append a tick if the clock may go on, or several of a log at rest; after a pause every session begins anew
        before it."""
        self._tick(wall_ms, monotonic_ms, timestamp_ms)
        while self._clock is not None and self._clock.is_catching_up:
            self._tick(wall_ms, monotonic_ms, timestamp_ms)

    def _tick(self, wall_ms: int, monotonic_ms: int, timestamp_ms: int) -> None:
        if self._clock is None:
            return
        if self._clock.is_unsure:
            self.start(wall_ms, monotonic_ms)
        log = self._log.partitions[self._shard]
        if self._clock.is_at_rest(monotonic_ms):
            self._clock.observe_end(len(log), monotonic_ms)
        step = self._clock.next_step(wall_ms, monotonic_ms)
        if step is None:
            return
        if step.renewal is not Renewal.NOBODY:
            at_present = step.renewal is Renewal.ALL_AT_PRESENT
            for key in dict.fromkeys(record.key for record in log if record.key is not None):
                value = RENEWAL_AT_PRESENT if at_present else SESSION_RENEWAL
                self._log.append(self._shard, timestamp_ms, key, value, monotonic_ms)
            if at_present:
                step = step._replace(tick_ms=timestamp_ms)
        self._clock.sending(step.tick_ms)
        self._log.append(self._shard, timestamp_ms, None, encode_tick(step.tick_ms), monotonic_ms)
        self._clock.acknowledge(
            step, SendTimes(wall_ms, monotonic_ms), AppendedRecord(len(log) - 1, timestamp_ms), monotonic_ms
        )


START_MS = 1_700_000_000_000
_LATENCY_MS = (2, 40)
_WATCH_INTERVAL_MS = 1_000


class Sender(Protocol):
    """Whoever gets answers."""

    name: str

    @property
    def plan(self) -> MemberPlan | ProducerPlan: ...
    def receive(self, value: bytes) -> None: ...


class TraceLine(NamedTuple):
    """One line of the trace: what a process did, and when."""

    time_ms: int
    who: str
    text: str


class World:
    """`live_through` runs it once; `log`, `written`, `processes` and `settled` say what has happened."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.random_streams = RandomStreams(scenario.seed)
        self.now_ms = START_MS
        self.topics = dict(scenario.topics)
        self.log = Log(scenario.config.shard_count)
        self.written: list[Written] = []
        self.processes: list[Process] = []
        self.settled = False
        self.wall_ahead_ms = 0
        self.broker_ahead_ms = 0
        self.broker_back_ms = 0
        self.driver_faults: list[DriverCrash] = []
        self.network_faults: dict[str, list[BadNetwork]] = {}
        self.protocols: dict[str, GroupProtocol] = {}
        """Which protocol members speak that have migrated."""
        self.subscriptions: dict[str, tuple[str, ...]] = {}
        """What members and instances have subscribed to since; a static member keeps it over a restart."""
        self.trace: list[TraceLine] = []
        self.decided: dict[str, JoinGroupResponse] = {}
        """What the leader of a group's last generation was told of its members, to share out the partitions."""
        self.ended_ms = 0
        """When the last fault is over."""
        self._actions = ActionQueue()
        self._attempts = [0] * scenario.config.shard_count
        self.senders: dict[str, Sender] = {}
        """Who has sent which request."""
        self.relay_goes_away: Callable[[RelayAway], None] = lambda fault: None
        self._waiting: list[tuple[int, bytes | None, bytes]] = []
        """What is to be appended when the broker is back."""
        session_min_ms, ahead_max_ms = scenario.config.group_min_session_timeout_ms, scenario.config.tick_ahead_bound_ms
        self.tickers = [
            Ticker(self.log, shard, scenario.tick_ms, session_min_ms, ahead_max_ms)
            for shard in range(len(self.log.partitions))
        ]
        self.drivers = [
            Driver(shard, scenario.config, records, self._write, self.tickers[shard].handled)
            for shard, records in enumerate(self.log.partitions)
        ]
        self.driver_down_until_ms = [0] * len(self.drivers)
        self.cluster_topics = ClusterTopics(tuple(scenario.topics))
        self.topic_watches = [self._topic_watch(shard) for shard in range(len(self.drivers))]

    def _topic_watch(self, shard: int) -> TopicWatch:
        dice = self.random_streams.of("topics", shard)
        return TopicWatch(
            shard, self.log, self.drivers[shard], self.written, self.cluster_topics, dice, self.topics
        )

    # ----------------------------------------------------------------------------------------------------- the agenda

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        """Enter something that is to happen; what lies in the past happens now."""
        self._actions.enter(max(time_ms, self.now_ms), action)

    def tell(self, who: str, text: str) -> None:
        self.trace.append(TraceLine(self.now_ms, who, text))

    def start_coordinator(self) -> None:
        if self.scenario.coordinator_starts_ms:
            self.tell("the coordinator", "starts for the first time")
        if self.scenario.first_rules is not None:
            self.write_rules(self.scenario.first_rules)
        for shard, ticker in enumerate(self.tickers):
            ticker.start(self.now_ms + self.wall_ahead_ms, self.now_ms)
            self._tick(shard)
            self._batch(shard)
            self.topic_watches[shard].start()
            self._watch_topics(shard)

    def write_rules(self, rules: str) -> None:
        """Write to each shard's log by which rules it goes from here on."""
        for shard in range(len(self.log.partitions)):
            self.append(shard, None, encode_rules(rules))

    def run_until(self, end_ms: int) -> None:
        while (next_ms := self._actions.next_ms()) is not None and next_ms <= end_ms:
            self.now_ms = next_ms
            self._actions.do_due(next_ms)
        self.now_ms = end_ms

    # ------------------------------------------------------------------------------------------------------- processes

    def start(self, plan: MemberPlan) -> None:
        run = sum(1 for process in self.processes if process.plan.name == plan.name)
        self.tell(plan.name, f"starts as a member of {plan.group_id}" + (" again" if run else ""))
        subscribed = self.subscriptions.get(plan.instance_id or plan.name)
        plan = replace(
            plan,
            topics=plan.topics if subscribed is None else subscribed,
            pattern=plan.pattern if subscribed is None else None,
            protocol=self.protocols.get(plan.name, plan.protocol),
        )
        process = Process(self, plan, run, len(self.drivers))
        for fault in self.network_faults.get(plan.name, ()):
            process.in_trouble(START_MS + fault.at_ms, fault.for_ms + fault.late_ms)
        self.processes.append(process)

    def running(self, name: str) -> Process | None:
        """Return the process of this name that runs."""
        return next((process for process in self.processes if process.plan.name == name and process.alive), None)

    def alive(self, group_id: str) -> list[Process]:
        return [process for process in self.processes if process.alive and process.plan.group_id == group_id]

    def shard_of(self, group_id: str) -> int:
        return group_partition(group_id, len(self.drivers))

    def produced(self) -> int:
        """Return the number of records in each partition of each topic."""
        return (self.now_ms - START_MS) // 700

    # --------------------------------------------------------------------------------------------------------- network

    def carry_request(self, process: Process, send: Send) -> None:
        """Carry a request to the log: it may arrive later, not at all, or more than once."""
        self.senders[send.request_id] = process
        down_ms = self.driver_down_until_ms[send.shard] - self.now_ms
        if send.api == "JoinGroup" and down_ms > 0:
            # The process learns late that it is a member: it sends no heartbeats yet, and for Kafka a repeated
            # JoinGroup is no sign of life.
            process.in_trouble(self.now_ms, down_ms)
        value = encode_request_event(
            send.api,
            send.api_version,
            self._with_topic_ids(send.request),
            request_id=send.request_id,
            reply_partition=0,
            client_id=process.plan.name,
            topic_metadata=self._attached(send),
        )
        key = process.plan.group_id.encode()
        for delay_ms in self._delays(process, send.api, send.request_id, "request"):
            self.at(self.now_ms + delay_ms, lambda: self.append(send.shard, key, value))

    def _with_topic_ids(self, request: Request) -> Request:
        """Fill in the topics' ids at the time of sending, as a gateway does. The request may arrive late."""
        if not isinstance(request, OffsetCommitRequest):
            return request
        topics = tuple(replace(topic, topic_id=self.cluster_topics.id_of(topic.name)) for topic in request.topics)
        return replace(request, topics=topics)

    def _attached(self, send: Send) -> TopicMetadata | UnsetType:
        """Return what a gateway tells of topics with a request: what it has read on the topics topic."""
        request = send.request
        needs_topics = isinstance(request, ConsumerGroupHeartbeatRequest | JoinGroupRequest)
        if not needs_topics or not self.scenario.has_both_protocols:
            return UNSET
        names: Iterable[str] = self.topics
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch != JOIN_EPOCH:
            names = request.subscribed_topic_names or ()
        return self.topic_watches[send.shard].told_by_gateways(names)

    def names_of(self, topic_ids: tuple[str, ...]) -> dict[str, str]:
        """Return the names of topics that exist, by id."""
        ids = {self.cluster_topics.id_of(name): name for name in self.topics}
        return {topic_id: ids[topic_id] for topic_id in topic_ids if topic_id in ids}

    def append(self, shard: int, key: bytes | None, value: bytes) -> None:
        """Append a record to the log, now or when the broker is back."""
        if self.now_ms < self.broker_back_ms:
            self._waiting.append((shard, key, value))
        else:
            self.log.append(shard, self.now_ms + self.broker_ahead_ms, key, value, self.now_ms)

    def broker_is_back(self) -> None:
        if self.now_ms >= self.broker_back_ms:
            waiting, self._waiting = self._waiting, []
            for shard, key, value in waiting:
                self.log.append(shard, self.now_ms + self.broker_ahead_ms, key, value, self.now_ms)

    def _write(self, written: Written) -> None:
        """The sink: what a batch writes stays written, and every answer goes to its process."""
        self.written.append(written)
        answer = written.output
        if not isinstance(answer, Answer):
            return
        if (
            isinstance(answer.response, JoinGroupResponse)
            and answer.response.members
            and not answer.response.skip_assignment
        ):
            self.decided[answer.group_id] = answer.response
        process = self.senders.get(answer.request_id)
        if process is None:
            return
        value = encode_json(answer.document())
        for delay_ms in self._delays(process, answer.api, answer.request_id, "answer"):
            self.at(self.now_ms + delay_ms, lambda: self._deliver(process, value))

    def _deliver(self, process: Sender, value: bytes) -> None:
        if self.now_ms < self.broker_back_ms:
            self.at(self.broker_back_ms, lambda: self._deliver(process, value))
        else:
            process.receive(value)

    def _delays(self, process: Sender, api: str, request_id: str, message: str) -> list[int]:
        """Return the delay of each arrival, in milliseconds."""
        dice = self.random_streams.of(message, process.name, request_id)
        delay_ms = dice.randint(*_LATENCY_MS)
        for trouble in self.network_faults.get(process.plan.name, ()):
            if not trouble.at_ms <= self.now_ms - START_MS < trouble.at_ms + trouble.for_ms:
                continue
            lost, doubled, late = (dice.random() * 100 for _ in range(3))
            if lost < (trouble.lose_requests if message == "request" else trouble.lose_answers):
                self.tell(process.name, f"a {message} is lost on its way")
                if api in ("JoinGroup", "SyncGroup") and isinstance(process, Process):
                    # A member that joins waits for its answer, and sends no heartbeat until it gives up and asks again.
                    process.in_trouble(self.now_ms, process.join_timeout_ms)
                return []
            if late < trouble.late:
                delay_ms += dice.randint(1, max(trouble.late_ms, 1))
            if doubled < trouble.double:
                return [delay_ms, delay_ms + dice.randint(0, 2 * _LATENCY_MS[1])]
        return [delay_ms]

    # ---------------------------------------------------------------------------------------------- tickers and drivers

    def _tick(self, shard: int) -> None:
        if self.now_ms >= self.broker_back_ms:
            self.tickers[shard].tick(self.now_ms + self.wall_ahead_ms, self.now_ms, self.now_ms + self.broker_ahead_ms)
        self.at(self.now_ms + self.scenario.tick_ms, lambda: self._tick(shard))

    def _watch_topics(self, shard: int) -> None:
        if self.now_ms >= self.broker_back_ms:
            self.topic_watches[shard].poll(self.now_ms, self.now_ms + self.broker_ahead_ms)
        self.at(self.now_ms + _WATCH_INTERVAL_MS, lambda: self._watch_topics(shard))

    def remake(self, topic: str) -> None:
        """Delete a topic and create it again with another id."""
        if self.cluster_topics.id_of(topic) is not None:
            self.tell(topic, "is deleted and made again")
            self.cluster_topics.remake(topic, self.now_ms)

    def _batch(self, shard: int) -> None:
        dice = self.batch_dice(shard)
        driver = self.drivers[shard]
        if self.now_ms >= self.broker_back_ms and self.now_ms >= self.driver_down_until_ms[shard]:
            fault = next((fault for fault in self.driver_faults if fault.shard == shard), None)
            try:
                driver.run_batch(dice, self.scenario.batch_records_max, None if fault is None else fault.step)
            except BatchFailed:
                assert fault is not None
                self._batch_failed(shard, fault)
        self.at(self.now_ms + dice.randint(*self.scenario.batch_every_ms), lambda: self._batch(shard))

    def batch_dice(self, shard: int) -> Random:
        self._attempts[shard] += 1
        return self.random_streams.of("batch", shard, self._attempts[shard])

    def _batch_failed(self, shard: int, fault: DriverCrash) -> None:
        up_ms = self.now_ms + fault.down_ms
        self.driver_faults.remove(fault)
        if fault.times > 1:
            self.driver_faults.insert(0, replace(fault, times=fault.times - 1))
        self.driver_down_until_ms[shard] = up_ms
        victim = "the query" if fault.ticker_lives else "the driver"
        self.tell(f"shard {shard}", f"{victim} dies at step {fault.step} of a batch; it is back in {fault.down_ms} ms")
        if not fault.ticker_lives:
            ticker = self.tickers[shard]
            ticker.stop()
            self.topic_watches[shard].stop()
            self.at(up_ms, lambda: ticker.start(up_ms + self.wall_ahead_ms, up_ms))
            self.at(up_ms, self.topic_watches[shard].start)
