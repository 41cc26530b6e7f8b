"""The fold: one group's records of history, one after the other, said to a view in the words of every kind of group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from group_coordinator.watching.history.meanings import MEANINGS
from group_coordinator.watching.history.order import Place, sort_key, take_place
from group_coordinator.watching.history.view import HistoryView
from schemas.history import History


def tell(record: History, view: HistoryView) -> None:
    """Pass the meaning of one record to a view that counts records and follows no group."""
    MEANINGS[type(record)].tell(view, record)


NO_LIFE = -1
"""In place of an epoch."""


class GroupFold(HistoryView):
    """Follows one group. Records come in the order of (epoch, seq); one that comes again is dropped.

    A view of one group inherits from this class and overrides what it shows.
    """

    __slots__ = ("at_ms", "epoch", "seen")

    def __init__(self) -> None:
        self.seen: dict[int, Place] = {}
        """Partition of the events topic -> the last record. A group lives on one partition; on others there are only
        refusals of requests that were sent to the wrong one, under numbers of their own."""
        self.epoch = NO_LIFE
        """The life that is followed."""
        self.at_ms = 0
        """The latest moment of this life; no later record is dated before it."""

    def add(self, record: History) -> bool:
        """Take the next record. False: it was there before, and nothing has changed."""
        if not self.is_new(record):
            return False
        self.follow(record)
        return True

    def is_new(self, record: History) -> bool:
        """Return whether the record is new. The next one at its place is not."""
        return take_place(self.seen, record.cause.partition, (record.epoch, record.seq))

    def follow(self, record: History) -> None:
        """Pass the meaning of the group's next record to the view."""
        meaning = MEANINGS[type(record)]
        if meaning.is_of_life:
            if record.epoch != self.epoch:
                self.life_began(record)
                self.epoch, self.at_ms = record.epoch, record.timestamp_ms
            elif record.timestamp_ms > self.at_ms:
                self.at_ms = record.timestamp_ms
            if meaning.may_cause if isinstance(meaning.may_cause, bool) else meaning.may_cause(record):
                self.cause_given(record)
        meaning.tell(self, record)
        if meaning.state is not None:
            self.state_entered(record, meaning.state if isinstance(meaning.state, str) else meaning.state(record))

    def forget_life(self) -> None:
        """End this epoch of the group: the next record begins another one."""
        self.epoch, self.at_ms = NO_LIFE, 0


def in_order(records: Iterable[History]) -> Iterator[History]:
    """Yield records of any number of groups, in any order, group by group in each group's own order."""
    groups: dict[str, list[History]] = {}
    for record in records:
        groups.setdefault(record.group_id, []).append(record)
    for of_group in groups.values():
        yield from sorted(of_group, key=sort_key)
