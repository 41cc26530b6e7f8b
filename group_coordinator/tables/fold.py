"""The fold: the history of one group in, the rows of the tables out. No Spark, no I/O.

    tables = GroupTables()
    for record in history:            # of one group, in the order of the history topic
        tables.add(record)
    rows = tables.take()              # what is new or has changed since the last take

What must be kept between two calls is small: the members that are there, what they own, and the rebalance that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from group_coordinator.tables import rebalancing
from group_coordinator.tables.causes import Link, extend_chain
from group_coordinator.tables.happenings import commit_rows, event_row, expiry_rows, refusal_row
from group_coordinator.tables.holdings import ByMember, Holdings
from group_coordinator.tables.lives import Lives
from group_coordinator.tables.rows import TABLE_OF, AnyRow, Member, OwnershipEnd
from schemas.events import encode_json
from schemas.history import (
    AssignmentReceived,
    GroupDead,
    GroupEmpty,
    GroupRecorded,
    History,
    JoinPhaseCompleted,
    MemberDropped,
    MemberExpired,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    ProtocolChosen,
    RebalanceCompleted,
    RebalanceExtended,
    RebalanceStarted,
    RecordingGap,
    RequestRefused,
)

T = TypeVar("T")

STATE_VERSION = 1
"""Version of both blobs of `GroupTables.pack`, in their first byte."""

_ENDS: dict[type, OwnershipEnd] = {MemberLeft: "left", MemberExpired: "expired", MemberDropped: "dropped"}


class StateError(ValueError):
    """A blob that this version cannot read."""


class _Head(Struct, array_like=True):
    """What nearly every record needs."""

    seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition of the events topic -> (epoch, seq) of its last record. A group lives on one partition; on others there
    are only refusals of requests that were sent to the wrong one, under numbers of their own."""
    epoch: int = -1
    """The life that is followed; -1: none."""
    at_ms: int = 0
    """The latest moment of this life; no later record is dated before it."""
    protocol_name: str | None = None
    chain: list[Link] = field(default_factory=list)
    rebalance: rebalancing.Running | None = None


class _Body(Struct, array_like=True):
    """What only records about members need; large in a large group."""

    members: dict[str, Member] = field(default_factory=dict)
    held: ByMember = field(default_factory=dict)


_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_body = msgspec.msgpack.Decoder(_Body).decode
_VERSION = bytes([STATE_VERSION])


class GroupTables:
    """Folds the history of one group. Records come in the order of (epoch, seq); one that comes again is ignored."""

    def __init__(self, packed: tuple[bytes, bytes] | None = None) -> None:
        """`packed` is what `pack` gave. Raises `StateError`."""
        self._head = _Head() if packed is None else _unpack(packed[0], _decode_head)
        self._packed_body = b"" if packed is None else packed[1]
        self._body: _Body | None = None
        self._added: list[AnyRow] = []
        self._changed: dict[tuple[object, ...], AnyRow] = {}
        self._rebalance_changed = False

    # ---------------------------------------------------------------------------------------------------- in and out

    def add(self, record: History, record_json: str | None = None) -> bool:
        """Take the next record. False: it was there before, and nothing has changed.

        `record_json`, its text on the topic, makes it an `events` row too; None: that row is not wanted.
        """
        head = self._head
        partition, place = record.cause.partition, (record.epoch, record.seq)
        if place <= head.seen.get(partition, (-1, -1)):
            return False
        head.seen[partition] = place
        if record_json is not None:
            self._added.append(event_row(record, record_json))
        match record:
            case OffsetsCommitted():
                self._added += commit_rows(record)
            case RequestRefused():
                self._added.append(refusal_row(record))
            case OffsetsExpired() | OffsetsDeleted():
                self._added += expiry_rows(record)
            case _:
                self._added += expiry_rows(record)
                self._live(record)
        return True

    def take(self) -> list[AnyRow]:
        """The rows that are new or have changed since the last call, each in its latest version."""
        running = self._head.rebalance
        if self._rebalance_changed and running is not None:
            self._change(running.row)
        self._rebalance_changed = False
        rows = [*self._added, *self._changed.values()]
        self._added, self._changed = [], {}
        return rows

    def standing(self, group_id: str) -> list[AnyRow]:
        """The rows that have not ended: members that are there, what they own, the rebalance that runs."""
        running = self._head.rebalance
        return [*self._state.members.values(), *self._holdings.rows(group_id, self._head.epoch), *([running.row] if running is not None else [])]

    def pack(self) -> tuple[bytes, bytes]:
        """What must be kept until the next records come; take the rows before. Two blobs: commits leave the second as it is."""
        assert not self._added
        assert not self._changed
        body = self._packed_body if self._body is None else _VERSION + _encode(self._body)
        return _VERSION + _encode(self._head), body

    # ------------------------------------------------------------------------------------------------ a group's life

    def _live(self, record: History) -> None:
        if record.epoch != self._head.epoch:
            self._begin_life(record)
        head = self._head
        at_ms = head.at_ms = max(head.at_ms, record.timestamp_ms)
        head.chain = extend_chain(head.chain, record)
        lives, holdings = self._lives, self._holdings
        self._release(record, at_ms, lives, holdings)
        lives.follow(record, at_ms)
        if isinstance(record, MemberReplaced) and not record.rebalanced:
            holdings.hand_over(record, at_ms)
        elif isinstance(record, AssignmentReceived):
            partitions = holdings.assign(record, at_ms, record.rebalance)
            if head.rebalance is not None:
                rebalancing.assigned(head.rebalance, record, partitions)
                self._rebalance_changed = True
        self._rebalance(record, at_ms)
        if isinstance(record, GroupRecorded):
            head.protocol_name = record.protocol_name
        if isinstance(record, GroupDead):
            self._end_life()
        elif isinstance(record, RecordingGap):
            self._lose_track(record.group_id)

    def _release(self, record: History, at_ms: int, lives: Lives, holdings: Holdings) -> None:
        """What a member owned ends, before the member does."""
        rebalance = self._head.rebalance.start.seq if self._head.rebalance is not None else None
        match record:
            case MemberRejoined():
                member_id = record.member.member_id
                if not lives.keeps_partitions(member_id, self._head.protocol_name):
                    holdings.release(record, member_id, "rejoined", at_ms, rebalance)
            case MemberLeft() | MemberExpired() | MemberDropped():
                holdings.release(record, record.member.member_id, _ENDS[type(record)], at_ms, rebalance)
            case MemberReplaced() if record.rebalanced:
                holdings.release(record, record.old_member_id, "replaced", at_ms, rebalance)
            case GroupEmpty() | GroupDead():
                holdings.release_all(record, "group_empty", at_ms)

    def _rebalance(self, record: History, at_ms: int) -> None:
        head = self._head
        match record:
            case RebalanceStarted():
                head.rebalance = rebalancing.begin(record, head.chain, at_ms)
                self._rebalance_changed = True
            case (
                RebalanceExtended()
                | MemberRejoined()
                | MemberReplaced()
                | ProtocolChosen()
                | JoinPhaseCompleted()
                | RebalanceCompleted()
            ):
                if isinstance(record, ProtocolChosen):
                    head.protocol_name = record.protocol_name
                if head.rebalance is not None:
                    rebalancing.follow(head.rebalance, record, at_ms)
                    self._rebalance_changed = True
                if isinstance(record, RebalanceCompleted) and head.rebalance is not None:
                    self._change(head.rebalance.row)
                    head.rebalance, self._rebalance_changed = None, False

    def _begin_life(self, record: History) -> None:
        """Another life begins. The one before has ended, unless history was lost in between."""
        if self._head.epoch >= 0:
            self._lose_track(record.group_id)
        self._head.epoch, self._head.at_ms = record.epoch, record.timestamp_ms

    def _lose_track(self, group_id: str) -> None:
        """How what runs and lives now will end is not known."""
        before = self._head
        if before.rebalance is not None:
            self._change(rebalancing.abandoned(before.rebalance, before.at_ms))
        self._holdings.forget(group_id, before.epoch, before.at_ms)
        self._lives.end_all(before.at_ms)
        self._end_life()

    def _end_life(self) -> None:
        """Forget everything but which records were seen, so that one that comes again is known."""
        self._head = _Head(seen=self._head.seen)
        self._body, self._packed_body = None, b""
        self._rebalance_changed = False

    # ----------------------------------------------------------------------------------------------------- the state

    @property
    def _state(self) -> _Body:
        if self._body is None:
            self._body = _unpack(self._packed_body, _decode_body) if self._packed_body else _Body()
        return self._body

    @property
    def _lives(self) -> Lives:
        return Lives(self._state.members, self._change)

    @property
    def _holdings(self) -> Holdings:
        return Holdings(self._state.held, self._state.members, self._change)

    def _change(self, row: AnyRow) -> None:
        self._changed[row_key(row)] = row


def row_key(row: AnyRow) -> tuple[object, ...]:
    """Table and key of a row."""
    table = TABLE_OF[type(row)]
    return (table.name, *[getattr(row, name) for name in table.key])


def fold(records: Iterable[History]) -> Iterator[AnyRow]:
    """All rows of a whole history: of any number of groups, in any order, with repetitions."""
    groups: dict[str, list[History]] = {}
    for record in records:
        groups.setdefault(record.group_id, []).append(record)
    for history in groups.values():
        tables = GroupTables()
        for record in sorted(history, key=place):
            tables.add(record, encode_json(record).decode())
        yield from tables.take()


def place(record: History) -> tuple[int, int, int]:
    """By this the records of a group are sorted."""
    return record.cause.partition, record.epoch, record.seq


def _unpack(blob: bytes, decode: Callable[[bytes], T]) -> T:
    if blob[:1] != _VERSION:
        raise StateError(f"the state is of version {list(blob[:1])}, this program reads version {STATE_VERSION}")
    return decode(blob[1:])
