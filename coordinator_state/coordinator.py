"""The door of the core: `GroupCoordinator` lives one group, `Coordinator` many. Events go in, outputs come out.

Nothing else comes in: no clock, no chance, no I/O. The same log and settings give the same outputs, whatever the
batches in which the log is fed.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from coordinator_state import timers
from coordinator_state.config import GroupConfig
from coordinator_state.dispatch import handle_request, handle_timer
from coordinator_state.errors import Refusal
from coordinator_state.group import Group
from coordinator_state.outputs import (
    GroupEvent,
    Output,
    RecordedEvent,
    RenewalEvent,
    RequestEvent,
    TopicsDeletedEvent,
)
from coordinator_state.recorded import follow_recording
from coordinator_state.requests.heartbeat import beat
from coordinator_state.retention import plan_expiry
from coordinator_state.sessions import renew_sessions
from coordinator_state.time_moves import move_time
from coordinator_state.topics_deleted import forget_topics
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.messages import APIS, FindCoordinatorRequest, HeartbeatRequest, JoinGroupResponse, ListedGroup
from schemas.refusals import error_response

_NEVER_MS = 2**63
_VERSIONS = {name: frozenset(range(api.min_version, api.max_version + 1)) for name, api in APIS.items()}


class GroupCoordinator:
    """One group: handles its requests in the order of the log and fires its timers as the clock of the log says.

    `group` is what must be kept between batches (`encode_group`); None when there is no such group.
    `outputs` grows; whoever drives takes them with `take_outputs`.
    """

    __slots__ = ("_belongs_elsewhere", "_turn")

    def __init__(self, group_id: str, config: GroupConfig, *, partition: int = 0, group: Group | None = None) -> None:
        self._turn = Turn(group_id, config, partition, group)
        self._belongs_elsewhere = (
            config.shard_count > 1 and group_partition(group_id, config.shard_count) != partition
        )

    @property
    def group(self) -> Group | None:
        return self._turn.group

    @property
    def outputs(self) -> list[Output]:
        return self._turn.outputs

    def take_outputs(self) -> list[Output]:
        """The outputs since the last call, in order of their seq."""
        outputs, self._turn.outputs = self._turn.outputs, []
        return outputs

    def next_deadline_ms(self) -> int | None:
        """When the next timer is due; None: no timer is armed."""
        found = self._next_timer()
        return None if found is None else found[1].deadline_ms

    def advance_to(self, clock_ms: int) -> None:
        """The clock has reached `clock_ms`: fire what is due, each timer at its own deadline, in order."""
        while self.fire_next(clock_ms):
            pass

    def fire_next(self, clock_ms: int) -> bool:
        """Fire the first of the timers that are due at `clock_ms`. False: none is.

        For a driver that takes the outputs in between: each of a thousand members that expire at once is told with the whole group.
        """
        turn = self._turn
        if clock_ms < turn.earliest_ms:
            return False
        found = self._next_timer()
        turn.earliest_ms = _NEVER_MS if found is None else found[1].deadline_ms
        if found is None or found[1].deadline_ms > clock_ms:
            return False
        self._fire(*found)
        return True

    def handle(self, event: GroupEvent) -> None:
        """Handle one event, after the timers that were due before it."""
        turn = self._turn
        clock_ms = event.clock_ms
        if clock_ms >= turn.earliest_ms:
            self.advance_to(clock_ms)
        if type(event) is not RequestEvent:
            self._handle_other(event)
            return
        request = event.request
        if type(request) is HeartbeatRequest and not self._belongs_elsewhere and beat(turn, event, request):
            return
        turn.begin_request(event)
        try:
            self._require_ours(event)
            handle_request(turn, request)
        except Refusal as refusal:
            self._refuse(event, refusal)
        self._end_turn()
        if turn.now_ms >= turn.earliest_ms:
            self.advance_to(turn.now_ms)

    def _handle_other(self, event: RenewalEvent | TopicsDeletedEvent | RecordedEvent) -> None:
        """An event that is no request: it has no answer."""
        turn = self._turn
        if type(event) is RecordedEvent:
            if not self._belongs_elsewhere:
                follow_recording(turn, event)
                self._end_turn()
        elif turn.group is None:
            return
        elif type(event) is RenewalEvent:
            turn.begin_renewal(event)
            if event.moves_time:
                move_time(turn, event.timestamp_ms)
            renew_sessions(turn)
        elif type(event) is TopicsDeletedEvent:
            turn.begin_topics_deleted(event)
            forget_topics(turn, event.topics)
            self._end_turn()
            if turn.now_ms >= turn.earliest_ms:
                self.advance_to(turn.now_ms)

    def _require_ours(self, event: RequestEvent) -> None:
        if event.envelope.api_version not in _VERSIONS[event.envelope.api]:
            api = APIS[event.envelope.api]
            raise Refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                "unsupported_version",
                f"{event.envelope.api} is answered in versions {api.min_version} to {api.max_version}, not {event.envelope.api_version}",
            )
        if self._belongs_elsewhere and not isinstance(event.request, FindCoordinatorRequest):
            raise Refusal(
                ErrorCode.NOT_COORDINATOR,
                "another_shard",
                f"the group belongs to partition {group_partition(self._turn.group_id, self._turn.config.shard_count)}",
            )

    def _refuse(self, event: RequestEvent, refusal: Refusal) -> None:
        response = error_response(event.request, refusal.error_code)
        if not refusal.echo_member_id and isinstance(response, JoinGroupResponse):
            response = replace(response, member_id="")
        self._turn.tell_refused(refusal)
        self._turn.answer(response)

    def _fire(self, name: str, timer: timers.Timer) -> None:
        turn = self._turn
        turn.cancel(name)
        turn.begin_timer(name, timer)
        handle_timer(turn, name, timer)
        self._end_turn()

    def _end_turn(self) -> None:
        turn = self._turn
        if turn.expiry_changed:
            turn.expiry_changed = False
            if turn.group is not None:
                plan_expiry(turn)
        turn.end()

    def _next_timer(self) -> tuple[str, timers.Timer] | None:
        group = self._turn.group
        if group is None:
            return None
        return timers.earliest(group.timers, self._turn.config.offsets_retention_check_interval_ms)




class Coordinator:
    """Many groups in one process, with the same rules: for tests, verification and other people's tests."""

    def __init__(self, config: GroupConfig, *, partition: int = 0) -> None:
        self.config = config
        self.partition = partition
        self._groups: dict[str, GroupCoordinator] = {}

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that exist, by id, in order of creation."""
        return {group_id: each.group for group_id, each in self._groups.items() if each.group is not None}

    def advance_to(self, clock_ms: int) -> list[Output]:
        """The clock has reached `clock_ms`: fire what is due in any group, in order of deadline, then of arming."""
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
        """ListGroups: filters are case-insensitive; a state is trimmed, a type is not (as in Kafka)."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        return [
            ListedGroup(group_id=group_id, protocol_type=group.protocol_type or "", group_state=group.state.value)
            for group_id, group in self.groups.items()
            if group.is_logged
            and (not wanted_states or group.state.value.lower() in wanted_states)
            and (not wanted_types or "classic" in wanted_types)
        ]

    def _next_due(self, clock_ms: int) -> GroupCoordinator | None:
        best: tuple[int, int] | None = None
        found: GroupCoordinator | None = None
        for coordinator in self._groups.values():
            timer = coordinator._next_timer()
            if timer is not None and timer[1].deadline_ms <= clock_ms:
                key = (timer[1].deadline_ms, timer[1].armed_ms)
                if best is None or key < best:
                    best, found = key, coordinator
        for group_id in [group_id for group_id, each in self._groups.items() if each.group is None]:
            del self._groups[group_id]
        return found
