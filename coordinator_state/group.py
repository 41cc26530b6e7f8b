"""The data of one group: what Spark's state row holds. No decisions are made here.

Source of the fields: `ClassicGroup`, `ClassicGroupMember` (Kafka 4.3). Dicts iterate in insertion order, and that order
is part of the state: members in the order in which they were added, timers in the order of arming.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from coordinator_state import states
from coordinator_state.offsets import Offsets, utf8_bytes
from coordinator_state.states import VALID_PREVIOUS_STATES, GroupState
from coordinator_state.timers import Timers
from schemas.history import MemberIdentity, RebalanceTrigger, Waited

STATE_VERSION = 2
"""Version of both blobs, in their first byte. In 1, offsets were not counted, nor were all strings of a member."""

Protocols = tuple[tuple[str, bytes], ...]
"""(protocol name, metadata), in the member's order of preference."""


def protocols_bytes(protocols: Protocols) -> int:
    """Bytes of all names and metadata."""
    total = 0
    for name, metadata in protocols:
        total += utf8_bytes(name) + len(metadata)
    return total


def identity_bytes(identity: Member | MemberIdentity) -> int:
    """What a member, or a handed-out id, takes beside its metadata and assignment."""
    return (
        MEMBER_OVERHEAD_BYTES
        + utf8_bytes(identity.member_id)
        + utf8_bytes(identity.group_instance_id or "")
        + utf8_bytes(identity.client_id)
        + utf8_bytes(identity.client_host)
    )


MEMBER_OVERHEAD_BYTES = 400
"""What a member costs in a record or answer beyond its own bytes: ids of the protocol, JSON field names."""


class ParkedRequest(Struct, array_like=True, frozen=True):
    """A JoinGroup or SyncGroup that is not yet answered: all that its answer will need."""

    request_id: str
    reply_partition: int
    api_version: int
    offset: int


class Member(Struct, array_like=True):
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
        """Its metadata of a protocol; empty if it does not list it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    @property
    def size_bytes(self) -> int:
        """About how much of a group record or answer this member takes."""
        return identity_bytes(self) + protocols_bytes(self.protocols) + len(self.assignment)


class Rebalance(Struct, array_like=True):
    """What history will tell of the rebalance that is going on."""

    seq: int
    """Of its RebalanceStarted record: its name."""
    trigger: RebalanceTrigger
    started_ms: int
    waited: dict[str, tuple[int | None, int | None]]
    """Member -> (told_ms, joined_ms), of those that had to rejoin."""
    dropped: list[str] = field(default_factory=list)
    join_ms: int | None = None
    """Length of the join phase, once it is over."""
    last_seq: int = 0
    """The record that a later one of this rebalance follows from."""

    def waited_for(self) -> tuple[Waited, ...]:
        return tuple(
            Waited(member_id=member_id, told_ms=told_ms, joined_ms=joined_ms)
            for member_id, (told_ms, joined_ms) in self.waited.items()
        )

    def slowest(self) -> str | None:
        """The member that rejoined last."""
        joined = [(joined_ms, member_id) for member_id, (_, joined_ms) in self.waited.items() if joined_ms is not None]
        return max(joined, key=lambda entry: entry[0])[1] if joined else None


class TopicRetention(Struct, array_like=True):
    """What the retention check must know of a topic's offsets without decoding them: lower bounds, never too late."""

    count: int
    oldest_committed_ms: int
    earliest_expire_ms: int | None = None


class Group(Struct, array_like=True):
    """Everything that is known of one group."""

    group_id: str
    epoch: int
    seq: int = 0
    now_ms: int = 0
    """The group's time; it never runs backwards."""
    timestamp_ms: int = 0
    """Append time of the last event; information only."""
    state: GroupState = states.EMPTY
    previous_state: GroupState = states.DEAD
    state_since_ms: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    generation_id: int = 0
    leader_id: str | None = None
    elected_leader_id: str | None = None
    """The leader that history knows of."""
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """group instance id -> member id."""
    pending_join: dict[str, MemberIdentity] = field(default_factory=dict)
    """Ids handed out with MEMBER_ID_REQUIRED and not yet used."""
    pending_sync: dict[str, None] = field(default_factory=dict)
    """Members told of this generation that have not sent SyncGroup."""
    awaiting_join_count: int = 0
    protocol_counts: dict[str, int] = field(default_factory=dict)
    """Protocol name -> number of members that list it."""
    members_bytes: int = 0
    """About how much all members and handed-out ids take in a record or answer."""
    subscribed_topics: tuple[str, ...] | None = None
    """Union of the members' subscriptions at the last join completion; None: unknown."""
    new_member_added: bool = False
    """Another member came during the initial delay, so it is extended once more."""
    initial_join: tuple[int, int] | None = None
    """(delay_ms, remaining_ms) of the running initial delay."""
    timers: Timers = field(default_factory=dict)
    rebalance: Rebalance | None = None
    is_logged: bool = False
    """It has a record in the offsets log. Until then Kafka neither describes nor lists it: both read what is committed."""
    retention: dict[str, TopicRetention] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    offsets_bytes: int | None = 0
    """What the offsets take; None: a state of version 1 had them, and they are counted when somebody commits."""

    # ------------------------------------------------------------------------------------------------------- queries

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    @property
    def all_joined(self) -> bool:
        """Every member's JoinGroup is parked and no handed-out id is open."""
        return self.awaiting_join_count == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member grants; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_subscribed(self, topic: str) -> bool:
        """Whether the group counts as subscribed: a consumer group with an unknown subscription is, to everything."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join."""
        if self.state is states.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts.get(name, 0) == len(self.members) for name, _ in protocols
        )

    # ------------------------------------------------------------------------------------------------------- changes

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """The only place that sets `state`."""
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.state} cannot become {state}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    def add_member(self, member: Member, protocol_type: str) -> None:
        """Add a member at the end; the first one sets the protocol type, and leads if nobody does."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count(member, 1)
        self.members_bytes += member.size_bytes

    def remove_member(self, member_id: str) -> Member | None:
        """Take a member, or a handed-out id, out of everything; the first remaining member leads if it led."""
        self.remove_pending(member_id)
        self.pending_sync.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if member.group_instance_id is not None and self.static_members.get(member.group_instance_id) == member_id:
            del self.static_members[member.group_instance_id]
        self._count(member, -1)
        self.members_bytes -= member.size_bytes
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def add_pending(self, identity: MemberIdentity) -> None:
        """Remember an id that is handed out."""
        self.pending_join[identity.member_id] = identity
        self.members_bytes += identity_bytes(identity)

    def remove_pending(self, member_id: str) -> bool:
        """Forget a handed-out id; False if it is none."""
        identity = self.pending_join.pop(member_id, None)
        if identity is not None:
            self.members_bytes -= identity_bytes(identity)
        return identity is not None

    def size_of_offsets(self) -> int:
        """What the offsets take, in bytes."""
        if self.offsets_bytes is None:
            self.offsets_bytes = self.offsets.count_bytes(self.group_id)
        return self.offsets_bytes

    def grow_offsets(self, by_bytes: int) -> None:
        """The offsets take more, or less, than they did."""
        if self.offsets_bytes is not None:
            self.offsets_bytes += by_bytes

    def update_member(self, member: Member, protocols: Protocols, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        if protocols != member.protocols:
            self._count(member, -1)
            self.members_bytes += protocols_bytes(protocols) - protocols_bytes(member.protocols)
            member.protocols = protocols
            self._count(member, 1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def set_assignment(self, member: Member, assignment: bytes) -> None:
        self.members_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def park_join(self, member: Member, parked: ParkedRequest | None) -> None:
        """Park a JoinGroup, or take it away (None)."""
        self.awaiting_join_count += (parked is not None) - (member.awaiting_join is not None)
        member.awaiting_join = parked

    def count_members(self) -> None:
        """Count anew what members and handed-out ids take."""
        members = sum([member.size_bytes for member in self.members.values()])
        self.members_bytes = members + sum(map(identity_bytes, self.pending_join.values()))

    def _count(self, member: Member, sign: int) -> None:
        for name, _ in member.protocols:
            self.protocol_counts[name] = count = self.protocol_counts.get(name, 0) + sign
            if not count:
                del self.protocol_counts[name]
        if member.awaiting_join is not None:
            self.awaiting_join_count += sign


CONSUMER = "consumer"
"""The protocol type whose metadata and assignments are those of the consumer protocol."""


def _encode_hook(value: Any) -> Any:
    assert isinstance(value, Offsets)
    return None


def _decode_hook(kind: type, value: Any) -> Any:
    assert kind is Offsets
    return Offsets()


_encode = msgspec.msgpack.Encoder(enc_hook=_encode_hook).encode
_decode = msgspec.msgpack.Decoder(Group, dec_hook=_decode_hook).decode
_VERSION = bytes([STATE_VERSION])
_UNCOUNTED_VERSION = b"\x01"
_READ_VERSIONS = (_VERSION, _UNCOUNTED_VERSION)


class StateError(ValueError):
    """A state blob that this version cannot read."""


def encode_group(group: Group) -> tuple[bytes, bytes]:
    """(membership, offsets): two blobs, so that a heartbeat does not decode offsets. A version byte leads each."""
    return _VERSION + _encode(group), _VERSION + group.offsets.pack()


def decode_group(membership: bytes, offsets: bytes) -> Group:
    """Read what `encode_group` of this version or an older one wrote. Raises `StateError` for another version or damaged bytes."""
    if membership[:1] not in _READ_VERSIONS or offsets[:1] not in _READ_VERSIONS:
        raise StateError(
            f"the state is of version {list(membership[:1])}/{list(offsets[:1])}, this program reads versions 1 to {STATE_VERSION}"
        )
    try:
        group = _decode(memoryview(membership)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StateError(f"the state is damaged: {error}") from None
    group.offsets = Offsets(bytes(offsets[1:]))
    if membership[:1] == _UNCOUNTED_VERSION:
        group.count_members()
        group.offsets_bytes = None
    return group
