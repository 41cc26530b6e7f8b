"""One step of the machine: an event or a timer that is handled, and everything that follows from it.

Handlers change the group and hand their effects to the step: responses, records of the offsets log, history records,
timers. The step numbers them by (epoch, seq), in the order of the code. At its end the group is published if it has
changed (`publication`).
"""

from __future__ import annotations

from coordinator_state import timers
from coordinator_state.causes import Subject, event_cause, request_cause, timer_cause
from coordinator_state.config import GroupConfig
from coordinator_state.group import Group, GroupBody
from coordinator_state.outputs import Answer, GroupEvent, LogRecord, Output, RequestEvent
from coordinator_state.timers import DueTimer, Timer
from coordinator_state.topics_image import NO_TOPICS, TopicsImage
from schemas.events import RequestEnvelope
from schemas.group_metadata_events import GroupConfiguration
from schemas.history import Cause, History
from schemas.messages import Response

_NEVER_MS = 2**63


HistoryFields = tuple[str, int, int, int, int, int, Cause, int | None]
"""The fields that every history record has: those of `HistoryRecord` before `schema_version`, in its order."""


class Step:
    """The context of a handler. One object serves all steps of a group; `begin` and `begin_timer` start the next."""

    __slots__ = (
        "_cause",
        "_subject",
        "assignment_changed",
        "cause_seq",
        "config",
        "configuration",
        "due_timer",
        "epoch",
        "event",
        "group",
        "group_id",
        "member_intervals",
        "no_deadline_before_ms",
        "now_ms",
        "offset",
        "outputs",
        "partition",
        "refused",
        "retention_changed",
        "seq",
        "timestamp_ms",
        "topics",
    )

    def __init__(self, group_id: str, config: GroupConfig, partition: int, group: Group | None) -> None:
        self.group_id = group_id
        self.config = config
        self.partition = partition
        self.group = group
        self.topics: TopicsImage | None = None
        """The cluster's topics as a request tells of them, while there is no group."""
        self.configuration: GroupConfiguration | None = None
        """The settings of the group's id, while there is no group."""
        self.outputs: list[Output] = []
        self.epoch = 0
        self.seq = 0
        self.now_ms = 0
        """The group's clock."""
        self.timestamp_ms = 0
        """The same moment by append time."""
        self.offset = 0
        """The event that is handled; in a timer's step, the event that armed the timer."""
        self.event: GroupEvent | None = None
        self.due_timer: DueTimer | None = None
        self.cause_seq: int | None = None
        """The history record that the next ones follow from."""
        self._cause: Cause | None = None
        self._subject: Subject | None = None
        self.refused = 0
        """So many parts of the request are refused by now."""
        self.assignment_changed = False
        """The group is published at the end of the step."""
        self.retention_changed = False
        """Retention is planned anew at the end of the step."""
        self.member_intervals = config.member_intervals
        """Of a group without settings of its own; here, because every heartbeat asks for it."""
        self.no_deadline_before_ms = 0
        """A lower bound of all deadlines, kept by `arm` and `next_due`: most steps need not look at the timers."""

    # ------------------------------------------------------------------------------------------- beginning and end

    def begin(self, event: GroupEvent) -> None:
        """Begin the step of an event. Without a group the event begins a life of one."""
        is_request = type(event) is RequestEvent
        self.event = event
        self.due_timer = self._cause = self._subject = self.cause_seq = None
        self.offset = event.offset
        self.timestamp_ms = event.timestamp_ms
        self.refused = 0
        group = self.group
        if group is None:
            self.epoch, self.seq = event.offset, 0
            self.topics = None
            self.now_ms = event.clock_ms or (event.timestamp_ms if is_request else 0)
            return
        self.epoch, self.seq = group.epoch, group.seq
        if event.clock_ms > group.now_ms:
            group.now_ms = event.clock_ms
        self.now_ms = group.now_ms
        group.timestamp_ms = event.timestamp_ms
        if is_request:
            self.cause_seq = group.body.ongoing_seq

    def begin_timer(self, due: DueTimer) -> None:
        """Begin the step of a timer that fires; it is no longer armed."""
        group, timer = self.require_group(), due.timer
        del group.timers[due.name]
        now_ms = max(timer.deadline_ms, group.now_ms)
        # The append time moves on by as much as the clock does.
        self.timestamp_ms = group.timestamp_ms = group.timestamp_ms + (now_ms - group.now_ms)
        self.now_ms = group.now_ms = now_ms
        self.offset = timer.armed_offset
        self.event = self._cause = self._subject = None
        self.due_timer = due
        self.epoch, self.seq = group.epoch, group.seq
        self.cause_seq = group.body.ongoing_seq

    # ---------------------------------------------------------------------------------------------------- the group

    def require_group(self) -> Group:
        assert self.group is not None
        return self.group

    @property
    def envelope(self) -> RequestEnvelope:
        """The request of this step, in its envelope."""
        event = self.event
        assert type(event) is RequestEvent
        return event.envelope

    def create_group(self, body: GroupBody) -> Group:
        """Begin a life of the group with this event."""
        assert self.group is None
        self.group = group = Group(
            self.group_id, self.epoch, body, now_ms=self.now_ms, timestamp_ms=self.timestamp_ms, topics=self.topics,
            configuration=self.configuration,
        )  # fmt: skip
        self.note_change()
        return group

    @property
    def image(self) -> TopicsImage:
        """The cluster's topics as the group knows them."""
        return (self.topics if self.group is None else self.group.topics) or NO_TOPICS

    def forget_group(self) -> None:
        """End the life of the group."""
        self.configuration = self.require_group().configuration
        self.topics = None
        self.group = None
        self.assignment_changed = True

    def note_change(self) -> None:
        """Publish the group and plan its retention anew at the end of the step."""
        self.assignment_changed = self.retention_changed = True

    # ------------------------------------------------------------------------------------------------------- timers

    def arm(self, name: str, delay_ms: int) -> None:
        """Arm a timer, or arm it again: it goes to the end of the order of arming."""
        assert self.group is not None
        armed = self.group.timers
        armed.pop(name, None)
        deadline_ms = self.now_ms + delay_ms
        armed[name] = Timer(deadline_ms, self.now_ms, self.offset)
        if deadline_ms < self.no_deadline_before_ms:
            self.no_deadline_before_ms = deadline_ms

    def cancel(self, name: str) -> None:
        assert self.group is not None
        self.group.timers.pop(name, None)

    def next_timer(self) -> DueTimer | None:
        """Return the timer that fires next; None if none is armed."""
        if self.group is None:
            return None
        return timers.earliest(self.group.timers, self.config.offsets_retention_check_interval_ms)

    def next_due(self, clock_ms: int) -> DueTimer | None:
        """Return the timer that fires next if it is due; else None."""
        if clock_ms < self.no_deadline_before_ms:
            return None
        due = self.next_timer()
        self.no_deadline_before_ms = _NEVER_MS if due is None else due.timer.deadline_ms
        return due if due is not None and due.timer.deadline_ms <= clock_ms else None

    # ------------------------------------------------------------------------------------------------------ effects

    def respond(self, response: Response) -> None:
        """Respond to the request of this step."""
        event = self.event
        assert type(event) is RequestEvent
        envelope = event.envelope
        self.seq += 1
        self.outputs.append(
            Answer(
                self.group_id, self.epoch, self.seq, self.now_ms,
                envelope.request_id, envelope.reply_partition, envelope.api, envelope.api_version, self.offset,
                response,
            )
        )  # fmt: skip

    def append_record(self, key: bytes, value: bytes | None) -> None:
        """Append to the offsets log."""
        assert self.group is not None
        self.group.is_logged = True
        self.seq += 1
        self.outputs.append(LogRecord(self.group_id, self.epoch, self.seq, self.now_ms, self.offset, key, value))

    def append_history(self, record: History) -> int:
        """Append to history a record that was made with `history_fields`; returns its seq."""
        self.seq = record.seq
        self.outputs.append(record)
        return record.seq

    def history_fields(self) -> HistoryFields:
        """Return the common fields of the next history record.

        They go in by position: to merge a dict of them into the call takes longer than to make the record.
        """
        group = self.group
        return (
            self.group_id,
            self.epoch,
            self.seq + 1,
            self.now_ms,
            self.timestamp_ms,
            -1 if group is None else group.body.generation_id,
            self.cause,
            self.cause_seq,
        )

    # -------------------------------------------------------------------------------------------------------- cause

    def set_subject(self, subject: Subject) -> None:
        """Name the member that the step, or one entry of a batch, is about."""
        self._subject = subject
        self._cause = None

    @property
    def cause(self) -> Cause:
        """The event or timer of this step as the cause of history records."""
        if self._cause is None:
            event = self.event
            if type(event) is RequestEvent:
                self._cause = request_cause(event, self.partition, self._subject)
            elif event is not None:
                self._cause = event_cause(event, self.partition)
            else:
                assert self.due_timer is not None
                self._cause = timer_cause(self.due_timer, self.partition, self.group, self._subject)
        return self._cause
