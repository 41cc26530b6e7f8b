"""The data of one member of a consumer group.

Source of the fields: `ConsumerGroupMember` (Kafka 4.3).
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct, field

from coordinator_state.classic.member import Protocols

PartitionsWithEpochs = dict[str, dict[int, int]]
"""Topic id -> partition -> assignment epoch: the member epoch at which the member got the partition. No topic is empty.
Whoever changes one makes another."""

TargetAssignment = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic id, partitions), in the order of the record in the offsets log. The `uniform` assignor goes by this order."""

NEW_MEMBER_EPOCH = 0
NO_PREVIOUS_EPOCH = -1
LEFT_STATIC_EPOCH = -2
"""Epoch of a static member that left for a while."""


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment. The numbers are those of the record."""

    STABLE = 0
    """It has what it may have at its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions before anything else."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members still have."""
    UNKNOWN = 127
    """A state byte of a later version."""


class ClassicMemberMetadata(Struct, array_like=True, frozen=True, gc=False):
    """What a member sent that uses the classic protocol."""

    session_timeout_ms: int
    supported_protocols: Protocols
    """In the member's order of preference."""


class ConsumerMember(Struct, array_like=True, frozen=True, gc=False):
    """One member of a consumer group. It never changes: a change makes another (`msgspec.structs.replace`).

    Fields are only ever added at the end, each with a default: this is the form in the state.
    """

    member_id: str
    member_epoch: int = NEW_MEMBER_EPOCH
    previous_member_epoch: int = NO_PREVIOUS_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: PartitionsWithEpochs = field(default_factory=dict)
    """What the member owns, or is told to take."""
    pending_revocation: PartitionsWithEpochs = field(default_factory=dict)
    """What it is told to give up, until it does."""
    instance_id: str | None = None
    """Of a static member (KIP-345)."""
    rack_id: str | None = None
    server_assignor: str | None = None
    """The assignor that it asks for."""
    rebalance_timeout_ms: int = -1
    """How long it may take to give up partitions; -1: it has not said."""
    client_id: str = ""
    client_host: str = ""
    """As Java prints an address: `/10.0.0.1`."""
    subscribed_topic_names: tuple[str, ...] = ()
    """A set, in Java's order of strings (`java_string_order`), as in the record."""
    subscribed_topic_regex: str = ""
    """Empty: none."""
    classic: ClassicMemberMetadata | None = None
    """None: the member uses the consumer protocol."""

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return whether nothing is left to do for the member at this epoch of the target assignment."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch
