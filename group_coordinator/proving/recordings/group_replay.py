"""Replays the requests of one group through the core and compares, step by step, with what the broker did.

Its state can be taken before any step, so that a part can be replayed again with its requests in another order.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from coordinator_state import (
    Answer,
    ClassicGroup,
    Group,
    GroupConfig,
    GroupCoordinator,
    LogRecord,
    Output,
    decode_group,
    encode_group,
)
from coordinator_state.classic.recordings import put_first
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.outputs import group_event
from group_coordinator.proving.recordings.coordinator_log import entry_of_history
from group_coordinator.proving.recordings.expectations import (
    CLOCK_MS,
    LATE_MS,
    LONG_STALL_MS,
    Disagreement,
    Expected,
    FactValue,
    Step,
    answer_disagreement,
    answered_stable,
    entry_disagreement,
    missing_entry,
    not_answered,
)
from group_coordinator.proving.recordings.group_facts import resolution_written_ms, resolved, told_at_join
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.hash_order import first_members, put_expiration_first
from group_coordinator.proving.recordings.old_brokers import is_kept_in_memory, is_of_old_broker
from group_coordinator.proving.recordings.record_cursor import RESYNC_ENTRIES, RecordCursor
from group_coordinator.proving.recordings.replay_state import (
    GROUP_METADATA_PREFIX,
    NO_STEP,
    Agreed,
    GroupInput,
    InputValue,
    State,
    is_bare,
)
from group_coordinator.proving.recordings.session_ends import assumed_sessions, join_phase_end_ms, join_phase_timer
from schemas import history, recorded
from schemas.events import TransactionEnded
from schemas.group_metadata_events import GroupConfiguration, TopicMetadata

_NEVER_MS = 2**62


class GroupReplay:
    """One run over the steps of a group, from a state on. `disagreements` grows with what does not agree."""

    def __init__(
        self, group_id: str, config: GroupConfig, expected: Expected, steps: Sequence[Step], state: State
    ) -> None:
        """`steps`: all of the group, by their index."""
        group = None if state.blobs is None else decode_group(*state.blobs)
        self._coordinator = GroupCoordinator(group_id, config, group=group)
        self._expected = expected
        self._steps = steps
        self._clock_ms = self._moment_ms = state.clock_ms
        self._waiting = dict.fromkeys(state.waiting)
        self._by_request = {steps[index].request.request_id: steps[index] for index in state.waiting}
        self._records = RecordCursor(expected.records, state.next_record, state.taken_records)
        self._next_entry = state.next_entry
        self._taken_entries = set(state.taken_entries)
        self._next_load, self._next_fact = state.next_load, state.next_fact
        self._group_metadata = state.group_metadata
        self._at_us = 0
        self._handled: Step | None = None
        self._handled_since_ms = _NEVER_MS
        self._state_slack_ms = state.state_slack_ms
        self.disagreements: list[Disagreement] = []
        self.latest_ms = 0
        """The most by which the broker did something later than it was done here."""
        self.near_timers: set[int] = set()
        """Steps that came so near to a deadline that the broker may have handled them on its other side."""
        self.elections: set[int] = set()
        """Generations whose leader came from the order of Kafka's hash map."""
        self._last_step = 0
        self.inputs: list[GroupInput] = []
        """All that the group was told: with this it comes to the same, replayed anywhere."""
        self.agreed: list[Agreed] = []
        """Requests that were answered as the broker answered them."""

    def state(self) -> State:
        group = self._coordinator.group
        return State(
            None if group is None else encode_group(group),
            self._clock_ms,
            tuple(self._waiting),
            self._records.next,
            self._next_entry,
            tuple(self._records.taken),
            tuple(self._taken_entries),
            self._next_load,
            self._group_metadata,
            self._next_fact,
            self._state_slack_ms,
        )

    @property
    def group(self) -> Group | None:
        return self._coordinator.group

    @property
    def compared(self) -> tuple[int, int]:
        """The number of the broker's records and log entries that were compared."""
        return self._records.next, self._next_entry

    def take(self, step: Step) -> None:
        """Let the clock run to the step and handle its request."""
        self._at_us = step.effect_us
        self._resolve_regexes(step.effect_us)
        self._load_until(step.effect_us)
        self._tell_facts(step.effect_us, step.latest_us if answered_stable(step) else 0)
        self._move_session_ends(max(self._clock_ms, step.effect_us // 1000))
        self._handled_since_ms = step.request.logged.handled_us // 1000
        self.advance_to(self._clock_for(step))
        self._handled_since_ms = _NEVER_MS
        self._last_step = step.index
        if (member_id := step.gone_member_id) is not None:
            self._tell(recorded.RecordedDeparture(member_id=member_id))
            return
        self._handled = step
        self._waiting[step.index] = None
        self._by_request[step.request.request_id] = step
        self._prepare_election(self._clock_ms)
        topics = told_at_join(step.request, self._expected.facts, self._next_fact)
        self._tell(step.request if topics is None else replace(step.request, topic_metadata=topics))
        self._resolve_regexes(max(self._clock_ms * 1000, self._at_us))
        self._handled = None

    def _clock_for(self, step: Step) -> int:
        clock_ms = max(self._clock_ms, step.effect_us // 1000)
        deadline_ms = self._coordinator.next_deadline_ms()
        if deadline_ms is None or not clock_ms - LATE_MS <= deadline_ms <= max(clock_ms, step.latest_us // 1000):
            return clock_ms
        self.near_timers.add(step.index)
        return max(self._clock_ms, min(clock_ms, deadline_ms - 1)) if step.before_timers else clock_ms

    def advance_to(self, clock_ms: int) -> None:
        """Fire the timers that are due, one after the other; then compare with what the broker has done by then."""
        self._moment_ms = self._clock_ms
        self._move_session_ends(clock_ms)
        while (deadline_ms := self._next_timer_ms(clock_ms)) <= clock_ms:
            self._prepare_election(self._moment_ms)
            self._prepare_expiration(deadline_ms)
            self._take_out_silent(deadline_ms)
            self._coordinator.advance_to(deadline_ms)
            self._moment_ms = max(self._moment_ms, deadline_ms)
            self._check(self._coordinator.take_outputs())
        self._clock_ms = self._moment_ms = clock_ms
        self._check_overdue(clock_ms)

    def _move_session_ends(self, clock_ms: int) -> None:
        """Let sessions end when they really ended, of those that are over by then here or there."""
        group = self._coordinator.group
        if group is not None:
            due_ms = self._coordinator.next_deadline_ms()
            moves = self._expected.sessions.moved(group, self._clock_ms, clock_ms, due_ms)
            for member_id, end_ms in moves.items():
                self._tell(recorded.RecordedSession(member_id=member_id, ends_ms=max(end_ms, self._clock_ms)))

    def _next_timer_ms(self, clock_ms: int) -> int:
        """Return when the next timer fires. A join phase that is over by that time here ends when the broker's timer
        really fired."""
        group, entries = self._coordinator.group, (self._expected.entries or [])[self._next_entry :]
        timer = None if group is None else join_phase_timer(group, clock_ms)
        if group is not None and timer is not None:
            ends_ms = join_phase_end_ms(group, timer, entries)
            if ends_ms > timer.deadline_ms:
                self.latest_ms = max(self.latest_ms, ends_ms - timer.deadline_ms)
                self._clock_ms = max(self._clock_ms, self._moment_ms)
                self._tell(recorded.RecordedSession(member_id=None, ends_ms=ends_ms))
        deadline_ms = self._coordinator.next_deadline_ms()
        return _NEVER_MS if deadline_ms is None else deadline_ms

    def _take_out_silent(self, deadline_ms: int) -> None:
        """Let those be gone whose session ends by a timeout that nothing shows: whether they expired is not known."""
        if not self._expected.is_session_timeout_known:
            for member_id, timer in assumed_sessions(self._coordinator.group, deadline_ms):
                if not self._expected.sessions.is_told(member_id, timer):
                    self._clock_ms = max(self._clock_ms, deadline_ms - 1)
                    self._tell(recorded.RecordedDeparture(member_id=member_id))

    def finish(self, clock_ms: int) -> None:
        """End the replay where the log ends."""
        self._at_us = clock_ms * 1000
        self._resolve_regexes(self._at_us)
        self._load_until(self._at_us)
        self._tell_facts(self._at_us, 0)
        self.advance_to(clock_ms)
        self._check_overdue(clock_ms + 2**40)

    def _tell_facts(self, us: int, shown_us: int) -> None:
        """Tell the group what it had been told by then. `shown_us`: an answer shows that the transactions which were
        being ended then had their effect."""
        facts = self._expected.facts
        while self._next_fact < len(facts):
            fact = facts[self._next_fact]
            may_be_shown = isinstance(fact.value, TransactionEnded) and fact.earliest_us <= shown_us
            if fact.at_us > us and not may_be_shown:
                return
            self._next_fact += 1
            if self._matters(fact.value):
                self.advance_to(max(self._clock_ms, min(fact.at_us, us) // 1000))
                self._tell(fact.value)

    def _matters(self, value: FactValue) -> bool:
        """Return whether the group is there, and of a kind that needs the fact: members that join bring topics
        along."""
        if isinstance(value, GroupConfiguration):
            return True
        group = self._coordinator.group
        is_consumer_group = group is not None and type(group.body) is ConsumerGroup
        return is_consumer_group if isinstance(value, TopicMetadata) else group is not None

    def _tell(self, value: InputValue) -> None:
        self.inputs.append(GroupInput(self._clock_ms, value))
        offset = NO_STEP if self._handled is None else self._handled.index
        told = (value.envelope, value.request) if isinstance(value, GroupRequest) else value
        self._coordinator.handle(group_event(told, offset, self._clock_ms, self._clock_ms))
        self._check(self._coordinator.take_outputs())

    def _resolve_regexes(self, until_us: int) -> None:
        """Let the group know what its expressions stand for, if it has begun to have them resolved: as soon as the
        broker wrote it, or at once where neither a record tells when that was, nor an answer that it was later."""
        group, facts = self._coordinator.group, self._expected.facts
        body = None if group is None else group.body
        if type(body) is not ConsumerGroup or body.regex_refresh_began_ms is None:
            return
        began_ms, resolutions = body.regex_refresh_began_ms, self._expected.resolutions
        written_ms = resolution_written_ms(began_ms, resolutions)
        resolved_us = self._expected.regexes_resolved_us.get(began_ms, 0) if written_ms is None else written_ms * 1000
        if resolved_us > until_us:
            return
        self.advance_to(max(self._clock_ms, resolved_us // 1000))
        images = (fact.value for fact in reversed(facts[: self._next_fact]) if isinstance(fact.value, TopicMetadata))
        image = next(images, TopicMetadata(version=0, topics=()))
        self._tell(resolved(body.regex_counts, image, began_ms, resolutions))

    def _load_until(self, us: int) -> None:
        """Let the brokers load the group that took it over by then."""
        loads = self._expected.loads
        while self._next_load < len(loads) and loads[self._next_load].from_us <= us:
            load = loads[self._next_load]
            self._next_load += 1
            self._tell_facts(load.from_us, 0)
            self.advance_to(max(self._clock_ms, load.from_us // 1000))
            self._tell(
                recorded.RecordedLoad(
                    loaded_ms=load.loaded_us // 1000, group_metadata=self._group_metadata, broker_id=load.broker_id
                )
            )

    def _prepare_election(self, moment_ms: int) -> None:
        """Kafka elects by the order of a hash map: whom it elected is known from the answers, and is put first."""
        body = None if self._coordinator.group is None else self._coordinator.group.body
        if type(body) is ClassicGroup and (first := first_members(body, self._expected, self._clock_ms)):
            put_first(body, first)
            self.inputs.append(GroupInput(moment_ms, recorded.RecordedLeader(member_ids=first)))

    def _prepare_expiration(self, deadline_ms: int) -> None:
        """Sessions that end in one moment expire in any order: if the coordinator log tells it, that one is taken."""
        group, entries = self._coordinator.group, self._expected.entries
        self._skip_taken_entries()
        if group is not None and entries is not None and self._next_entry < len(entries):
            put_expiration_first(group, entries[self._next_entry], deadline_ms)

    # ------------------------------------------------------------------------------------------------------ comparing

    def _check(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Answer):
                self._check_answer(output)
            elif isinstance(output, LogRecord):
                self._check_record(output)
            elif isinstance(output, history.History):
                self._check_history(output)

    def _check_answer(self, answer: Answer) -> None:
        step = self._by_request.pop(answer.request_id, None)
        if step is None:
            return  # it was told already that the broker had answered much earlier
        del self._waiting[step.index]
        commits, by_timer = self._expected.commits, self._handled is None
        # Of a group whose offsets were deleted a load may have found nothing: the log is compacted at no known time.
        may_be_gone = self._next_load > 0 and self._group_metadata is None and is_bare(self._coordinator.group)
        disagreement = answer_disagreement(
            step, answer, self._at_us, commits, by_timer=by_timer, may_be_gone=may_be_gone
        )
        if disagreement is not None:
            self.disagreements.append(disagreement)
        elif step.inferred is None:
            self.agreed.append(Agreed(step, answer.time_ms, self._handled is None))

    def _slack_ms(self, offset: int) -> int:
        """Return by how much a time may differ: by the duration of the request behind it, and for a timer by its delay.
        """
        own_slack_ms = self._steps[offset].slack_ms if 0 <= offset < len(self._steps) else CLOCK_MS
        exact = self._handled is not None and not self._handled.before_timers
        return own_slack_ms if exact else own_slack_ms + LATE_MS

    def _check_record(self, record: LogRecord) -> None:
        before = self._group_metadata
        if record.key.startswith(GROUP_METADATA_PREFIX):
            self._group_metadata = record.value
        if self._moment_ms <= self._expected.covered.records_since_ms:
            return
        slack_ms = max(self._slack_ms(record.caused_by_offset), self._state_slack_ms)
        if self._handled is not None and is_kept_in_memory(record.key, record.value):
            # It is written before anything waits, and has the time at which the broker's thread came to it.
            logged = self._handled.request.logged
            slack_ms = max(slack_ms, min((logged.ready_us - logged.arrival_us) // 1000 + CLOCK_MS, LONG_STALL_MS))
        is_old = bool(self._steps) and is_of_old_broker(self._steps[self._last_step].request.logged.connection)
        disagreement = self._records.compare(
            record, slack_ms, self._at_us, is_of_old_broker=is_old, before=before
        )
        if disagreement is not None and self._expected.covered.has_record(self._moment_ms):
            self.disagreements.append(disagreement)

    def _check_history(self, record: history.History) -> None:
        if isinstance(record, history.GroupCreated | history.JoinPhaseCompleted | history.GroupEmpty):
            self._state_slack_ms = self._slack_ms(record.cause.offset)
        elif isinstance(record, history.AssignmentReceived) and self._handled is not None:
            # The group is stable when replicas have its record.
            logged = self._handled.request.logged
            self._state_slack_ms = (logged.ready_us - logged.arrival_us) // 1000 + CLOCK_MS
        if isinstance(record, history.LeaderElected) and record.reason in ("leader_gone", "leader_did_not_rejoin"):
            self.elections.add(record.generation_id)
        group, entries = self._coordinator.group, self._expected.entries
        in_consumer_group = group is not None and type(group.body) is ConsumerGroup
        entry = entry_of_history(record, in_consumer_group=in_consumer_group)
        if entry is None or entries is None:
            return
        self._skip_taken_entries()
        number = self._next_entry
        broker_entry = entries[number] if number < len(entries) else None
        slack_ms = self._slack_ms(record.cause.offset)
        disagreement = entry_disagreement(entry, broker_entry, number, slack_ms, record.cause.offset, self._at_us)
        if disagreement is None:
            self._next_entry += 1
            if broker_entry is not None:
                self.latest_ms = max(self.latest_ms, broker_entry.time_ms - entry.time_ms)
            return
        if not self._expected.covered.has_entry(entry.time_ms):
            return
        ahead = list(enumerate(entries[number + 1 : number + RESYNC_ENTRIES], number + 1))
        if isinstance(record, history.MemberExpired):
            for place, expected in ahead:
                if place in self._taken_entries:
                    continue
                if entry_disagreement(entry, expected, place, slack_ms, 0, 0) is None:
                    self._taken_entries.add(place)
                    return
        self.disagreements.append(disagreement)
        self._next_entry = next((place for place, expected in ahead if entry.matches(expected)), number) + 1

    def _skip_taken_entries(self) -> None:
        while self._next_entry in self._taken_entries:
            self._taken_entries.discard(self._next_entry)
            self._next_entry += 1

    def _check_overdue(self, clock_ms: int) -> None:
        """Every answer, record and entry of the broker from long before this clock must have come out here too."""
        for index in list(self._waiting):
            step = self._steps[index]
            ready_ms = step.request.logged.ready_us // 1000
            if step.inferred is None and ready_ms + LATE_MS < clock_ms:
                del self._waiting[index]
                del self._by_request[step.request.request_id]
                self.disagreements.append(not_answered(step, self._at_us))
        # What a request leads to may have begun when a handler took it up, long before the thread was done with it.
        until_ms = min(clock_ms - LATE_MS, self._handled_since_ms)
        self.disagreements += self._records.overdue(until_ms, self._at_us, self._last_step)
        entries = self._expected.entries or []
        self._skip_taken_entries()
        while self._next_entry < len(entries) and entries[self._next_entry].time_ms < until_ms:
            if self._expected.covered.has_entry(entries[self._next_entry].time_ms):
                missing = missing_entry(entries[self._next_entry], self._next_entry, self._at_us, self._last_step)
                self.disagreements.append(missing)
            self._next_entry += 1
            self._skip_taken_entries()
