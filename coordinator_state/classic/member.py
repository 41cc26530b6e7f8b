"""The data of one member of a classic group, and of the rebalance that goes on.

Source of the fields: `ClassicGroupMember` (Kafka 4.3).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from coordinator_state.offsets import utf8_bytes
from coordinator_state.parked import ParkedRequest
from coordinator_state.step import HistoryFields
from schemas.history import MemberIdentity, RebalanceCompleted, RebalanceTrigger, Waited

Protocols = tuple[tuple[str, bytes], ...]
"""(protocol name, metadata), in the member's order of preference."""

Outcome = Literal["stable", "empty", "interrupted", "coordinator_changed"]

MEMBER_OVERHEAD_BYTES = 400
"""The size of a member in a record or answer beyond its own bytes: ids of the protocol, JSON field names."""


def protocols_bytes(protocols: Protocols) -> int:
    """Return the bytes of all protocol names and their metadata."""
    total = 0
    for name, metadata in protocols:
        total += len(metadata) + (len(name) if name.isascii() else utf8_bytes(name))
    return total


def identity_bytes(identity: Member | MemberIdentity) -> int:
    """Return the bytes of a member, or of a handed-out id, without its metadata and assignment."""
    names = identity.member_id + identity.client_id + identity.client_host
    if identity.group_instance_id is not None:
        names += identity.group_instance_id
    return MEMBER_OVERHEAD_BYTES + (len(names) if names.isascii() else utf8_bytes(names))


class Member(Struct, array_like=True, gc=False):
    """One member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: ParkedRequest | None = None
    awaiting_sync: ParkedRequest | None = None
    is_new: bool = True
    """Until its first join phase completes."""

    @property
    def identity(self) -> MemberIdentity:
        return MemberIdentity(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
        )

    @property
    def satisfies_heartbeat(self) -> bool:
        """A parked request stands for a heartbeat, unless the member is new."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata_of(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata of a protocol; empty if it does not list it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    @property
    def size_bytes(self) -> int:
        """About how much of a group record or answer this member takes."""
        return identity_bytes(self) + protocols_bytes(self.protocols) + len(self.assignment)


class Rebalance(Struct, array_like=True):
    """The facts about the present rebalance that history will need."""

    seq: int
    """Of its RebalanceStarted record: its name."""
    trigger: RebalanceTrigger
    started_ms: int
    waited: dict[str, tuple[int | None, int | None]]
    """Member -> (told_ms, joined_ms), of those that it waits for, as in `Waited`."""
    dropped: list[str] = field(default_factory=list)
    join_ms: int | None = None
    """Length of the join phase, once it is over."""
    last_seq: int = 0
    """The record that a later one of this rebalance follows from."""

    def moment(self, timestamp_ms: int) -> int:
        """Return the append time of a step in this rebalance, which is not before its start: that of a timer is an
        estimate, and the next event's may lie before it."""
        return max(timestamp_ms, self.started_ms)

    def note_told(self, member_id: str, timestamp_ms: int) -> None:
        """Note when a member has learnt that it must rejoin."""
        if self.waited.get(member_id) == (None, None):
            self.waited[member_id] = (self.moment(timestamp_ms), None)

    def note_joined(self, member_id: str, timestamp_ms: int) -> None:
        """Note when a member that the join phase waits for has rejoined first."""
        if member_id in self.waited and self.join_ms is None:
            told_ms, joined_ms = self.waited[member_id]
            self.waited[member_id] = (told_ms, self.moment(timestamp_ms) if joined_ms is None else joined_ms)

    def completed(self, fields: HistoryFields, outcome: Outcome) -> RebalanceCompleted:
        """Return the record of how the rebalance ended, at the append time that is among the fields."""
        _, _, _, _, timestamp_ms, *_ = fields
        return RebalanceCompleted(
            *fields,
            rebalance=self.seq,
            outcome=outcome,
            trigger=self.trigger,
            started_ms=self.started_ms,
            duration_ms=self.moment(timestamp_ms) - self.started_ms,
            join_ms=self.join_ms,
            waited_for=self.waited_for(),
            slowest=self.slowest(),
            dropped=tuple(self.dropped),
        )

    def waited_for(self) -> tuple[Waited, ...]:
        return tuple([
            Waited(member_id=member_id, told_ms=told_ms, joined_ms=joined_ms)
            for member_id, (told_ms, joined_ms) in self.waited.items()
        ])

    def slowest(self) -> str | None:
        """Return the member that rejoined last."""
        joined = [(joined_ms, member_id) for member_id, (_, joined_ms) in self.waited.items() if joined_ms is not None]
        return max(joined, key=lambda entry: entry[0])[1] if joined else None
