"""A group is followed again and again, as its evidence grows: not from its first record, but from a place up to which
nothing has changed.

What comes of it is what following all of the evidence gives. The state at a place is used again where all records and
lines before it are the same, and where what was asked of later ones has the same answers.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.observed.ahead import Asked, DumpEnd, profile_of
from group_coordinator.watching.observed.group import ObservedGroup, last_forms, stored_generations
from group_coordinator.watching.observed.ordering import Item, TimedLine, in_one_step, in_order
from group_coordinator.watching.observed.stored_groups import StoredMember
from group_coordinator.watching.observed.transactions import Commits, Fact
from schemas.history import History
from schemas.java_hash import group_partition

OFFSETS_PARTITIONS = 50
"""Kafka's default of `offsets.topic.num.partitions`; of use only where neither record nor line names a partition."""


class KeptGroup(Struct, frozen=True, kw_only=True):
    """What is kept of one group."""

    group_id: str
    lines: Sequence[TimedLine]
    """By time."""
    facts: Sequence[Fact]
    """By offset."""
    topic_names: Mapping[str, str]

    @property
    def partition(self) -> int:
        """The group's partition of the offsets topic."""
        partition = partition_of(self.facts, [line.line for line in self.lines])
        return group_partition(self.group_id, OFFSETS_PARTITIONS) if partition is None else partition

    def group(self) -> ObservedGroup:
        """Return the group, which is not followed yet."""
        return ObservedGroup(self.group_id, self.partition, self.topic_names)

    def follow(self, end: DumpEnd | None = None) -> tuple[ObservedGroup, list[History]]:
        """Return the group and its history."""
        group = self.group()
        return group, group.follow(in_order(self.facts, self.lines), end)


def partition_of(facts: Sequence[Fact], lines: Sequence[BrokerLine]) -> int | None:
    """Return the partition of the offsets topic in which a group lies; None where neither record nor line says so."""
    if facts:
        return facts[0].partition
    return next((line.partition for line in lines if line.partition is not None), None)


FEWEST = 128
"""A group with fewer records and lines is followed from the first one."""
_TAIL = 40
"""So many of the latest records and lines may change before a state has to be given up ..."""
_APART = 64
"""... and states are so far from each other."""
_STATES_MAX = 2

Mark = tuple[object, int, int]
"""What tells a record or a line, as it was followed, from another one."""


class Followed(NamedTuple):
    """What came of it."""

    group: ObservedGroup
    unchanged: int
    """So many records of history are those of the last time ..."""
    history: list[History]
    """... and these are behind them."""


class _State(NamedTuple):
    """A group as it was before a place."""

    place: int
    records: int
    """So much history was told before."""
    asked: Asked
    """What was asked until then of records from the place on."""
    forms: Mapping[str, StoredMember]
    """The last stored form of each member, of records before the place."""
    group: bytes


_BEGINNING = _State(place=0, records=0, asked=Asked(), forms={}, group=b"")


class Following:
    """Follows one group again and again."""

    def __init__(self) -> None:
        self._states: list[_State] = []
        """The earliest first."""
        self._marks: list[Mark] = []
        """They mark all that was followed last time."""
        self._setting = -1, -1
        """The partition, and the version of the names of topics."""

    def follow(self, kept: KeptGroup, names_version: int) -> Followed:
        """Follow all of this. `names_version`: another one where topics have other names."""
        items = in_order(kept.facts, kept.lines)
        marks = [_mark(item) for item in items]
        setting = kept.partition, names_version
        same = _first_difference(self._marks, marks) if setting == self._setting else 0
        self._marks, self._setting = marks, setting
        while self._states and not _is_as_before(self._states[-1], items, same):
            self._states.pop()
        state = self._states[-1] if self._states else _BEGINNING
        return self._go_on(state, _group_of(state, kept), items)

    def _go_on(self, state: _State, group: ObservedGroup, items: Sequence[Item]) -> Followed:
        generations = stored_generations(items, state.place)
        group.ahead.tell(generations, {**state.forms, **last_forms(generations)}, _copied(state.asked))
        place = _end_of_step(items, len(items) - _TAIL)
        if place < state.place + _APART:
            return Followed(group, state.records, group.go_through(items, state.place, len(items)))
        history = group.go_through(items, state.place, place)
        self._states.append(
            _State(
                place=place,
                records=state.records + len(history),
                asked=_copied(group.ahead.asked),
                forms={**state.forms, **last_forms(each for each in generations if each[0] < place)},
                group=pickle.dumps(group, pickle.HIGHEST_PROTOCOL),
            )
        )
        del self._states[:-_STATES_MAX]
        return Followed(group, state.records, history + group.go_through(items, place, len(items)))


def _is_as_before(state: _State, items: Sequence[Item], same: int) -> bool:
    """Return whether following would come to this state. `same`: so many items are those of the last time."""
    if state.place >= same or state.asked.to_place >= same:
        return False
    forms = {**state.forms, **last_forms(stored_generations(items, state.place))}
    for member_id, profile in state.asked.profiles.items():
        form = forms.get(member_id)
        if profile != (None if form is None else profile_of(form)):
            return False
    return True


def _group_of(state: _State, kept: KeptGroup) -> ObservedGroup:
    if not state.group:
        return kept.group()
    group: ObservedGroup = pickle.loads(state.group)
    group.name_topics(kept.topic_names)
    return group


def _copied(asked: Asked) -> Asked:
    return Asked(to_place=asked.to_place, profiles=dict(asked.profiles))


def _end_of_step(items: Sequence[Item], place: int) -> int:
    """Return this place, or an earlier one where no step goes on."""
    while place > 0 and in_one_step(items[place - 1], items[place]):
        place -= 1
    return place


def _mark(item: Item) -> Mark:
    if isinstance(item, TimedLine):
        return item.line, item.at_ms, 0
    if isinstance(item, Commits):  # they change: later ones take the place of some, and others are added behind
        return item, len(item.records), item.records[-1].offset if item.records else -1
    return item, 0, 0


def _first_difference(before: Sequence[Mark], marks: Sequence[Mark]) -> int:
    for place, (old, new) in enumerate(zip(before, marks, strict=False)):
        if old[0] is not new[0] or old[1:] != new[1:]:
            return place
    return min(len(before), len(marks))
