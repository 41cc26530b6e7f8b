"""The rows of who owned a partition, and who should have."""

from __future__ import annotations

from typing import Literal

from group_coordinator.watching.tables.row import Moment, Row

OwnershipEnd = Literal["rejoined", "revoked", "left", "expired", "dropped", "replaced", "group_empty", "unknown"]


class Ownership(Row, frozen=True, kw_only=True):
    """One partition owned by one member without a break. Between two rows of a partition, nobody owns it.

    It begins with the leader's assignment; in a consumer group when the member is told that it may have the partition,
    and it goes on until the member has given it up. It ends when the member is gone or the next assignment does not
    have it; and, with an eager assignor, already when the member rejoins: such a client gives up everything before it
    sends JoinGroup. Members that offer only `cooperative-sticky` (or `stream`, Kafka Streams) keep what they have
    through a rebalance.
    """

    topic: str
    """The topic."""
    partition: int
    """The partition."""
    member_id: str
    """The owner."""
    group_instance_id: str | None
    """The owner's static id."""
    client_id: str | None
    """The owner's client id; null where the history does not go back to its joining."""
    client_host: str | None
    """The owner's host."""
    generation_id: int
    """The generation in which it got the partition."""
    from_ms: Moment
    """From when on."""
    to_ms: Moment | None = None
    """Until when; null: it owns it still."""
    duration_ms: int | None = None
    """How long it was."""
    ended_by: OwnershipEnd | None = None
    """`rejoined`: given up for a rebalance. `revoked`: the next assignment did not have it. `left`, `expired`,
    `dropped`, `replaced`: what became of the owner. `group_empty`, `unknown`: the history does not say more."""
    end_seq: int | None = None
    """`seq` of the record that ended it: in `events`, and in `cause_seqs` of the rebalance that it led to."""
    end_rebalance: int | None = None
    """`seq` of the rebalance in which it ended; null: it ended before one was started."""
    last_seq: int
    """The history record that last changed this row."""


class Target(Row, frozen=True, kw_only=True):
    """One partition that the target assignment of a consumer group gave to one member without a break.

    The member owns it from when its row in `ownership` begins: later, if another member must give it up first.
    """

    topic: str
    """The topic."""
    partition: int
    """The partition."""
    member_id: str
    """The member that shall own it."""
    group_instance_id: str | None
    """That member's static id."""
    client_id: str | None
    """That member's client id; null where the history does not go back to its joining."""
    client_host: str | None
    """That member's host."""
    assignment_epoch: int
    """The epoch of the target assignment that first gave it the partition."""
    from_ms: Moment
    """When that was computed."""
    to_ms: Moment | None = None
    """Until when; null: it shall own it still."""
    duration_ms: int | None = None
    """How long it was."""
    end_seq: int | None = None
    """`seq` of the record that ended it: another target, or what became of the member or the group."""
    last_seq: int
    """The history record that last changed this row."""
