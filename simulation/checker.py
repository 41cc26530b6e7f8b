"""The checker handles a log once, request by request, and checks everything after every step.

The coordinator's outputs are a function of the log, so the checker may run after the world has ended: it sees each step
as it happened. The drivers' outputs, with their batches and crashes, are compared with its own at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from coordinator_state import (
    ClassicGroup,
    Group,
    GroupConfig,
    GroupCoordinator,
    GroupEvent,
    Output,
    RenewalEvent,
    RequestEvent,
    RuleChange,
    TopicsDeletedEvent,
    classic_group,
)
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.kafka_versions import OF_OLD_LOGS
from coordinator_state.no_group import NoGroup
from coordinator_state.outputs import MetadataEvent
from coordinator_state.rule_changes import rules_in
from schemas.consumer_group_history import GroupConverted
from schemas.events import DeletedTopic, EventError, decode_group_id
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.history import MemberExpired
from schemas.ticks import read_tick
from simulation.driver import DeadLetter, Row, to_event
from simulation.log import Log, Record


def existing(group: Group | None) -> Group | None:
    """Return a group that is there: of one that is not, its settings may be kept."""
    return None if group is None or isinstance(group.body, NoGroup) else group


def classic_of(group: Group | None) -> ClassicGroup | None:
    """Return the part of the group that classic groups have; None for another group."""
    body = None if group is None else group.body
    return body if isinstance(body, ClassicGroup) else None


def consumer_of(group: Group | None) -> ConsumerGroup | None:
    """Return the part of the group that consumer groups have; None for another group."""
    body = None if group is None else group.body
    return body if isinstance(body, ConsumerGroup) else None


class Violation(NamedTuple):
    """Something that must hold does not."""

    rule: str
    message: str
    group_id: str
    timestamp_ms: int
    """Append time of the record at which it was seen."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


class Facts(NamedTuple):
    """A group before a step."""

    epoch: int
    state: str
    generation_id: int
    members: dict[str, str | None]
    """Member id -> group instance id."""
    is_consumer: bool = False
    """It was a consumer group."""


class Step(NamedTuple):
    """One thing that happened to one group: a request, another event, or a tick that let timers fire."""

    group_id: str
    clock_ms: int
    event: RequestEvent | None
    """None: a tick, or another event."""
    before: Facts | None
    group: Group | None
    """Afterwards."""
    outputs: list[Output]
    renewed: bool = False
    """Its sessions begin anew."""
    gone: tuple[DeletedTopic, ...] = ()
    """The group learns that these topics are gone."""
    moved_ms: int = 0
    """By so much the group's time was moved on, and all that it counts from with it."""
    told: TopicMetadata | RegexesResolved | GroupConfiguration | None = None
    """The group is told this."""
    rules: str = OF_OLD_LOGS
    """The last ones that the log has named before it."""

    @property
    def classic(self) -> ClassicGroup | None:
        """The part of the group that classic groups have; None for another group."""
        return classic_of(self.group)

    @property
    def consumer(self) -> ConsumerGroup | None:
        """The part of the group that consumer groups have; None for another group."""
        return consumer_of(self.group)

    @property
    def is_classic(self) -> bool:
        """Whether the group was a classic one all the time, or was not there."""
        was_consumer = self.before is not None and self.before.is_consumer
        became_other = any(isinstance(output, GroupConverted) for output in self.outputs)
        return not was_consumer and self.consumer is None and not became_other


class CoreBroken(Exception):
    """The core raised an exception."""


class Rule:
    """Something that must always hold of one group. One object watches one group from the beginning."""

    def __init__(self, config: GroupConfig) -> None:
        self.config = config

    def check(self, step: Step) -> str | None:
        """Return what is wrong after this step; None if nothing is."""
        raise NotImplementedError


class CheckResult:
    """The checker's findings about a log."""

    def __init__(self) -> None:
        self.violations: dict[str, Violation] = {}
        """The first violation of each rule, in the order in which they were seen."""
        self.outputs: dict[tuple[int, str], list[Output]] = {}
        """By shard and group: what another shard says of a group (that it is not there) is no part of its life."""
        self.expiries: list[tuple[int, MemberExpired]] = []
        """With the append times of the records at which they were seen."""
        self.dead_letters: list[list[DeadLetter]] = []
        self.steps: list[tuple[int, Step]] = []
        """With their append times; kept when the run is to be described."""

    def report(self, violation: Violation) -> None:
        self.violations.setdefault(violation.rule, violation)


class _Watched(NamedTuple):
    coordinator: GroupCoordinator
    rules: list[Rule]


def check_log(
    log: Log, config: GroupConfig, rules: Iterable[type[Rule]], result: CheckResult, *, keep_steps: bool = False
) -> None:
    """Handle every partition of a log, to its last tick, and judge every step. Ends where the core breaks."""
    kinds = tuple(rules)
    for shard, records in enumerate(log.partitions):
        try:
            _Shard(shard, config, kinds, result, keep_steps).handle(records)
        except CoreBroken:
            return


class _Shard:
    """One partition of the log."""

    def __init__(
        self, shard: int, config: GroupConfig, rules: tuple[type[Rule], ...], result: CheckResult, keep_steps: bool
    ) -> None:
        self._shard = shard
        self._config = config
        self._rules = rules
        self._result = result
        self._keep_steps = keep_steps
        self._groups: dict[str, _Watched] = {}
        self._clock_ms = 0
        self._timestamp_ms = self._time_ms = self._latest_ms = 0
        self._dead_letters: list[DeadLetter] = []
        self._changes: tuple[RuleChange, ...] = ()
        result.dead_letters.append(self._dead_letters)

    def handle(self, records: list[Record]) -> None:
        for record in records:
            self._timestamp_ms, self._time_ms = record.timestamp_ms, record.time_ms
            self._latest_ms = max(self._latest_ms, record.timestamp_ms)
            if record.key is None:
                self._tick(record)
            else:
                self._event(decode_group_id(record.key), record)

    def _tick(self, record: Record) -> None:
        try:
            tick_ms = read_tick(record.value, record.timestamp_ms, self._config.tick_ahead_bound_ms)
        except EventError as problem:
            if (rules := rules_in(record.value)) is not None:
                self._change_rules(RuleChange(record.offset, self._clock_ms, rules))
            else:
                self._dead_letters.append(DeadLetter(record.offset, problem.problem.value))
            return
        self._clock_ms = max(self._clock_ms, tick_ms)
        ahead_ms = self._clock_ms - self._latest_ms
        if ahead_ms > self._config.group_min_session_timeout_ms // 2:
            self._accuse("TheFutureIsFar", f"the clock is {ahead_ms} ms ahead of all that the broker has timed", "")
        for group_id, watched in self._groups.items():
            self._step(group_id, watched, None)

    def _change_rules(self, change: RuleChange) -> None:
        self._changes = (*self._changes, change)
        for coordinator, _ in self._groups.values():
            coordinator.change_rules(change)

    def _event(self, group_id: str, record: Record) -> None:
        try:
            event = to_event(group_id, Row(record, self._clock_ms))
        except EventError as problem:
            self._dead_letters.append(DeadLetter(record.offset, problem.problem.value))
            return
        watched = self._groups.get(group_id)
        if watched is None:
            watched = self._groups[group_id] = _Watched(
                GroupCoordinator(group_id, self._config, partition=self._shard, rule_changes=self._changes),
                [rule(self._config) for rule in self._rules],
            )
        self._step(group_id, watched, event)

    def _step(self, group_id: str, watched: _Watched, event: GroupEvent | None) -> None:
        coordinator, rules = watched
        before = facts(existing(coordinator.group))
        # Before the first tick a group's time stands where its first event began it.
        group = existing(coordinator.group)
        clock_ms = self._clock_ms or (group.now_ms if group is not None else self._timestamp_ms)
        try:
            coordinator.advance_to(self._clock_ms)
            moved_ms = moved_by(event, existing(coordinator.group))
            if event is not None:
                coordinator.handle(event)
        except Exception as error:
            self._accuse("NothingBreaks", f"the core raised {type(error).__name__}: {error}", group_id)
            raise CoreBroken from error
        outputs = coordinator.take_outputs()
        self._result.outputs.setdefault((self._shard, group_id), []).extend(outputs)
        expiries = [output for output in outputs if isinstance(output, MemberExpired)]
        self._result.expiries += [(self._time_ms, expiry) for expiry in expiries]
        request = event if isinstance(event, RequestEvent) else None
        step = Step(
            group_id,
            clock_ms,
            request,
            before,
            existing(coordinator.group),
            outputs,
            renewed=isinstance(event, RenewalEvent),
            gone=event.topics if isinstance(event, TopicsDeletedEvent) else (),
            moved_ms=moved_ms,
            told=event.fact if isinstance(event, MetadataEvent) else None,
            rules=self._changes[-1].rules if self._changes else self._config.kafka_rules,
        )
        if self._keep_steps and (event is not None or outputs):
            self._result.steps.append((self._time_ms, step))
        for rule in rules:
            message = rule.check(step)
            if message is not None:
                self._accuse(type(rule).__name__, message, group_id)

    def _accuse(self, rule: str, message: str, group_id: str) -> None:
        self._result.report(Violation(rule, message, group_id, self._time_ms))


def moved_by(event: GroupEvent | None, group: Group | None) -> int:
    """Return how far an event moves the group's time on, after all timers that were due before it."""
    if group is None or not isinstance(event, RenewalEvent) or not event.moves_time:
        return 0
    return max(event.timestamp_ms - max(group.now_ms, event.clock_ms), 0)


def facts(group: Group | None) -> Facts | None:
    if group is None:
        return None
    if isinstance(group.body, ConsumerGroup):
        ids = {member.member_id: member.instance_id for member in group.body.members.values()}
        return Facts(group.epoch, group.body.state_name, group.body.group_epoch, ids, is_consumer=True)
    classic = classic_group(group)
    members = {member.member_id: member.group_instance_id for member in classic.members.values()}
    return Facts(group.epoch, classic.state.value, classic.generation_id, members)
