"""Takes records and lines as they come, and follows again each group that they touch.

What is told in the end is a function of all that came, whatever the order of the lines, of the partitions and of the
pieces. The records of one partition come in the order of their offsets, as Kafka gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.broker_logs.broker_patterns import NO_GROUP
from group_coordinator.watching.history.stored_generations import StoredGenerations
from group_coordinator.watching.observed.clock_skew import Skew, Skews
from group_coordinator.watching.observed.evidence import BOUNDED, Bounds
from group_coordinator.watching.observed.following import FEWEST, Following, KeptGroup, partition_of
from group_coordinator.watching.observed.group_state import GroupState, encode_group
from group_coordinator.watching.observed.held_groups import LATER_MAX, Group, HeldGroups, has_topic_ids
from group_coordinator.watching.observed.member_lines import MemberLines
from group_coordinator.watching.observed.offsets_log import CommitRecord, Entry, LogRecord
from group_coordinator.watching.observed.ordering import OF_RECORDS, timed
from group_coordinator.watching.observed.partition_loads import PartitionLoads
from group_coordinator.watching.observed.standstills import Begin, Standstill, Standstills
from group_coordinator.watching.observed.stored_groups import session_timeouts
from group_coordinator.watching.observed.topic_names import NamesInRecords
from group_coordinator.watching.observed.transactions import (
    Commits,
    Fact,
    OpenTransaction,
    PartitionCommits,
    PartitionState,
)
from schemas.history import History


class GroupUpdate(Struct, frozen=True, kw_only=True):
    """What is new of one group."""

    group_id: str
    history: Sequence[History]
    unchanged: int | None
    """So many records that were told of the group stay, and these are in place of all others; None: all stay, and these
    are behind them."""
    all_history: Callable[[], Sequence[History]] | None = None
    """Returns the history of the group from its beginning, as long as nothing comes; None where all stay."""
    stored: StoredGenerations | None = None
    """What the generations of a classic group say, as above."""


class _Partition:
    """One partition of the offsets topic."""

    def __init__(self) -> None:
        self.next_offset = 0
        self.commits = PartitionCommits()
        self.loads = PartitionLoads()


class Observer:
    """All groups of one cluster."""

    def __init__(self, topic_names: Mapping[str, str] | None = None, bounds: Bounds = BOUNDED) -> None:
        """`topic_names`: by topic id in hexadecimal digits. `bounds`: how much of the evidence is kept."""
        self._topic_names = dict(topic_names or {})
        self._names_version = 0
        """Grows with the names of topics."""
        self._names_in_records = NamesInRecords(self._topic_names)
        self._topic_ids: set[str] = set()
        """Those that commits have named, as text with hyphens."""
        self._partitions: dict[int, _Partition] = {}
        self._groups = HeldGroups(bounds)
        self._touched: dict[str, None] = {}
        """The groups about which something has come."""
        self._skew_evidence = Skews()
        self._skews: dict[int | None, Skew] = {}
        self.standstill_evidence = Standstills()
        self._standstills: dict[str, list[Standstill]] = {}
        """By group."""
        self._begins_ms: dict[str, int] = {}
        """The time of each file's first line."""
        self._member_lines = MemberLines()

    # -------------------------------------------------------------------------------------------------------- evidence

    def add_records(self, entries: Iterable[Entry]) -> None:
        """Take records, each partition's in the order of offsets. What comes again is passed over."""
        for entry in entries:
            partition = self._partition(entry.partition)
            if entry.offset < partition.next_offset:
                continue
            partition.next_offset = entry.offset + 1
            self.standstill_evidence.record(entry.partition, entry.timestamp_ms)
            if partition.loads.record(entry):
                self._touch(partition.loads.group_ids)
            for fact in partition.commits.take(entry):
                self._add_fact(fact)
            self._groups.make_room()

    def add_lines(self, lines: Iterable[BrokerLine]) -> None:
        """Take lines of brokers' logs, in any order."""
        for line in lines:
            if line.file != OF_RECORDS:
                self._note_beginning(line)
            self.standstill_evidence.line(line)
            if line.event.group_id != NO_GROUP:
                self._add_line(line)
            elif isinstance(line.event, line_events.PartitionLoaded):
                self._add_load(self._partition(line.event.of_partition).loads, line)
            elif isinstance(line.event, line_events.InstanceFenced) and line.event.owner_member_id is not None:
                self._add_line_of_member(line.event.owner_member_id, line)
            self._groups.make_room()

    def _partition(self, number: int) -> _Partition:
        return self._partitions.setdefault(number, _Partition())

    def _add_load(self, loads: PartitionLoads, line: BrokerLine) -> None:
        if loads.add(line):
            self._touch(loads.group_ids)

    def _note_beginning(self, line: BrokerLine) -> None:
        begins_ms = self._begins_ms.get(line.file)
        if begins_ms is None or line.time_ms < begins_ms:
            self._begins_ms[line.file] = line.time_ms
            if begins_ms is not None:
                self._touch_lines(lambda other: other.file == line.file)

    def name_topics(self, topic_names: Mapping[str, str]) -> None:
        """Take names of topics, by id in hexadecimal digits."""
        if topic_names.items() - self._topic_names.items():
            self._topic_names |= topic_names
            self._names_version += 1
            self._learn_names(self._names_in_records.named(topic_names))
            self._touch(self._groups.with_topic_ids())

    def _add_fact(self, fact: Fact) -> None:
        if isinstance(fact, CommitRecord) and (waiting := self._groups.add_later(fact)):
            self._note_topic_id(fact)
            if waiting >= LATER_MAX:
                self._touched[fact.group_id] = None
            return
        group = self._groups.get(fact.group_id)
        group.evidence.add(fact)
        self._groups.added(group, fact)
        self._partition(fact.partition).loads.group_ids[fact.group_id] = None
        self._note_fact(group, fact)

    def _note_fact(self, group: Group, fact: Fact) -> None:
        """Note what a fact of one group tells of others, and of brokers."""
        self._touched[fact.group_id] = None
        if isinstance(fact, CommitRecord):
            self._note_topic_id(fact)
        elif isinstance(fact, LogRecord):
            self._skew_evidence.record(fact)
            self._note_members(fact)
            group.has_topic_ids = group.has_topic_ids or has_topic_ids(fact)
            self._learn_names(self._names_in_records.take(fact))

    def _note_topic_id(self, commit: CommitRecord) -> None:
        topic_id = None if commit.value is None else commit.value.topic_id
        if topic_id is not None and topic_id not in self._topic_ids:
            self._topic_ids.add(topic_id)
            self._learn_names({topic_id.replace("-", ""): commit.key.topic})

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def on_disk(self) -> int:
        """How many groups lie on disk, because they find no room in memory."""
        return self._groups.on_disk

    @property
    def waiting(self) -> int:
        """About how many groups something has come that was not taken."""
        return len(self._touched)

    @property
    def parts(self) -> int:
        """How many parts `evidence` yields."""
        return self._groups.parts + 1

    def evidence(self) -> Iterator[bytes]:
        """Yield the evidence of each group, as `group_state` encodes it, and last the lines that tell of partitions."""
        yield from self._groups.encoded()
        lines = [line for partition in self._partitions.values() for line in partition.loads.lines]
        yield encode_group(GroupState(group_id=NO_GROUP, facts=(), lines=lines))

    def partitions(self) -> Iterator[tuple[int, int, PartitionState]]:
        """Yield what is known of each partition: where to read on, and its transactions."""
        for number, partition in self._partitions.items():
            yield number, partition.next_offset, partition.commits.state()

    def restore_group(self, state: GroupState) -> None:
        """Take what `evidence` gave before a restart."""
        later = [fact for fact in state.facts if isinstance(fact, CommitRecord) and fact.value is not None]
        for commit in later:
            self._add_fact(commit)
        if (state.facts or state.group_id != NO_GROUP) and not later:  # else they are lines of partitions
            group = self._groups.get(state.group_id)
            group.evidence.restore(state.facts, state.whole_from)
            for fact in state.facts:
                self._groups.added(group, fact)
                loads = self._partition(fact.partition).loads
                loads.group_ids[state.group_id] = None
                loads.note_epoch(fact.leader_epoch)
                for record in fact.records if isinstance(fact, Commits) else (fact,):
                    self._note_fact(group, record)
        self.add_lines(state.lines)

    def restore_partition(self, number: int, next_offset: int, state: PartitionState) -> None:
        """Take what `partitions` gave before a restart."""
        partition = self._partitions[number] = _Partition()
        partition.next_offset = next_offset
        partition.commits.restore(state)

    def _learn_names(self, names: Mapping[str, str]) -> None:
        """Take names that stand in records; those that were given hold."""
        self.name_topics({topic_id: name for topic_id, name in names.items() if topic_id not in self._topic_names})

    def _note_members(self, record: LogRecord) -> None:
        """Note static members: a line that names a member alone is of the group that has had this member."""
        members = record.value.get("members") if record.value else None
        for member in members if isinstance(members, tuple) else ():
            member_id = member["member_id"]
            if member.get("group_instance_id") is not None:
                for line in self._member_lines.note(member_id, record.group_id):
                    self._add_line_of_member(member_id, line)

    def _add_line_of_member(self, member_id: str, line: BrokerLine) -> None:
        group_id = self._member_lines.group_of(member_id)
        if group_id is None:
            self._member_lines.wait(member_id, line)
        else:
            self._add_line(replace(line, event=replace(line.event, group_id=group_id)))

    def _add_line(self, line: BrokerLine) -> None:
        group = self._groups.get(line.event.group_id)
        if group.evidence.add_line(line):
            self._groups.added(group, line)
            if line.partition is not None:
                self._partition(line.partition).loads.group_ids[line.event.group_id] = None
            self._skew_evidence.line(line)
            self._touched[line.event.group_id] = None

    def _touch(self, group_ids: Iterable[str]) -> None:
        for group_id in group_ids:
            self._groups.look(group_id).evidence.is_changed = True  # of one on disk it always is
            self._touched[group_id] = None

    # --------------------------------------------------------------------------------------------------------- history

    def take(self) -> Iterator[GroupUpdate]:
        """Yield the news of each group with new evidence since it was last taken, the longest waiting first.

        Groups that are not taken wait for the next call.
        """
        self._estimate_skews()
        self.want(self._groups.longest_waiting())
        for group_id in list(self._touched):
            del self._touched[group_id]
            group = self._groups.get(group_id)
            continued = group.go_on()
            if continued is None:
                yield self._follow(group)
            else:
                yield GroupUpdate(group_id=group_id, history=continued, unchanged=None)
            self._groups.make_room()

    def want(self, group_ids: Iterable[str]) -> None:
        """Follow these groups when news are taken next, if they lie on disk and commits of them wait."""
        self._touched.update((group_id, None) for group_id in group_ids if self._groups.has_later(group_id))

    def whole(self, until_ms: int | None = None) -> Iterator[History]:
        """Yield the history of all groups that follows from all kept evidence: group by group, in order. `until_ms`: no
        record will come, and the last line was written then."""
        for group_id in self.group_ids():
            kept = self._kept(self._groups.look(group_id))
            yield from kept.follow(self.standstill_evidence.dump_end(kept.partition, until_ms))[1]

    def group_ids(self) -> list[str]:
        """Return all groups, in order. The clocks of brokers' logs are estimated anew."""
        self._estimate_skews()
        return self._groups.ids()

    def kept_of(self, group_id: str) -> KeptGroup:
        """Return the evidence of one group for another thread: what comes later does not change it."""
        kept = self._kept(self._groups.look(group_id))
        facts = [replace(fact, records=[*fact.records]) if isinstance(fact, Commits) else fact for fact in kept.facts]
        return replace(kept, facts=facts)

    @property
    def unnamed_topics(self) -> Collection[str]:
        """The ids of topics that stand in records in place of names that nothing has told."""
        return self._names_in_records.unnamed.keys()

    @property
    def skews(self) -> Mapping[int | None, Skew]:
        """The skew of each broker's log, as of the last look."""
        return self._skews

    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """Return the transactions whose end is not in the log, the oldest first."""
        transactions = [
            transaction
            for partition in self._partitions.values()
            for transaction in partition.commits.open_transactions()
        ]
        return tuple(sorted(transactions, key=lambda transaction: (transaction.since_ms, transaction.producer_id)))

    def next_offsets(self) -> Mapping[int, int]:
        """Return the offset of each partition where reading goes on."""
        return {number: partition.next_offset for number, partition in self._partitions.items()}

    def _follow(self, group: Group) -> GroupUpdate:
        kept = self._kept(group)
        if group.following is None and _is_much(kept):
            group.following = Following()
        if group.following is None:
            group.followed, history = kept.follow()
            unchanged = 0
        else:
            group.followed, unchanged, history = group.following.follow(kept, self._names_version)
        group.followed_all(kept)
        self._groups.weigh(group)
        return GroupUpdate(
            group_id=kept.group_id, history=history, unchanged=unchanged, all_history=lambda: kept.follow()[1],
            stored=group.stored,
        )  # fmt: skip

    def _kept(self, group: Group) -> KeptGroup:
        lines, facts = group.evidence.lines(), group.evidence.facts()
        number = partition_of(facts, lines)
        loads = self._partition(number).loads.lines if number is not None else ()
        return KeptGroup(
            group_id=group.evidence.group_id,
            lines=timed((*self._stalled_lines(group, lines), *lines, *loads), self._skews, self._begins_ms),
            facts=facts,
            topic_names=self._topic_names,
        )

    def _stalled_lines(self, group: Group, lines: Sequence[BrokerLine]) -> Iterator[BrokerLine]:
        for standstill in self._standstills.get(group.evidence.group_id, ()):
            first = standstill.first_line(lines)
            if first is not None:
                yield standstill.line_for(first)

    def _find_standstills(self) -> None:
        """Find anew which coordinators stood still."""
        before, self._standstills = self._standstills, {}
        for candidate in self.standstill_evidence.candidates():
            standstill = self._stood_still(candidate)
            if standstill is not None:
                for group_id in standstill.group_ids:
                    self._standstills.setdefault(group_id, []).append(standstill)
        changed = before.keys() | self._standstills.keys()
        self._touch(each for each in changed if before.get(each) != self._standstills.get(each))

    def _stood_still(self, candidate: Standstill) -> Standstill | None:
        sessions: dict[str, int] = {}
        written_ms: list[int] = []
        begins_ms: dict[str, list[int]] = {}
        partitions: dict[int, None] = {}
        for group_id in candidate.group_ids:
            evidence = self._groups.look(group_id).evidence
            facts, lines = evidence.facts(), evidence.lines()
            sessions |= session_timeouts(facts)
            written_ms += [fact.timestamp_ms for fact in facts]
            begins_ms[group_id] = [line.time_ms for line in lines if isinstance(line.event, Begin)]
            number = partition_of(facts, lines)
            if number is not None:
                partitions[number] = None
        skew_ms = _skew_ms(self._skews.get(candidate.broker))
        return self.standstill_evidence.confirmed(candidate, partitions, sessions, begins_ms, written_ms, skew_ms)

    def _estimate_skews(self) -> None:
        before, self._skews = self._skews, self._skew_evidence.estimate()
        moved = {
            broker
            for broker in before.keys() | self._skews.keys()
            if _skew_ms(before.get(broker)) != _skew_ms(self._skews.get(broker))
        }
        if moved:
            self._touch_lines(lambda line: line.broker in moved)
        self._find_standstills()

    def _touch_lines(self, is_meant: Callable[[BrokerLine], bool]) -> None:
        """Touch the groups of such lines: their order may have changed."""
        self._touch(self._groups.with_lines(is_meant))


def _is_much(kept: KeptGroup) -> bool:
    return len(kept.lines) + sum(not isinstance(fact, Commits) for fact in kept.facts) >= FEWEST


def _skew_ms(skew: Skew | None) -> int:
    return 0 if skew is None else skew.skew_ms
