"""The data of a classic group, and its part of the interface that all kinds of group have.

Source: `ClassicGroup` (Kafka 4.3). Members iterate in the order in which they were added, and that order is part of the state.
"""

from __future__ import annotations

from typing import ClassVar, final

from msgspec import Struct, field

from coordinator_state.classic import states, timers
from coordinator_state.classic.member import Member, Protocols, Rebalance, identity_bytes, protocols_bytes
from coordinator_state.classic.states import VALID_PREVIOUS_STATES, GroupState
from coordinator_state.errors import Refusal
from coordinator_state.group import Group
from coordinator_state.offsets import OffsetExpirationCondition, utf8_bytes
from coordinator_state.parked import ParkedRequest
from coordinator_state.publication import SURELY_SMALL_BYTES
from coordinator_state.timers import TimerCause
from schemas.consumer_protocol import subscribed_topics
from schemas.error_codes import ErrorCode
from schemas.history import MemberIdentity
from schemas.messages import (
    DescribedGroup,
    DescribedGroupMember,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)
from schemas.records import encode_group_metadata_key

CONSUMER = "consumer"
"""The protocol type whose metadata and assignments are those of the consumer protocol."""


@final
class ClassicGroup(Struct, array_like=True, tag="classic"):
    """The members, the protocol and the rebalance of one group."""

    type_name: ClassVar[str] = "classic"

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
    """Members that know of this generation and have not sent SyncGroup."""
    awaiting_join_count: int = 0
    protocol_counts: dict[str, int] = field(default_factory=dict)
    """Protocol name -> number of members that list it."""
    members_bytes: int = 0
    """About the size of all members and handed-out ids in a record or answer."""
    subscribed_topics: tuple[str, ...] | None = None
    """Union of the members' subscriptions at the last join completion; None: unknown."""
    new_member_added: bool = False
    """Another member came during the initial delay, so it is extended once more."""
    initial_join: tuple[int, int] | None = None
    """(delay_ms, remaining_ms) of the running initial delay."""
    rebalance: Rebalance | None = None
    regex_refresh_began_ms: int | None = None
    """Since then expressions are being resolved of the consumer group that this was: until there is a result a consumer
    group of this id begins no other refresh."""

    # ------------------------------------------------------------------------------------------------------- queries

    @property
    def all_joined(self) -> bool:
        """Every member's JoinGroup is parked and no handed-out id is open."""
        return self.awaiting_join_count == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member grants; 0 without members."""
        return max([member.rebalance_timeout_ms for member in self.members.values()], default=0)

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols may join."""
        if self.state is states.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        counts, size = self.protocol_counts, len(self.members)
        for name, _ in protocols:  # noqa: SIM110 (`any` takes five times as long)
            if counts.get(name, 0) == size:
                return True
        return False

    # ------------------------------------------------------------------------------------------------------- changes

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state. Nothing else sets `state`."""
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
        """Remember a member id that is handed out."""
        self.pending_join[identity.member_id] = identity
        self.members_bytes += identity_bytes(identity)

    def remove_pending(self, member_id: str) -> bool:
        """Forget a handed-out id; False if it is none."""
        identity = self.pending_join.pop(member_id, None)
        if identity is not None:
            self.members_bytes -= identity_bytes(identity)
        return identity is not None

    def update_member(self, member: Member, asked: Member) -> None:
        """Give a member what it asks for now: protocols and timeouts."""
        if asked.protocols != member.protocols:
            self._count(member, -1)
            self.members_bytes += protocols_bytes(asked.protocols) - protocols_bytes(member.protocols)
            member.protocols = asked.protocols
            self._count(member, 1)
        member.session_timeout_ms = asked.session_timeout_ms
        member.rebalance_timeout_ms = asked.rebalance_timeout_ms

    def rename_member(self, member: Member, member_id: str) -> None:
        """Let a static member go on under another id, as the last of the members."""
        old_id, instance_id = member.member_id, member.group_instance_id
        assert instance_id is not None
        self.members_bytes += utf8_bytes(member_id) - utf8_bytes(old_id)
        del self.members[old_id]
        member.member_id, member.is_new = member_id, False
        self.members[member_id], self.static_members[instance_id] = member, member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if self.rebalance is not None and old_id in self.rebalance.waited:
            self.rebalance.waited[member_id] = self.rebalance.waited.pop(old_id)

    def set_assignment(self, member: Member, assignment: bytes) -> None:
        self.members_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def park_join(self, member: Member, parked: ParkedRequest | None) -> None:
        """Park a JoinGroup of a member; None removes the parked one."""
        self.awaiting_join_count += (parked is not None) - (member.awaiting_join is not None)
        member.awaiting_join = parked

    def note_rebalance_known(self, member: Member, timestamp_ms: int) -> None:
        """Note that a member has learnt that it must rejoin, so that history tells when."""
        if self.rebalance is not None:
            self.rebalance.note_told(member.member_id, timestamp_ms)

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

    # ------------------------------------------------------------------------------------- what others get of the group

    def topics_of_members(self) -> tuple[str, ...] | None:
        """Return the topics that the members subscribe to; None if that cannot be known."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return ()
        if self.protocol_name is None:
            return None
        topics: dict[str, None] = {}
        for metadata in dict.fromkeys([member.metadata_of(self.protocol_name) for member in self.members.values()]):
            of_member = subscribed_topics(metadata)
            if of_member is None:
                return None
            topics |= dict.fromkeys(of_member)
        return tuple(topics)

    def join_response(self, member_id: str) -> JoinGroupResponse:
        """Return a successful answer to JoinGroup. The leader's lists the members."""
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            member_id=member_id,
            members=() if member_id != self.leader_id else tuple([
                JoinGroupResponseMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    metadata=member.metadata_of(self.protocol_name),
                )
                for member in self.members.values()
            ]),
        )

    def sync_response(self, member: Member) -> SyncGroupResponse:
        """Return a successful answer to SyncGroup."""
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )

    # ------------------------------------------------------------------------------- the interface of all kinds of group

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_small(self) -> bool:
        return self.members_bytes <= SURELY_SMALL_BYTES

    @property
    def is_empty(self) -> bool:
        return self.state is states.EMPTY

    @property
    def is_removed(self) -> bool:
        return False

    @property
    def ongoing_seq(self) -> int | None:
        return None if self.rebalance is None else self.rebalance.last_seq

    def instance_owner(self, group_instance_id: str) -> str | None:
        return self.static_members.get(group_instance_id)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Everybody may fetch."""

    def validate_offset_delete(self) -> None:
        """Refuse while there are members of another protocol type: their subscriptions are not known."""
        if self.state is not states.EMPTY and self.protocol_type != CONSUMER:
            raise Refusal(
                ErrorCode.NON_EMPTY_GROUP,
                "group_is_not_empty",
                f"the group has members of type {self.protocol_type!r:.100}, whose subscriptions are not known",
            )

    def validate_delete_group(self) -> None:
        """Refuse unless the group is empty. Handed-out member ids do not prevent the deletion."""
        if self.state is not states.EMPTY:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, "group_is_not_empty", f"the group has {len(self.members)} members")

    def is_subscribed_to_topic(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic. A consumer group with an unknown subscription counts as
        subscribed to all."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    def offset_expiration_condition(self) -> OffsetExpirationCondition | None:
        """Return the condition under which offsets expire, by Kafka's table of protocol type and state."""
        if self.protocol_type is None:
            return OffsetExpirationCondition(None)
        if self.state is states.EMPTY:
            return OffsetExpirationCondition(self.state_since_ms)
        if self.protocol_type == CONSUMER and self.state is states.STABLE and self.subscribed_topics is not None:
            return OffsetExpirationCondition(None)
        return None

    def describe(self, group_id: str) -> DescribedGroup:
        """Return the group as DescribeGroups shows it: metadata only when Stable, the stored assignment in every
        state. Handed-out ids that were not used are not shown."""
        stable = self.state is states.STABLE
        return DescribedGroup(
            group_id=group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_data=(self.protocol_name or "") if stable else "",
            members=tuple(
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata_of(self.protocol_name) if stable else b"",
                    member_assignment=member.assignment,
                )
                for member in self.members.values()
            ),
        )

    def tombstone_keys(self, group_id: str) -> tuple[bytes, ...]:
        return (encode_group_metadata_key(group_id),)

    def timer_cause(self, name: str) -> TimerCause:
        member_id = timers.member_of(name)
        if member_id is None:
            return TimerCause("join" if name == timers.JOIN else "sync", None)
        return TimerCause("pending_member" if member_id in self.pending_join else "session", member_id)

    def move_time(self, by_ms: int) -> None:
        self.state_since_ms += by_ms
        if self.regex_refresh_began_ms is not None:
            self.regex_refresh_began_ms += by_ms


def classic_group(group: Group) -> ClassicGroup:
    """Return a group's body as that of a classic group."""
    body = group.body
    assert type(body) is ClassicGroup
    return body


def classic_or_none(group: Group | None) -> ClassicGroup | None:
    """Return the same, if there is a group."""
    return None if group is None else classic_group(group)
