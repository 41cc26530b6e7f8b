"""One group of any kind, followed through its records and lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.broker_logs.broker_patterns import NO_GROUP
from group_coordinator.watching.observed.ahead import Ahead, Asked, DumpEnd, Stored
from group_coordinator.watching.observed.classic import ClassicGroup
from group_coordinator.watching.observed.confirmation import CONFIRMED, Standing, confirmation, take_over_confirmed
from group_coordinator.watching.observed.coordinator import Coordinator, TakeOver
from group_coordinator.watching.observed.hints import Hints
from group_coordinator.watching.observed.modern import ModernGroup
from group_coordinator.watching.observed.modern_records import Step, TopicNames, kind_of, read_step
from group_coordinator.watching.observed.offsets_log import CommitRecord, LogRecord, is_of_classic_group
from group_coordinator.watching.observed.ordering import Item, TimedLine, in_one_step
from group_coordinator.watching.observed.stored_groups import StoredGeneration, StoredMember, stored_generation
from group_coordinator.watching.observed.teller import Teller
from group_coordinator.watching.observed.transactions import AbortedCommits, Commits, PendingCommits, ReplacedCommits
from schemas.consumer_group_history import GroupConverted
from schemas.history import History, HistoryRecord, OffsetChange, OffsetsCommitted, RecordingGap
from schemas.observed_history import CoordinatorChanged, CoordinatorStalled, OffsetsRemoved
from schemas.transaction_history import (
    TransactionalOffsetsAborted,
    TransactionalOffsetsPending,
    TransactionalOffsetsReplaced,
)

_OF_TRANSACTIONS: Mapping[type[Commits], type[HistoryRecord]] = {
    PendingCommits: TransactionalOffsetsPending,
    AbortedCommits: TransactionalOffsetsAborted,
    ReplacedCommits: TransactionalOffsetsReplaced,
}


class GroupCommits:
    """The committed offsets of one group."""

    def __init__(self, teller: Teller) -> None:
        self._tell = teller
        self._offsets: dict[tuple[str, int], int] = {}

    def written(self, commits: Commits) -> None:
        """Note offsets that were committed, are pending, or never count."""
        changes, kind = self._changes(commits), _OF_TRANSACTIONS.get(type(commits))
        if kind is not None:
            producer_id, producer_epoch = commits.producer_id, commits.producer_epoch
            self._tell.say(kind, producer_id=producer_id, producer_epoch=producer_epoch, offsets=changes)
            return
        self._offsets |= {
            (change.topic, change.partition): change.offset for change in changes if change.offset is not None
        }
        self._tell.say(OffsetsCommitted, member_id=None, offsets=changes)

    def removed(self, record: CommitRecord) -> None:
        """Note that an offset is no longer stored. Nothing is recorded where none was known."""
        place = record.key.topic, record.key.partition
        before = self._offsets.pop(place, None)
        if before is not None:
            change = OffsetChange(*place, None, before)
            self._tell.say(OffsetsRemoved, certainty="not_known", offsets=(change,))

    def _changes(self, commits: Commits) -> tuple[OffsetChange, ...]:
        return tuple(self._change(record) for record in commits.records)

    def _change(self, record: CommitRecord) -> OffsetChange:
        key, value = record.key, record.value
        assert value is not None
        before = self._offsets.get((key.topic, key.partition))
        return OffsetChange(key.topic, key.partition, value.offset, before, value.leader_epoch, value.metadata)


BEYOND = "it has gone on, and the records of the offsets topic end before that"
_OF_COORDINATORS = (line_events.GroupLoaded, line_events.PartitionLoaded, line_events.GroupUnloaded)

StepRecord = LogRecord | CommitRecord
"""A tombstone of a commit, or a record that is no commit."""


class ObservedGroup:
    """Makes the history of one group."""

    def __init__(self, group_id: str, partition: int, topic_names: TopicNames) -> None:
        self._tell = Teller(group_id, partition)
        self._commits = GroupCommits(self._tell)
        self._topic_names = topic_names
        self._coordinator = Coordinator()
        self._hints = Hints()
        self.ahead = Ahead()
        """What is told of records before they are followed."""
        self._classic = ClassicGroup(self._tell, self.ahead, self._hints)
        self._modern: ModernGroup | None = None
        """While the group is not a classic one."""
        self._is_lost = False
        """The dump has ended, and the group has gone on."""

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_topic_names": {}}

    def name_topics(self, topic_names: TopicNames) -> None:
        """Take the names of topics, which are not kept with the group."""
        self._topic_names = topic_names

    def follow(self, items: Sequence[Item], end: DumpEnd | None = None) -> list[History]:
        """Return the history that all known records and lines tell, in their order. `end`: no record comes later."""
        generations = stored_generations(items)
        self.ahead.tell(generations, last_forms(generations), Asked())
        if end is None:
            return self.go_through(items, 0, len(items))
        last = max((place for place, item in enumerate(items) if not isinstance(item, TimedLine)), default=-1)
        self.ahead.end_at(last, end)
        history = self.go_through(items, 0, last + 1)
        if end.is_early and self._modern is not None and self._modern.is_moving:
            self._lose_sight(end.of_dump_ms)
        return history + self.go_through(items, last + 1, len(items))

    def _lose_sight(self, at_ms: int | None = None) -> None:
        """Note that the group has gone on, and that its records do not tell how."""
        self._is_lost = True
        self._tell.say(RecordingGap, at_ms=at_ms, certainty="not_known", reason=BEYOND)

    def go_through(self, items: Sequence[Item], begin: int, end: int) -> list[History]:
        """Return the history that these of the records and lines tell. Each step lies on one side of an end."""
        step: list[tuple[int, StepRecord]] = []
        for place in range(begin, end):
            item = items[place]
            if step and not in_one_step(step[-1][1], item):
                self._step(step)
                step = []
            if isinstance(item, TimedLine):
                self.ahead.stand_at(place)
                self._line(item, place, items)
                self._tell.is_confirmed = True
            elif isinstance(item, Commits):
                self._written(item)
            else:
                step.append((place, item))
        if step:
            self._step(step)
        return self._tell.take_history()

    def go_on(self, commits: Iterable[Commits]) -> list[History]:
        """Return the history of commits that were written after all that was followed."""
        for step in commits:
            self._written(step)
        return self._tell.take_history()

    def _written(self, commits: Commits) -> None:
        self._tell.look_at(commits)
        self._note_coordinator(commits)
        self._commits.written(commits)
        self._classic.note_offsets()

    def _are_confirmed(self, timed: TimedLine, place: int, items: Sequence[Item]) -> tuple[bool, bool]:
        """Return whether what comes later confirms what a line tells, and whether it confirms that its broker is the
        coordinator. Of a group that counts epochs the records tell all else."""
        line = timed.line
        if line.event.group_id != NO_GROUP and line.partition not in (None, self._tell.partition):
            return False, False  # a coordinator tells of this group in another partition's name
        standing = Standing(
            place, timed.at_ms, self._tell.generation_id, self._coordinator.leader_epoch, self._classic.members,
            self._classic.given_ids, self._instance_of,
        )  # fmt: skip
        told = over = CONFIRMED
        if self._modern is None:
            told = confirmation(line.event, standing, items, self.ahead.stored_at)
        if self._coordinator.may_be_moved_by(timed):
            over = take_over_confirmed(line.event, standing, items, self.ahead.stored_at)
        self.ahead.ask_up_to(max(told.place, over.place))
        return told.is_confirmed and over.is_confirmed, over.is_confirmed

    def _instance_of(self, member_id: str) -> str | None:
        profile = self.ahead.profile(member_id)
        return None if profile is None else profile.identity.group_instance_id

    def _line(self, line: TimedLine, place: int, items: Sequence[Item]) -> None:
        event = line.line.event
        if self._coordinator.is_past(line) or self._is_lost:
            return
        self._tell.look_at(line)
        is_moved_by = line_events.is_of_modern_group if self._modern is None else self._modern.is_moved_by
        if self.ahead.is_beyond(line.at_ms) and is_moved_by(event):
            self._lose_sight()
            return
        is_confirmed, is_of_coordinator = self._are_confirmed(line, place, items)
        self._tell.is_confirmed = is_confirmed
        if not is_of_coordinator and isinstance(event, _OF_COORDINATORS):
            self._tell_of_take_over(line)
            return
        take_over = self._coordinator.line(line) if is_of_coordinator else None
        loaded = event if isinstance(event, line_events.GroupLoaded) else None
        if take_over is not None and (loaded is not None or self._modern is not None or self._classic.is_known):
            self._taken_over(take_over, loaded)
        if isinstance(event, line_events.BrokerStoodStill):
            self._stood_still(event, line.line.broker)
        if is_confirmed:
            self._hints.line(event)
        if self._modern is None:
            self._classic.line(event)
        else:
            self._modern.line(event)

    def _tell_of_take_over(self, line: TimedLine) -> None:
        """Tell that a line says that another broker coordinates the group, which nothing confirms: the group stays as
        it was, and its coordinator's lines count as before."""
        event = line.line.event
        if isinstance(event, line_events.GroupLoaded | line_events.PartitionLoaded):
            epoch = event.leader_epoch if isinstance(event, line_events.PartitionLoaded) else None
            self._tell.say(CoordinatorChanged, broker_id=line.line.broker, leader_epoch=epoch)

    def _stood_still(self, event: line_events.BrokerStoodStill, broker: int | None) -> None:
        assert broker is not None
        seq = self._tell.say(
            CoordinatorStalled,
            certainty="inferred",
            broker_id=broker,
            since_ms=event.since_ms,
            until_ms=event.until_ms,
            members=event.members,
            groups=event.groups,
        )
        self._hints.stalled = dict.fromkeys(event.member_ids, (seq, broker))

    def _step(self, step: list[tuple[int, StepRecord]]) -> None:
        """Take the records that were written in one step, none of them a commit."""
        first = step[0][1]
        self._tell.look_at(first)
        self._note_coordinator(first)
        for _, record in step:
            if isinstance(record, CommitRecord):
                self._commits.removed(record)
        records = [record for _, record in step if isinstance(record, LogRecord)]
        kind = next((kind for kind in map(kind_of, (record.name for record in records)) if kind is not None), None)
        classic = [(place, record) for place, record in step if is_of_classic_group(record)]
        if kind is None:
            for place, record in classic:
                self._tell.look_at(record)
                self._classic_record(place)
            return
        generation = self.ahead.stored_at(classic[-1][0]) if classic else None
        if generation is not None:
            self._to_classic(generation)
        else:
            self._modern_step(read_step(kind, records, self._topic_names), was_classic=bool(classic))

    def _classic_record(self, place: int) -> None:
        generation = self.ahead.stored_at(place)
        if generation is None:
            self._classic.tombstone()
        elif self._modern is not None:
            self._to_classic(generation)
        else:
            self._classic.stored(generation)

    def _modern_step(self, step: Step, *, was_classic: bool) -> None:
        conversion = None
        if self._modern is None:
            self._modern = ModernGroup(self._tell, step.kind, self._hints)
            if was_classic:
                members = self._classic.members
                self._classic.leave_protocol()
                conversion = self._tell.say(GroupConverted, to_protocol=step.kind)
                self._modern.convert(members)
        self._modern.step(step, conversion)
        if step.is_deleted:
            self._modern = None
            self._classic.forget_offsets()
            self._tell.life += 1
            self._tell.generation_id = 0

    def _to_classic(self, generation: StoredGeneration) -> None:
        departures = [] if self._modern is None else self._modern.become_classic(generation.members)
        self._modern = None
        self._tell.say(GroupConverted, caused_by=departures[-1][0] if departures else None, to_protocol="classic")
        self._classic.take_up_protocol(generation, departures)

    def _note_coordinator(self, item: StepRecord | Commits) -> None:
        take_over = self._coordinator.record(item)
        if take_over is not None:
            self._taken_over(take_over)

    def _taken_over(self, take_over: TakeOver, loaded: line_events.GroupLoaded | None = None) -> None:
        """Make the group what its new coordinator has of it."""
        self._tell.say(
            CoordinatorChanged,
            certainty=take_over.certainty,
            broker_id=take_over.broker_id,
            leader_epoch=take_over.leader_epoch,
        )
        self._hints.forget()
        if self._modern is None:
            self._classic.load(loaded)


def stored_generations(items: Sequence[Item], begin: int = 0) -> list[Stored]:
    """Return the generations that are stored from a place on."""
    generations = []
    for place in range(begin, len(items)):
        item = items[place]
        if is_of_classic_group(item):
            generation = stored_generation(item)
            if generation is not None:
                generations.append((place, generation))
    return generations


def last_forms(generations: Iterable[Stored]) -> dict[str, StoredMember]:
    """Return the last stored form of each member."""
    return {member_id: member for _, generation in generations for member_id, member in generation.members.items()}
