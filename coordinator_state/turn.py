"""One turn of the machine: the event or timer that is being handled, and everything that it leads to.

Handlers change the group and say what follows through this object; it numbers outputs, names causes and arms timers.
"""

from __future__ import annotations

from typing import Any

from coordinator_state import states, timers
from coordinator_state.config import GroupConfig
from coordinator_state.errors import Refusal
from coordinator_state.group import Group, ParkedRequest
from coordinator_state.outputs import (
    Answer,
    AssignmentChange,
    GroupEvent,
    LogRecord,
    Output,
    RecordedEvent,
    RenewalEvent,
    RequestEvent,
    TopicsDeletedEvent,
)
from coordinator_state.snapshots import snapshot_of
from coordinator_state.states import GroupState
from coordinator_state.timers import Timer
from schemas.error_codes import ErrorCode
from schemas.history import (
    Cause,
    History,
    MemberFenced,
    RequestRefused,
    TimerName,
)
from schemas.messages import Response

REASON_MAX_CHARACTERS = 255
"""Kafka shortens the reasons of clients to this (KIP-800)."""

REFUSALS_TOLD_MAX = 100
"""Of so many refused parts of one request history tells: each record has the names of group and client again."""


class Turn:
    """What a handler sees and does. One object serves all turns of a group; `begin_*` starts the next."""

    __slots__ = (
        "_cause",
        "cause_seq",
        "changed",
        "config",
        "earliest_ms",
        "epoch",
        "event",
        "expiry_changed",
        "expiry_run_is_over",
        "group",
        "group_id",
        "now_ms",
        "offset",
        "outputs",
        "partition",
        "refused",
        "seq",
        "subject",
        "timer",
        "timestamp_ms",
    )

    def __init__(self, group_id: str, config: GroupConfig, partition: int, group: Group | None) -> None:
        self.group_id = group_id
        self.config = config
        self.partition = partition
        self.group = group
        self.outputs: list[Output] = []
        self.epoch = 0
        self.seq = 0
        self.now_ms = 0
        """The group's clock."""
        self.timestamp_ms = 0
        """The same moment by append time."""
        self.offset = 0
        """The event being handled; in a timer's turn, the event that armed the timer."""
        self.event: RequestEvent | None = None
        self.timer: tuple[str, Timer] | None = None
        self.subject: dict[str, str | None] = {}
        """Who a timer, or one entry of a batch, is about: goes into the cause."""
        self.cause_seq: int | None = None
        """The history record that the next ones follow from."""
        self.changed = False
        """The assignments topic must be told."""
        self.expiry_changed = False
        """The retention timer must be looked at."""
        self.expiry_run_is_over = True
        """Whether the retention check of this very millisecond has already run."""
        self.earliest_ms = 0
        """No timer is due before this: a lower bound, so that most turns need not look at the timers."""
        self.refused = 0
        """Parts of this request that were refused."""
        self._cause: Cause | None = None

    # ------------------------------------------------------------------------------------------- beginning and end

    def begin_request(self, event: RequestEvent) -> None:
        group = self.group
        self.offset = event.offset
        self.event = event
        self.timer = None
        self.timestamp_ms = event.timestamp_ms
        self.expiry_run_is_over = True
        self.refused = 0
        self._cause = None
        if group is None:
            self.epoch, self.seq, self.now_ms, self.cause_seq = event.offset, 0, event.clock_ms or event.timestamp_ms, None
        else:
            self.epoch, self.seq = group.epoch, group.seq
            self._take_time(group, event)
            self.cause_seq = group.rebalance.last_seq if group.rebalance is not None else None
        if self.subject:
            self.subject = {}

    def begin_renewal(self, event: RenewalEvent) -> None:
        """A turn that says nothing."""
        self.offset = event.offset
        self.expiry_run_is_over = True
        self._take_time(self.require_group(), event)

    def begin_topics_deleted(self, event: TopicsDeletedEvent) -> None:
        """A turn that nobody asked for: it answers nobody."""
        group = self.require_group()
        self.offset = event.offset
        self.event = None
        self.timer = None
        self.timestamp_ms = event.timestamp_ms
        self.expiry_run_is_over = True
        self.subject = {}
        self.epoch, self.seq = group.epoch, group.seq
        self._take_time(group, event)
        self.cause_seq = None
        self._cause = Cause(kind="topics_deleted", partition=self.partition, offset=event.offset)

    def begin_recorded(self, event: RecordedEvent) -> None:
        """A turn in which a recording says what the group is, or will do. Without a group it begins a life of one."""
        self.event = self.timer = self.cause_seq = None
        self.subject = {}
        self.offset, self.timestamp_ms, self.expiry_run_is_over = event.offset, event.timestamp_ms, True
        self._cause = Cause(kind="recording", partition=self.partition, offset=event.offset)
        if self.group is None:
            self.epoch, self.seq, self.now_ms = event.offset, 0, event.clock_ms
        else:
            self.epoch, self.seq = self.group.epoch, self.group.seq
            self._take_time(self.group, event)

    def _take_time(self, group: Group, event: GroupEvent) -> None:
        if event.clock_ms > group.now_ms:
            group.now_ms = event.clock_ms
        self.now_ms = group.now_ms
        group.timestamp_ms = event.timestamp_ms

    def begin_timer(self, name: str, timer: Timer) -> None:
        group = self.require_group()
        now_ms = max(timer.deadline_ms, group.now_ms)
        # The append time moves on by as much as the clock does.
        self.timestamp_ms = group.timestamp_ms = group.timestamp_ms + (now_ms - group.now_ms)
        self.now_ms = group.now_ms = now_ms
        self.offset = timer.armed_offset
        self.event = None
        self.timer = (name, timer)
        self.expiry_run_is_over = name == timers.OFFSETS_EXPIRY or timers.runs_before(
            timer.deadline_ms, timer, self.config.offsets_retention_check_interval_ms
        )
        self._cause = None
        self.subject = {}
        self.epoch, self.seq = group.epoch, group.seq
        self.cause_seq = group.rebalance.last_seq if group.rebalance is not None else None

    def end(self) -> None:
        """Close the turn: tell the assignments topic, and keep the numbers."""
        if self.changed:
            self.changed = False
            snapshot = None if self.group is None else snapshot_of(self.group, self.seq + 1)
            self.seq += 1
            self.outputs.append(AssignmentChange(self.group_id, self.epoch, self.seq, snapshot))
        if self.group is not None:
            self.group.seq = self.seq

    # ---------------------------------------------------------------------------------------------------- the group

    def require_group(self) -> Group:
        assert self.group is not None
        return self.group

    def create_group(self) -> Group:
        """Begin a life of the group with this event."""
        assert self.group is None
        self.group = Group(
            group_id=self.group_id,
            epoch=self.epoch,
            now_ms=self.now_ms,
            timestamp_ms=self.timestamp_ms,
            state_since_ms=self.now_ms,
        )
        self.changed = True
        self.expiry_changed = True
        return self.group

    def remove_group(self) -> None:
        """End the life of the group."""
        self.require_group().transition_to(states.DEAD, self.now_ms)
        self.forget_group()

    def forget_group(self) -> None:
        """Know nothing of the group any more."""
        self.group = None
        self.changed = True

    def transition_to(self, state: GroupState) -> None:
        self.require_group().transition_to(state, self.now_ms)
        self.changed = True
        self.expiry_changed = True

    # ------------------------------------------------------------------------------------------------------- timers

    def arm(self, name: str, delay_ms: int) -> None:
        """Arm a timer, or arm it again: it goes to the end of the order of arming."""
        assert self.group is not None
        armed = self.group.timers
        armed.pop(name, None)
        deadline_ms = self.now_ms + delay_ms
        armed[name] = Timer(deadline_ms, self.now_ms, self.offset)
        if deadline_ms < self.earliest_ms:
            self.earliest_ms = deadline_ms

    def cancel(self, name: str) -> None:
        assert self.group is not None
        self.group.timers.pop(name, None)

    # ------------------------------------------------------------------------------------------------------ outputs

    def park(self) -> ParkedRequest:
        """Keep what the answer to the current request will need."""
        assert self.event is not None
        envelope = self.event.envelope
        return ParkedRequest(envelope.request_id, envelope.reply_partition, envelope.api_version, self.event.offset)

    def is_copy_of(self, parked: ParkedRequest) -> bool:
        """Whether the current request is a parked one that lies in the log twice: then one answer is enough."""
        return self.event is not None and self.event.envelope.request_id == parked.request_id

    def answer(self, response: Response) -> None:
        """Answer the request of this turn."""
        event = self.event
        assert event is not None
        envelope = event.envelope
        self.seq += 1
        self.outputs.append(
            Answer(
                self.group_id,
                self.epoch,
                self.seq,
                self.now_ms,
                envelope.request_id,
                envelope.reply_partition,
                envelope.api,
                envelope.api_version,
                event.offset,
                response,
            )
        )

    def answer_parked(self, api: str, parked: ParkedRequest, response: Response) -> None:
        """Answer a request of an earlier turn."""
        self.seq += 1
        self.outputs.append(
            Answer(
                self.group_id, self.epoch, self.seq, self.now_ms,
                parked.request_id, parked.reply_partition, api, parked.api_version, parked.offset, response,
            )
        )

    def record(self, key: bytes, value: bytes | None) -> None:
        """Append to the offsets log."""
        assert self.group is not None
        self.group.is_logged = True
        self.seq += 1
        self.outputs.append(LogRecord(self.group_id, self.epoch, self.seq, self.now_ms, self.offset, key, value))

    def tell(self, kind: type[Any], **fields: Any) -> int:
        """Append to history; returns the record's seq."""
        group = self.group
        self.seq += 1
        record: History = kind(
            group_id=self.group_id,
            epoch=self.epoch,
            seq=self.seq,
            time_ms=self.now_ms,
            timestamp_ms=self.timestamp_ms,
            generation_id=group.generation_id if group is not None else -1,
            cause=self._cause or self.cause(),
            caused_by=self.cause_seq,
            **fields,
        )
        self.outputs.append(record)
        return self.seq

    def tell_refused(self, refusal: Refusal) -> None:
        """Tell of a request, or a part of one, that is refused; and of a client that is fenced by it."""
        assert self.event is not None
        group = self.group
        self.refused += 1
        if self.refused > REFUSALS_TOLD_MAX:
            return
        last = self.refused == REFUSALS_TOLD_MAX
        self.tell(
            RequestRefused,
            api=self.event.envelope.api,
            error_code=int(refusal.error_code),
            error=refusal.error_code.name,
            rule=refusal.rule,
            detail=f"{refusal.detail}; of further parts of the request that are refused nothing is told" if last else refusal.detail,
            state=group.state.value if group is not None else "none",
        )
        cause = self.cause()
        if refusal.error_code is ErrorCode.FENCED_INSTANCE_ID and group is not None and cause.group_instance_id:
            self.tell(
                MemberFenced,
                member_id=cause.member_id or "",
                group_instance_id=cause.group_instance_id,
                owner_member_id=group.static_members.get(cause.group_instance_id),
            )

    def about(self, member_id: str | None, group_instance_id: str | None, **names: str | None) -> None:
        """Say who the turn (or one entry of a batch) is about."""
        self.subject = {"member_id": member_id, "group_instance_id": group_instance_id, **names}
        self._cause = None

    def cause(self) -> Cause:
        """The request or timer of this turn, as history tells it."""
        if self._cause is None:
            self._cause = self._request_cause() if self.event is not None else self._timer_cause()
        return self._cause

    def _request_cause(self) -> Cause:
        assert self.event is not None
        envelope, request = self.event.envelope, self.event.request
        subject = self.subject
        reason = subject["reason"] if "reason" in subject else getattr(request, "reason", None)
        return Cause(
            kind="request",
            partition=self.partition,
            offset=self.event.offset,
            api=envelope.api,
            api_version=envelope.api_version,
            request_id=envelope.request_id,
            member_id=subject["member_id"] if subject else getattr(request, "member_id", None),
            group_instance_id=subject["group_instance_id"] if subject else getattr(request, "group_instance_id", None),
            client_id=envelope.client_id,
            client_host=envelope.client_host,
            reason=reason[:REASON_MAX_CHARACTERS] if reason else None,
        )

    def _timer_cause(self) -> Cause:
        assert self.timer is not None
        name, timer = self.timer
        member_id = timers.member_of(name)
        kind: TimerName = "session" if member_id is not None else name  # type: ignore[assignment]
        if member_id is not None and self.group is not None and member_id in self.group.pending_join:
            kind = "pending_member"
        subject: dict[str, Any] = {"member_id": member_id} | self.subject
        return Cause(
            kind="timer",
            partition=self.partition,
            offset=timer.armed_offset,
            timer=kind,
            armed_ms=timer.armed_ms,
            deadline_ms=timer.deadline_ms,
            **subject,
        )
