"""The tables as a view of the fold: the history of one group in, the rows of the tables out. No Spark, no I/O.

    tables = GroupTables()
    for record in history:            # of one group, in the order of the history topic
        tables.add(record)
    rows = tables.take()              # what is new or has changed since the last take

What must be kept between two calls is small: the members that are there, what they own, and the rebalance that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from group_coordinator.watching.history.causes import Chain, extend_chain, pass_on
from group_coordinator.watching.history.fold import NO_LIFE, GroupFold, in_order
from group_coordinator.watching.history.order import Place
from group_coordinator.watching.history.view import Departure, JoinedMember, Removal, RemovedOffsets
from group_coordinator.watching.tables import rebalance_rows
from group_coordinator.watching.tables.causes import cause_text
from group_coordinator.watching.tables.member_rows import MemberRows, departure_text
from group_coordinator.watching.tables.ownership_rows import ByMember, OwnershipRows
from group_coordinator.watching.tables.record_rows import commit_rows, event_row, expiry_rows, refusal_row
from group_coordinator.watching.tables.rows import TABLE_OF, AnyRow, Member, Ownership, OwnershipEnd, Target
from schemas.consumer_group_history import (
    ConsumerMemberUpdated,
    GroupConverted,
    GroupEpochBumped,
    MemberReconciled,
    TargetAssignmentComputed,
)
from schemas.history import (
    AssignedTopic,
    AssignmentReceived,
    GroupDead,
    GroupRecorded,
    History,
    HistoryRecord,
    JoinPhaseCompleted,
    MemberAssignment,
    MemberIdAssigned,
    MemberIdentity,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
    PendingMemberRemoved,
    RebalanceCompleted,
    RebalanceExtended,
    RebalanceStarted,
    RecordingGap,
    RequestRefused,
    encode_history,
)
from schemas.observed_history import GroupRestored, OwnershipNotKnown

T = TypeVar("T")

STATE_VERSION = 1
"""Version of both blobs of `GroupTables.pack`, in their first byte."""


class StateError(ValueError):
    """A blob that this version cannot read."""


class _Head(Struct, array_like=True):
    """Nearly every record needs these values; the first three are those of `GroupFold`."""

    seen: dict[int, Place] = field(default_factory=dict)
    epoch: int = NO_LIFE
    at_ms: int = 0
    protocol_name: str | None = None
    """The assignor in force."""
    chain: Chain[str] = field(default_factory=list)
    rebalance: rebalance_rows.Running | None = None


class _Body(Struct, array_like=True):
    """Only records about members need these values; they are large in a large group."""

    members: dict[str, Member] = field(default_factory=dict)
    held: ByMember = field(default_factory=dict)
    targets: ByMember = field(default_factory=dict)


_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_body = msgspec.msgpack.Decoder(_Body).decode
_VERSION = bytes([STATE_VERSION])


class GroupTables(GroupFold):
    """The rows of one group."""

    def __init__(self, packed: tuple[bytes, bytes] | None = None) -> None:
        """`packed` is what `pack` gave. Raises `StateError`."""
        super().__init__()
        head = _Head() if packed is None else _unpack(packed[0], _decode_head)
        self.seen, self.epoch, self.at_ms = head.seen, head.epoch, head.at_ms
        self._protocol_name, self._chain, self._rebalance = head.protocol_name, head.chain, head.rebalance
        self._packed_body = b"" if packed is None else packed[1]
        self._body: _Body | None = None
        self._added: list[AnyRow] = []
        self._changed_rows: dict[tuple[object, ...], AnyRow] = {}
        self._rebalance_seq_taken = None if self._rebalance is None else self._rebalance.start.last_seq
        """The record that last changed the running rebalance when its row was taken."""

    # ---------------------------------------------------------------------------------------------------- in and out

    def add(self, record: History, record_json: str | None = None) -> bool:
        """Take the next record. False: it was there before, and nothing has changed.

        `record_json`, its text on the topic, makes it an `events` row too; None: that row is not wanted.
        """
        if not self.is_new(record):
            return False
        if record_json is not None:
            self._added.append(event_row(record, record_json))
        self.follow(record)
        return True

    def take(self) -> list[AnyRow]:
        """Return the rows that are new or have changed since the last call, each in its latest version."""
        if self._rebalance is not None and self._rebalance.start.last_seq != self._rebalance_seq_taken:
            self._rebalance_seq_taken = self._rebalance.start.last_seq
            self._change(self._rebalance.row)
        rows = [*self._added, *self._changed_rows.values()]
        self._added, self._changed_rows = [], {}
        return rows

    def standing(self, group_id: str) -> list[AnyRow]:
        """Return the rows that have not ended: present members, what they own, the running rebalance."""
        running = [] if self._rebalance is None else [self._rebalance.row]
        owned, shall_own = self._ownership.rows(group_id, self.epoch), self._targets.rows(group_id, self.epoch)
        return [*self._state.members.values(), *owned, *shall_own, *running]

    def pack(self) -> tuple[bytes, bytes]:
        """Return the state to keep until the next records come; take the rows before.

        Two blobs: commits leave the second as it is.
        """
        assert not self._added
        assert not self._changed_rows
        body = self._packed_body if self._body is None else _VERSION + _encode(self._body)
        head = _Head(self.seen, self.epoch, self.at_ms, self._protocol_name, self._chain, self._rebalance)
        return _VERSION + _encode(head), body

    # ------------------------------------------------------------------------------------------------------ the group

    def life_began(self, record: HistoryRecord) -> None:
        # The life before has ended, unless history was lost in between.
        if self.epoch != NO_LIFE:
            self._end_unknown(record.group_id)

    def track_lost(self, record: RecordingGap) -> None:
        self._end_unknown(record.group_id)

    def _end_unknown(self, group_id: str) -> None:
        """End what runs and lives now: how it will end is not known."""
        if self._rebalance is not None:
            self._change(rebalance_rows.abandoned(self._rebalance, self.at_ms))
        self._ownership.forget(group_id, self.epoch)
        self._targets.forget(group_id, self.epoch)
        self._members.end_all()
        self.forget_life()

    def group_found(self, record: GroupRecorded | GroupRestored) -> None:
        for member in record.members:
            self._members.find(record, member)
        self._protocol_name = record.protocol_name

    def group_emptied(self, record: HistoryRecord) -> None:
        self._targets.release_all(record, "group_empty")
        self._ownership.release_all(record, "group_empty")

    def group_converted(self, record: GroupConverted) -> None:
        self._targets.release_all(record, "group_empty")

    def group_died(self, record: GroupDead) -> None:
        self._added += expiry_rows(record)
        self.group_emptied(record)
        self.forget_life()

    def forget_life(self) -> None:
        """Forget everything but which records were seen, so that one that comes again is known."""
        super().forget_life()
        self._protocol_name, self._chain, self._rebalance = None, [], None
        self._body, self._packed_body = None, b""
        self._rebalance_seq_taken = None

    # -------------------------------------------------------------------------------------------------------- members

    def member_id_given(self, record: MemberIdAssigned) -> None:
        self._members.give_id(record)

    def member_id_forgotten(self, record: PendingMemberRemoved) -> None:
        self._added += expiry_rows(record)
        identity = MemberIdentity(member_id=record.member_id, client_id="", client_host="")
        self._members.end(record, identity, "never_joined", record.reason)

    def member_joined(self, record: HistoryRecord, joined: JoinedMember) -> None:
        self._members.join(record, joined)

    def member_rejoined(self, record: MemberRejoined) -> None:
        member_id = record.member.member_id
        if not self._members.keeps_partitions(member_id, self._protocol_name):
            self._release(record, member_id, "rejoined")
        self._members.rejoin(record)
        if self._rebalance is not None:
            rebalance_rows.rejoin(self._rebalance, record, self.at_ms)

    def member_changed(self, record: ConsumerMemberUpdated) -> None:
        pass_on(self._chain, record)
        self._members.change(record, record.updated)

    def member_replaced(self, record: MemberReplaced) -> None:
        old_member_id, member_id = record.old_member_id, record.member.member_id
        if record.rebalanced:
            self._release(record, old_member_id, "replaced")
        self._members.follow(record)
        if not record.rebalanced:
            self._ownership.hand_over(record, old_member_id, member_id)
        self._targets.hand_over(record, old_member_id, member_id)
        # What a member had ends before the member does.
        old_identity = msgspec.structs.replace(record.member, member_id=old_member_id)
        self._members.end(record, old_identity, "replaced", f"by {member_id}")
        if self._rebalance is not None:
            rebalance_rows.rename(self._rebalance, record)

    def member_departed(self, record: History, member: MemberIdentity, departure: Departure) -> None:
        if departure == "expired":
            self._added += expiry_rows(record)
        # What a member owned ends before the member does.
        self._release(record, member.member_id, departure)
        self._targets.release(record, member.member_id, departure)
        self._members.end(record, member, departure, departure_text(record))

    def _release(self, record: HistoryRecord, member_id: str, ended_by: OwnershipEnd) -> None:
        rebalance = None if self._rebalance is None else self._rebalance.start.seq
        self._ownership.release(record, member_id, ended_by, rebalance)

    # ----------------------------------------------------------------------------------------------------- rebalances

    def cause_given(self, record: History) -> None:
        self._chain = extend_chain(self._chain, record, cause_text(record))

    def epoch_raised(self, record: GroupEpochBumped) -> None:
        self._chain = []

    def rebalance_started(self, record: RebalanceStarted) -> None:
        self._rebalance = rebalance_rows.begin(record, self._chain, self.at_ms)
        self._chain = []

    def rebalance_extended(self, record: RebalanceExtended) -> None:
        if self._rebalance is not None:
            rebalance_rows.change(self._rebalance, record, extensions=self._rebalance.start.extensions + 1)

    def protocol_chosen(self, record: HistoryRecord, protocol_name: str) -> None:
        self._protocol_name = protocol_name
        if self._rebalance is not None:
            rebalance_rows.change(self._rebalance, record, protocol_name=protocol_name)

    def members_settled(self, record: JoinPhaseCompleted) -> None:
        self._members.enter_generation(record, record.members)
        if self._rebalance is not None:
            rebalance_rows.settle(self._rebalance, record, self.at_ms)

    def partitions_assigned(self, record: HistoryRecord, assignments: Sequence[MemberAssignment]) -> None:
        rebalance = record.rebalance if isinstance(record, AssignmentReceived) else None
        partitions = self._ownership.assign(record, assignments, rebalance)
        if self._rebalance is not None:
            leader_id = record.leader_id if isinstance(record, AssignmentReceived | GroupRestored) else None
            rebalance_rows.change(self._rebalance, record, leader_id=leader_id, partitions=partitions)

    def partitions_of_member(self, record: MemberReconciled, topics: tuple[AssignedTopic, ...]) -> None:
        pass_on(self._chain, record)
        rebalance = None if self._rebalance is None else self._rebalance.start.seq
        self._ownership.assign_member(record, record.member.member_id, topics, rebalance)

    def target_computed(self, record: TargetAssignmentComputed) -> None:
        self._targets.assign(record, record.assignments)
        if self._rebalance is not None:
            rebalance_rows.aim(self._rebalance, record, self.at_ms)

    def ownership_lost_from_view(self, record: OwnershipNotKnown) -> None:
        for member_id in record.member_ids:
            self._release(record, member_id, "unknown")

    def rebalance_ended(self, record: RebalanceCompleted) -> None:
        if self._rebalance is not None:
            rebalance_rows.end(self._rebalance, record, self.at_ms)
            self._change(self._rebalance.row)
            self._rebalance = None

    # ------------------------------------------------------------------------------------------------- single records

    def offsets_committed(self, record: OffsetsCommitted) -> None:
        self._added += commit_rows(record)

    def offsets_removed(self, record: RemovedOffsets, removal: Removal) -> None:
        self._added += expiry_rows(record)

    def request_refused(self, record: RequestRefused) -> None:
        self._added.append(refusal_row(record))

    # ----------------------------------------------------------------------------------------------------- the state

    @property
    def _state(self) -> _Body:
        if self._body is None:
            self._body = _unpack(self._packed_body, _decode_body) if self._packed_body else _Body()
        return self._body

    @property
    def _members(self) -> MemberRows:
        return MemberRows(self._state.members, self._change, self.at_ms)

    @property
    def _targets(self) -> OwnershipRows[Target]:
        return OwnershipRows(Target, self._state.targets, self._state.members, self._change, self.at_ms)

    @property
    def _ownership(self) -> OwnershipRows[Ownership]:
        return OwnershipRows(Ownership, self._state.held, self._state.members, self._change, self.at_ms)

    def _change(self, row: AnyRow) -> None:
        self._changed_rows[row_key(row)] = row


def row_key(row: AnyRow) -> tuple[object, ...]:
    """Return table and key of a row."""
    table = TABLE_OF[type(row)]
    return (table.name, *[getattr(row, name) for name in table.key])


def fold(records: Iterable[History]) -> Iterator[AnyRow]:
    """Yields all rows of a whole history: of any number of groups, in any order, with repetitions."""
    for _, history in groupby(in_order(records), key=attrgetter("group_id")):
        yield from rows_of_group(history, with_events=True)


def rows_of_group(history: Iterable[History], *, with_events: bool = False) -> list[AnyRow]:
    """Return the rows of a group's whole history, in order. `with_events`: its records, too."""
    tables = GroupTables()
    for record in history:
        tables.add(record, encode_history(record).decode() if with_events else None)
    return tables.take()


def _unpack(blob: bytes, decode: Callable[[bytes], T]) -> T:
    if blob[:1] != _VERSION:
        raise StateError(f"the state is of version {list(blob[:1])}, this program reads version {STATE_VERSION}")
    return decode(blob[1:])
