"""The entry points of the core: `GroupCoordinator` runs one group, `Coordinator` many. Events go in, outputs come out.

Nothing else comes in: no clock, no chance, no I/O. The same log and settings give the same outputs, whatever the
batches in which the log is fed.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from coordinator_state import timers
from coordinator_state.api_versions import API_VERSIONS
from coordinator_state.classic.fast_commit import fast_commit
from coordinator_state.classic.heartbeat import fast_heartbeat
from coordinator_state.classic.recordings import follow_recording
from coordinator_state.config import GroupConfig
from coordinator_state.consumer.fast_heartbeat import fast_member_heartbeat
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.metadata_events import learn, learn_topics
from coordinator_state.consumer.sessions import depart
from coordinator_state.dispatch import KINDS, GroupKinds
from coordinator_state.errors import Refusal
from coordinator_state.group import Group
from coordinator_state.no_group import NoGroup
from coordinator_state.outputs import (
    GroupEvent,
    MetadataEvent,
    Output,
    RecordedEvent,
    RenewalEvent,
    RequestEvent,
    TopicsDeletedEvent,
    TransactionEndedEvent,
)
from coordinator_state.publication import publish
from coordinator_state.refused import record_refusal
from coordinator_state.retention import plan_expiry
from coordinator_state.rule_changes import RuleChange, changes_before, changes_until
from coordinator_state.step import Step
from coordinator_state.timers import Timer
from coordinator_state.topics_deleted import forget_topics
from coordinator_state.transactions import end_transaction
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.messages import (
    APIS,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupResponse,
    ListedGroup,
    OffsetCommitRequest,
)
from schemas.recorded import RecordedDeparture, RecordedLoad
from schemas.refusals import error_response

_BEFORE_ALL, _FOR_EVER = -1, 2**63


class GroupCoordinator:
    """One group: handles its requests in the order of the log and fires its timers as the clock of the log says.

    `group` is what must be kept between batches (`encode_group`); None when there is no such group.
    `outputs` grows; the driver takes them with `take_outputs`. `rule_changes` are those of the log, as far as they are
    known; `config` has the rules before the first of them.
    """

    __slots__ = ("_belongs_elsewhere", "_changes", "_config", "_kinds", "_rules_up_to", "_step")

    def __init__(
        self,
        group_id: str,
        config: GroupConfig,
        *,
        partition: int = 0,
        group: Group | None = None,
        kinds: GroupKinds = KINDS,
        rule_changes: tuple[RuleChange, ...] = (),
    ) -> None:
        self._kinds = kinds
        self._config = config
        self._changes = rule_changes
        self._rules_up_to = _BEFORE_ALL if rule_changes else _FOR_EVER
        """The rules of the last step count for events up to this offset."""
        self._step = Step(group_id, config, partition, group)
        if group is not None and type(group.body) is NoGroup:
            self._step.group, self._step.configuration = None, group.configuration
        self._belongs_elsewhere = config.shard_count > 1 and group_partition(group_id, config.shard_count) != partition

    @property
    def group(self) -> Group | None:
        """What must be kept: the group, or the configuration of an id that has no group (`NoGroup`)."""
        step = self._step
        if step.group is None and step.configuration is not None:
            return Group(step.group_id, step.epoch, NoGroup(), configuration=step.configuration)
        return step.group

    @property
    def outputs(self) -> list[Output]:
        return self._step.outputs

    def take_outputs(self) -> list[Output]:
        """Return the outputs since the last call, in order of `seq`."""
        outputs, self._step.outputs = self._step.outputs, []
        return outputs

    def next_deadline_ms(self) -> int | None:
        """Return the deadline of the next timer; None if no timer is armed."""
        due = self._step.next_timer()
        return None if due is None else due.timer.deadline_ms

    def next_timer(self) -> Timer | None:
        """Return the timer that fires next; None if none is armed."""
        due = self._step.next_timer()
        return None if due is None else due.timer

    def advance_to(self, clock_ms: int) -> None:
        """Move the clock to `clock_ms` and fire all timers that are due, each at its own deadline, in order."""
        while self.fire_next(clock_ms):
            pass

    def fire_next(self, clock_ms: int) -> bool:
        """Fire the first timer that is due at `clock_ms`; return False if none is. A driver can so take the outputs in
        between: when a thousand members expire at once, each one publishes the whole group."""
        step = self._step
        due = step.next_due(clock_ms)
        if due is None:
            return False
        if self._changes:
            self._go_by(changes_until(self._changes, due.timer))
            self._rules_up_to = _BEFORE_ALL
        step.begin_timer(due)
        self._kinds.handle_timer(step, due)
        self._finish_step()
        return True

    def handle(self, event: GroupEvent) -> None:
        """Handle one event, after the timers that were due before it."""
        step = self._step
        if event.clock_ms >= step.no_deadline_before_ms:
            self.advance_to(event.clock_ms)
        if event.offset > self._rules_up_to:
            self._take_rules_at(event.offset)
        if type(event) is not RequestEvent:
            self._handle_other(event)
            return
        request = event.request
        if type(request) is HeartbeatRequest:
            is_done = not self._belongs_elsewhere and fast_heartbeat(step, event, request)
        elif type(request) is OffsetCommitRequest:
            is_done = not self._belongs_elsewhere and fast_commit(step, event, request)
        elif type(request) is ConsumerGroupHeartbeatRequest:
            is_done = not self._belongs_elsewhere and fast_member_heartbeat(step, event, request)
        else:
            is_done = False
        if not is_done:
            self.handle_in_full(event)

    def change_rules(self, change: RuleChange) -> None:
        """Take a change of the log's rules, which comes after all that was handled."""
        self._changes = (*self._changes, change)
        self._rules_up_to = min(self._rules_up_to, change.offset)

    def _take_rules_at(self, offset: int) -> None:
        """Decide the next step by the rules of the log at this event."""
        number = changes_before(self._changes, offset)
        self._go_by(number)
        self._rules_up_to = self._changes[number].offset if number < len(self._changes) else _FOR_EVER

    def _go_by(self, number: int) -> None:
        config = self._config
        self._step.config = config.under(self._changes[number - 1].rules) if number else config

    def handle_in_full(self, event: RequestEvent) -> None:
        """Handle a request in a step of its own. `handle` does so with few heartbeats and commits; a test compares."""
        step = self._step
        step.begin(event)
        if event.envelope.topic_metadata:
            learn_topics(step, event.envelope.topic_metadata)
        try:
            self._require_ours(event)
            self._kinds.handle_request(step, event.request)
        except Refusal as refusal:
            record_refusal(step, refusal)
            response = error_response(event.request, refusal.error_code, event.envelope.api_version)
            if not refusal.echo_member_id and isinstance(response, JoinGroupResponse):
                response = replace(response, member_id="")
            step.respond(response)
        self._finish_step()
        if step.now_ms >= step.no_deadline_before_ms:
            self.advance_to(step.now_ms)

    def _handle_other(
        self, event: RenewalEvent | TopicsDeletedEvent | TransactionEndedEvent | MetadataEvent | RecordedEvent
    ) -> None:
        """Handle an event that is no request: it has no response."""
        step = self._step
        if type(event) is MetadataEvent:
            if not self._belongs_elsewhere:
                step.begin(event)
                learn(step, event.fact)
                self._finish_step()
            return
        if type(event) is RecordedEvent:
            if not self._belongs_elsewhere:
                if type(event.fact) is RecordedLoad:
                    step.begin(event)
                    self._kinds.kind_of(step.group).load(step, event.fact)
                elif type(event.fact) is RecordedDeparture and step.group and type(step.group.body) is ConsumerGroup:
                    step.begin(event)
                    depart(step, event.fact.member_id)
                else:
                    follow_recording(step, event)
                self._finish_step()
        elif step.group is None:
            return
        elif type(event) is RenewalEvent:
            step.begin(event)
            if event.moves_time:
                move_time(step, event.timestamp_ms)
            self._kinds.kind_of(step.group).renew_sessions(step)
        else:
            step.begin(event)
            if type(event) is TopicsDeletedEvent:
                forget_topics(step, event.topics)
            else:
                end_transaction(step, event.ended)
            self._finish_step()
            if step.now_ms >= step.no_deadline_before_ms:
                self.advance_to(step.now_ms)

    def _require_ours(self, event: RequestEvent) -> None:
        envelope = event.envelope
        if envelope.api_version not in API_VERSIONS[envelope.api]:
            api = APIS[envelope.api]
            raise Refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                "unsupported_version",
                f"{envelope.api} is answered in versions {api.min_version} to {api.max_version}, not "
                f"{envelope.api_version}",
            )
        if self._belongs_elsewhere and not isinstance(event.request, FindCoordinatorRequest):
            raise Refusal(
                ErrorCode.NOT_COORDINATOR,
                "another_shard",
                f"the group belongs to partition {group_partition(self._step.group_id, self._step.config.shard_count)}",
            )

    def _finish_step(self) -> None:
        step = self._step
        if step.retention_changed:
            step.retention_changed = False
            if step.group is not None:
                plan_expiry(step)
        if step.assignment_changed:
            step.assignment_changed = False
            publish(step, self._kinds.kind_of(step.group))
        if step.group is not None:
            step.group.seq = step.seq


class Coordinator:
    """Many groups in one process, with the same rules: for tests, verification and other people's tests."""

    def __init__(self, config: GroupConfig, *, partition: int = 0) -> None:
        self.config = config
        self.partition = partition
        self._groups: dict[str, GroupCoordinator] = {}

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that exist, by id, in order of creation."""
        return {
            group_id: group.group
            for group_id, group in self._groups.items()
            if group.group is not None and type(group.group.body) is not NoGroup
        }

    def advance_to(self, clock_ms: int) -> list[Output]:
        """Move the clock to `clock_ms` and fire the due timers of all groups, in order of deadline, then of arming."""
        outputs: list[Output] = []
        while (due := self._next_due(clock_ms)) is not None:
            due.advance_to(due.next_deadline_ms() or 0)
            outputs += due.take_outputs()
        return outputs

    def handle(self, group_id: str, event: GroupEvent) -> list[Output]:
        """Handle one event of one group, after whatever was due before it in any group."""
        outputs = self.advance_to(event.clock_ms)
        coordinator = self._groups.get(group_id)
        if coordinator is None:
            coordinator = GroupCoordinator(group_id, self.config, partition=self.partition)
        coordinator.handle(event)
        if coordinator.group is None:
            self._groups.pop(group_id, None)
        else:
            self._groups[group_id] = coordinator
        return outputs + coordinator.take_outputs()

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """Answer ListGroups. Filters are case-insensitive; a state is trimmed, a type is not, as in Kafka."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        return [
            ListedGroup(
                group_id=group_id,
                protocol_type=group.body.protocol_type or "",
                group_state=group.body.state_name,
                group_type=group.body.type_name,
            )
            for group_id, group in self.groups.items()
            if group.is_logged
            and (not wanted_states or group.body.state_name.lower() in wanted_states)
            and (not wanted_types or group.body.type_name in wanted_types)
        ]

    def _next_due(self, clock_ms: int) -> GroupCoordinator | None:
        best: tuple[int, int] | None = None
        next_due: GroupCoordinator | None = None
        for coordinator in self._groups.values():
            timer = coordinator.next_timer()
            if timer is not None and timer.deadline_ms <= clock_ms:
                key = (timer.deadline_ms, timer.armed_ms)
                if best is None or key < best:
                    best, next_due = key, coordinator
        for group_id in [group_id for group_id, group in self._groups.items() if group.group is None]:
            del self._groups[group_id]
        return next_due


def move_time(step: Step, to_ms: int) -> None:
    """Move the group's time on to `to_ms`; all that it waits for, and what retention counts from, moves with it."""
    group = step.require_group()
    by_ms = to_ms - group.now_ms
    if by_ms <= 0:
        return
    group.now_ms = step.now_ms = to_ms
    group.body.move_time(by_ms)
    if group.next_publication_ms:
        group.next_publication_ms += by_ms
    for name, timer in group.timers.items():
        group.timers[name] = Timer(timer.deadline_ms + by_ms, timer.armed_ms + by_ms, timer.armed_offset)
    if group.retention or group.offsets.has_pending:
        group.offsets.move_time(by_ms)
    for retention in group.retention.values():
        retention.oldest_committed_ms += by_ms
        if retention.earliest_expire_ms is not None:
            retention.earliest_expire_ms += by_ms
    # The check runs at fixed instants: its timer is no wait of the group's.
    if group.timers.pop(timers.OFFSETS_EXPIRY, None) is not None:
        plan_expiry(step)
