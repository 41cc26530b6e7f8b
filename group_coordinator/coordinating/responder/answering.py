"""The groups of a shard, as a responder keeps them: events go in, one after the other, and answers come out.

Nothing else comes in, so the answers are those of the query: the same bytes with the same (group, epoch, seq).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from coordinator_state import (
    Answer,
    Group,
    GroupCoordinator,
    Output,
    RuleChange,
    decode_group,
    encode_group,
    group_event,
)
from coordinator_state.rule_changes import rules_in
from schemas.events import EventError, decode_group_event, decode_group_id
from schemas.group_states import GroupState
from schemas.output_records import OutputRecord
from schemas.query_progress import ChangedGroup, GroupsAsked, GroupsChanged
from schemas.ticks import read_tick
from streaming.operator_config import OperatorConfig
from streaming.rows import output_record
from streaming.stored_group import ShardState, StoredGroup, size_of

KEPT_S = 10.0
"""So long after the query's commit of a change it is kept: whoever asks may not have read yet what was published."""
GROUPS_MAX = 100_000
"""Of more groups the first that changed are left out: those are as the query has published them."""
GROUPS_PER_RECORD = 1_000
_QUESTIONS_MAX = 1_000
_NOT_LISTED = ("", "", "")


class _Change(Struct):
    group: ChangedGroup
    offset: int
    """Of the event from which it follows."""
    clock_ms: int
    """The shard's clock then: what a timer has changed the query has decided when it has come as far."""


class ChangedGroups:
    """One for a shard."""

    def __init__(self) -> None:
        self._changes: dict[bytes, _Change] = {}
        """By key; the last change of a group is at the end."""
        self._shown: dict[bytes, tuple[str, str, str]] = {}
        """State, type and protocol type of the groups that have written anything lately."""
        self._commits: list[tuple[float, int, int]] = []
        """When the query's commits were heard, and up to which offset and clock it had decided."""
        self._questions: dict[str, GroupsAsked] = {}

    def note(self, key: bytes, group: Group | None, outputs: Sequence[Output], offset: int, clock_ms: int) -> None:
        """Note a group after an event at `offset`, or after its timers. `outputs`: what came of that."""
        if not any(type(output) is not Answer for output in outputs):
            return  # it is as it was
        shown = _shown(group)
        if self._shown.get(key) == shown:
            return
        last = outputs[-1]
        state, group_type, protocol_type = shown
        self._changes.pop(key, None)
        self._changes[key] = _Change(
            ChangedGroup(
                group_id=key.decode(), epoch=last.epoch, seq=last.seq, state=state or None, group_type=group_type,
                protocol_type=protocol_type,
            ),
            offset,
            clock_ms,
        )  # fmt: skip
        self._shown.pop(key, None)
        self._shown[key] = shown
        for entries in (self._changes, self._shown):
            if len(entries) > GROUPS_MAX:
                del entries[next(iter(entries))]

    def committed(self, end_offset: int, clock_ms: int, now_s: float) -> None:
        """Note that the query has decided all events before this offset, and all timers up to this clock."""
        self._commits.append((now_s, end_offset, clock_ms))
        while len(self._commits) > 1 and self._commits[1][0] <= now_s - KEPT_S:
            del self._commits[0]
        heard_s, end_offset, clock_ms = self._commits[0]
        if heard_s > now_s - KEPT_S:
            return
        for key, change in list(self._changes.items()):
            if change.offset >= end_offset or change.clock_ms > clock_ms:
                return
            del self._changes[key]
            if not change.group.state:
                self._shown.pop(key, None)

    def asked(self, question: GroupsAsked) -> None:
        """Take a question; one of each asker, the last, is answered."""
        if len(self._questions) < _QUESTIONS_MAX:
            self._questions[question.asker] = question

    def answers(self) -> Iterator[GroupsChanged]:
        """Yield the answers to all questions, each in pieces: the groups as they are now, those that are not listed any
        more among them."""
        questions, self._questions = self._questions, {}
        groups = tuple([change.group for change in self._changes.values()]) if questions else ()
        for asker, question in questions.items():
            for begin in range(0, max(len(groups), 1), GROUPS_PER_RECORD):
                end = begin + GROUPS_PER_RECORD
                yield GroupsChanged(
                    asker=asker, number=question.number, groups=groups[begin:end], is_last=end >= len(groups)
                )


def _shown(group: Group | None) -> tuple[str, str, str]:
    if group is None or not group.is_logged or group.body.state_name == GroupState.DEAD:
        return _NOT_LISTED
    return group.body.state_name, group.body.type_name, group.body.protocol_type or ""


DECODED_GROUPS_MAX = 2_000
"""Groups that are kept as objects: those that were touched last. The others rest as the bytes of their state."""
DECODED_BYTES_MAX = 64 << 20
"""The same, in bytes of their state and of the events since. As objects they take some times as much."""
_OUTDATED_DEADLINES_MAX = 1_000
"""Besides as many as there are groups: one that comes and goes leaves one each time, which is due in days."""


class AnsweringShard:
    """The groups of one shard. Feed it the records of the events partition from `state.start_offset` on."""

    def __init__(
        self,
        config: OperatorConfig,
        state: ShardState,
        decoded_groups_max: int = DECODED_GROUPS_MAX,
        decoded_bytes_max: int = DECODED_BYTES_MAX,
    ) -> None:
        self.clock_ms = state.clock_ms
        """The shard's clock: the last valid tick."""
        self.next_offset = state.start_offset
        """The offset after the last record that was taken."""
        self._config = config
        self._begin = state.end_offset
        self._rule_changes = state.rule_changes
        self._resting = dict(state.groups)
        self._resting_bytes = sum(size_of(key, group) for key, group in state.groups.items())
        self._decoded: dict[bytes, GroupCoordinator] = {}
        self._decoded_max = decoded_groups_max
        self._weights: dict[bytes, int] = {}
        """Of each decoded group about the bytes of its state: at most what it was, and what has come since."""
        self._decoded_bytes = 0
        self._decoded_bytes_max = decoded_bytes_max
        self._deadlines = [
            (group.next_deadline_ms, key) for key, group in state.groups.items() if group.next_deadline_ms is not None
        ]
        heapq.heapify(self._deadlines)
        self._earliest = {key: deadline_ms for deadline_ms, key in self._deadlines}
        """The earliest deadline of each group in the heap, the only one that counts."""
        self.changed = ChangedGroups()

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self._resting) + len(self._decoded)

    @property
    def state_bytes(self) -> int:
        """About the bytes of all groups as they are stored."""
        return self._resting_bytes + self._decoded_bytes

    @property
    def decoded_groups(self) -> int:
        """The number of groups that are kept as objects."""
        return len(self._decoded)

    @property
    def deadlines(self) -> int:
        """The number of deadlines that are kept, those that do not count any more included."""
        return len(self._deadlines)

    def take(self, key: bytes | None, value: bytes | None, offset: int, timestamp_ms: int) -> list[OutputRecord]:
        """Take the next record of the partition; return the answers that follow from it, as records for the sink.

        A record that the query makes a dead letter of has no answer, and changes nothing.
        """
        self.next_offset = offset + 1
        try:
            if key is None:
                if (rules := rules_in(value)) is not None:
                    self._change_rules(RuleChange(offset, self.clock_ms, rules))
                    return []
                tick_ms = read_tick(value, timestamp_ms, self._config.group.tick_ahead_bound_ms)
                self.clock_ms = max(self.clock_ms, tick_ms)
                return [] if offset < self._begin else list(self._fire())
            if offset < self._begin:
                return []
            group_id = decode_group_id(key)
            event = group_event(decode_group_event(group_id, value), offset, self.clock_ms, timestamp_ms)
        except EventError:
            return []
        coordinator = self._coordinator(key, group_id)
        while coordinator.fire_next(self.clock_ms):
            pass
        coordinator.handle(event)
        return self._put_back(key, coordinator, len(value or b""))

    def _change_rules(self, change: RuleChange) -> None:
        """Go by other rules from here on, unless the state says so already."""
        if change.offset not in [known.offset for known in self._rule_changes]:
            self._rule_changes = (*self._rule_changes, change)
            for coordinator in self._decoded.values():
                coordinator.change_rules(change)

    def _fire(self) -> Iterator[OutputRecord]:
        """Fire the timers that are due by the clock."""
        while self._deadlines and self._deadlines[0][0] <= self.clock_ms:
            deadline_ms, key = heapq.heappop(self._deadlines)
            if self._earliest.get(key) != deadline_ms:
                continue  # an earlier one has been pushed since, or the group is gone
            del self._earliest[key]
            coordinator = self._coordinator(key, decode_group_id(key))
            coordinator.advance_to(self.clock_ms)
            yield from self._put_back(key, coordinator)

    def _coordinator(self, key: bytes, group_id: str) -> GroupCoordinator:
        """Take a group out of those that are kept; a group that there is not yet is empty."""
        decoded = self._decoded.pop(key, None)
        if decoded is not None:
            return decoded
        stored = self._resting.pop(key, None)
        if stored is not None:
            size = size_of(key, stored)
            self._resting_bytes -= size
            self._weigh(key, size)
        group = None if stored is None else decode_group(stored.membership, stored.offsets)
        return GroupCoordinator(
            group_id, self._config.group, partition=self._config.partition, group=group,
            rule_changes=self._rule_changes,
        )  # fmt: skip

    def _put_back(self, key: bytes, coordinator: GroupCoordinator, event_bytes: int = 0) -> list[OutputRecord]:
        """Keep a group, and return its new answers."""
        if coordinator.group is None:
            self._earliest.pop(key, None)
            self._decoded_bytes -= self._weights.pop(key, 0)
        else:
            self._decoded[key] = coordinator
            self._weigh(key, event_bytes)
            self._note_deadline(key, coordinator.next_deadline_ms())
            while len(self._decoded) > self._decoded_max or (
                self._decoded_bytes > self._decoded_bytes_max and len(self._decoded) > 1
            ):
                self._rest(next(iter(self._decoded)))
        topic = self._config.topics.responses
        outputs = coordinator.take_outputs()
        if len(outputs) > 1 or (outputs and type(outputs[0]) is not Answer):
            self.changed.note(key, coordinator.group, outputs, self.next_offset - 1, self.clock_ms)
        answers = (output for output in outputs if type(output) is Answer)
        records = (output_record(answer, self._config) for answer in answers)
        return [record for record in records if record.topic == topic]  # others are dead letters

    def _note_deadline(self, key: bytes, deadline_ms: int | None) -> None:
        """Have the group looked at when its deadline is due. A deadline that has moved to later is found when the
        earlier one is due."""
        earliest_ms = self._earliest.get(key)
        if deadline_ms is not None and (earliest_ms is None or deadline_ms < earliest_ms):
            self._earliest[key] = deadline_ms
            heapq.heappush(self._deadlines, (deadline_ms, key))
            if len(self._deadlines) > 2 * len(self._earliest) + _OUTDATED_DEADLINES_MAX:
                self._deadlines = [(deadline_ms, key) for key, deadline_ms in self._earliest.items()]
                heapq.heapify(self._deadlines)

    def _weigh(self, key: bytes, more_bytes: int) -> None:
        self._weights[key] = self._weights.get(key, 0) + more_bytes
        self._decoded_bytes += more_bytes

    def _rest(self, key: bytes) -> None:
        """Keep the bytes of a group's state instead of its objects."""
        coordinator = self._decoded.pop(key)
        self._decoded_bytes -= self._weights.pop(key)
        assert coordinator.group is not None
        stored = StoredGroup(coordinator.next_deadline_ms(), *encode_group(coordinator.group))
        self._resting[key] = stored
        self._resting_bytes += size_of(key, stored)


class LogPlace(NamedTuple):
    """A place in a shard's log."""

    end_offset: int
    """It is before this event."""
    clock_ms: int
    """The shard's clock there."""


class TakenAnswers:
    """Knows the answers that Kafka has not taken yet."""

    def __init__(self) -> None:
        self._waiting: dict[int, LogPlace] = {}
        """Number of an answer -> the place before the event that it follows from."""

    def sent(self, number: int, before: LogPlace) -> None:
        """Note an answer that Kafka is to get; later ones have larger numbers."""
        self._waiting[number] = before

    def taken(self, number: int) -> None:
        """Note that Kafka has taken an answer."""
        self._waiting.pop(number, None)

    def up_to(self, here: LogPlace) -> LogPlace:
        """Return the place up to which all is answered, where all up to `here` is decided."""
        return next(iter(self._waiting.values()), here)
