"""History: one typed record for each thing that happened in a group, with its cause.

Records lie on the history topic (key: group id). `seq` orders them within (group, epoch); `caused_by` is the `seq` of the
record that led to this one, so a chain of cause can be followed from record to record. Times are the group's, in
milliseconds since 1970. A JSON object's `type` names the kind: the class below in snake case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, json

from schemas.consumer_group_history import ConsumerGroupHistory
from schemas.foreign_json import json_decoder
from schemas.group_metadata_events import GroupConfiguration
from schemas.group_states import GroupState
from schemas.history_parts import AssignedTopic as AssignedTopic
from schemas.history_parts import Cause as Cause
from schemas.history_parts import CauseKind as CauseKind
from schemas.history_parts import Certainty as Certainty
from schemas.history_parts import Evidence as Evidence
from schemas.history_parts import EvidenceSource as EvidenceSource
from schemas.history_parts import HistoryRecord as HistoryRecord
from schemas.history_parts import MemberAssignment as MemberAssignment
from schemas.history_parts import MemberIdentity as MemberIdentity
from schemas.history_parts import MemberRecorded as MemberRecorded
from schemas.history_parts import OffsetChange as OffsetChange
from schemas.history_parts import RebalanceTrigger as RebalanceTrigger
from schemas.history_parts import TimerName as TimerName
from schemas.observed_history import ObservedHistory
from schemas.snapshot_subscription import SnapshotSubscription as SnapshotSubscription
from schemas.transaction_history import TransactionHistory

# ------------------------------------------------------------------------------------------------------------- group


class GroupCreated(HistoryRecord, frozen=True, kw_only=True, tag="group_created"):
    """The group did not exist; a JoinGroup or an OffsetCommit made it."""


class GroupEmpty(HistoryRecord, frozen=True, kw_only=True, tag="group_empty"):
    """The last member is gone; offsets stay until they expire."""


class GroupStable(HistoryRecord, frozen=True, kw_only=True, tag="group_stable"):
    """The leader's assignment is in force, or what members of a consumer group owned that became a classic one."""

    leader_id: str
    protocol_name: str | None
    members: tuple[str, ...]


class GroupDead(HistoryRecord, frozen=True, kw_only=True, tag="group_dead"):
    """The group is gone, tombstones written."""

    reason: Literal["deleted", "expired", "not_known"]


class GroupRecorded(HistoryRecord, frozen=True, kw_only=True, tag="group_recorded"):
    """A recording tells of the group from here on: a join phase has just ended. What led to it is not known."""

    leader_id: str
    protocol_name: str
    members: tuple[MemberRecorded, ...]


class RecordingGap(HistoryRecord, frozen=True, kw_only=True, tag="recording_gap"):
    """From here on a recording does not tell what became of the group, until it says so again (`group_recorded`)."""

    reason: str


# ----------------------------------------------------------------------------------------------------------- members


class MemberIdAssigned(HistoryRecord, frozen=True, kw_only=True, tag="member_id_assigned"):
    """A first join was answered with MEMBER_ID_REQUIRED; the id waits to be used (KIP-394)."""

    member: MemberIdentity
    session_timeout_ms: int | None


class PendingMemberRemoved(HistoryRecord, frozen=True, kw_only=True, tag="pending_member_removed"):
    """An id that was handed out and never used is forgotten."""

    member_id: str
    reason: Literal["expired", "left", "group_full", "not_stored"]


class MemberJoined(HistoryRecord, frozen=True, kw_only=True, tag="member_joined"):
    """A member was added to the group."""

    member: MemberIdentity
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    protocols: tuple[str, ...]
    subscribed_topics: tuple[str, ...] | None
    """Topics of its first protocol's subscription; None where it is no consumer or cannot be read."""


class MemberRejoined(HistoryRecord, frozen=True, kw_only=True, tag="member_rejoined"):
    """A known member sent JoinGroup and was let into a rebalance."""

    member: MemberIdentity
    changed: tuple[Literal["protocols", "metadata", "session_timeout", "rebalance_timeout"], ...]
    """What differs from its last join; empty: nothing."""
    subscribed_topics: tuple[str, ...] | None


class MemberLeft(HistoryRecord, frozen=True, kw_only=True, tag="member_left"):
    """A member left by LeaveGroup; its own words are in `cause.reason`."""

    member: MemberIdentity


class MemberExpired(HistoryRecord, frozen=True, kw_only=True, tag="member_expired"):
    """Nothing was heard of a member for its session timeout (after a pause of the clock: since it went on)."""

    member: MemberIdentity
    last_heard_ms: int | None
    session_timeout_ms: int | None
    """The time that it had; five minutes for a new member whose first join is unanswered, without a heartbeat."""
    stalled_broker_id: int | UnsetType = UNSET
    """Of a watched group: the coordinator that stood still, so that it heard nobody."""


class MemberDropped(HistoryRecord, frozen=True, kw_only=True, tag="member_dropped"):
    """A member was removed without having left or expired."""

    member: MemberIdentity
    reason: Literal["did_not_rejoin", "did_not_sync", "did_not_revoke", "group_full", "fenced", "not_stored"]


class MemberReplaced(HistoryRecord, frozen=True, kw_only=True, tag="member_replaced"):
    """A static member came back under a new member id; the old id is fenced from now on (KIP-345)."""

    member: MemberIdentity
    old_member_id: str
    rebalanced: bool | None
    """Whether a rebalance follows from it; None: not known. In a consumer group it keeps its partitions either way."""


class MemberFenced(HistoryRecord, frozen=True, kw_only=True, tag="member_fenced"):
    """A client that uses an instance id which another member id holds was told so."""

    member_id: str
    group_instance_id: str
    owner_member_id: str | None


# -------------------------------------------------------------------------------------------------------- rebalances


class Waited(Struct, frozen=True, kw_only=True, gc=False):
    """One member that a rebalance waited for: to join again, or, in a consumer group, to give up partitions."""

    member_id: str
    told_ms: int | None
    """When a heartbeat (or a refused request) first told it of the rebalance, or what to give up: in a consumer group
    also before the rebalance, for one that has not done so since."""
    joined_ms: int | None
    """When it rejoined, or had given up its partitions; None: never."""


class RebalanceStarted(HistoryRecord, frozen=True, kw_only=True, tag="rebalance_started"):
    """The group went to PreparingRebalance, or a consumer group to its next epoch. Its `seq` names the rebalance."""

    trigger: RebalanceTrigger
    member: MemberIdentity | None
    """Whose doing it is."""
    reason: str
    """The trigger in plain words."""
    initial: bool
    """The first rebalance of an empty group, which waits for group.initial.rebalance.delay.ms."""
    waiting_for: tuple[str, ...]
    """Members that must rejoin; of a consumer group: that have yet to give up partitions."""
    deadline_ms: int | None
    """When it ends at the latest, as seen at the start; None: not known."""
    interrupts: int | None
    """The rebalance that was still going on (CompletingRebalance; in a consumer group any)."""


class RebalanceExtended(HistoryRecord, frozen=True, kw_only=True, tag="rebalance_extended"):
    """The join phase goes on beyond its first deadline."""

    rebalance: int
    reason: Literal["members_arriving", "only_static_members_left"]
    deadline_ms: int


class JoinPhaseCompleted(HistoryRecord, frozen=True, kw_only=True, tag="join_phase_completed"):
    """All members are told the new generation; the leader computes assignments."""

    rebalance: int
    duration_ms: int
    is_begin_known: bool | UnsetType = UNSET
    members: tuple[str, ...]
    waited_for: tuple[Waited, ...]
    slowest: str | None
    """The member that rejoined last of those waited for."""
    dropped: tuple[str, ...]


class ProtocolChosen(HistoryRecord, frozen=True, kw_only=True, tag="protocol_chosen"):
    """Which protocol the members voted for."""

    protocol_name: str
    votes: dict[str, tuple[str, ...]]
    """Protocol name -> members that voted for it."""
    tie: bool
    """Equal counts, settled by Kafka's hash order."""


class LeaderElected(HistoryRecord, frozen=True, kw_only=True, tag="leader_elected"):
    """Another member leads."""

    leader: MemberIdentity
    previous_leader_id: str | None
    reason: Literal["first_member", "leader_gone", "leader_did_not_rejoin", "leader_replaced"]


class AssignmentReceived(HistoryRecord, frozen=True, kw_only=True, tag="assignment_received"):
    """The leader's SyncGroup: who owns what from now on."""

    rebalance: int | None
    leader_id: str
    assignments: tuple[MemberAssignment, ...]


class RebalanceCompleted(HistoryRecord, frozen=True, kw_only=True, tag="rebalance_completed"):
    """A rebalance is over. Of a watched group `is_begin_known` may be false: it took longer than is told."""

    rebalance: int
    outcome: Literal["stable", "empty", "interrupted", "coordinator_changed"]
    """`interrupted`: by the next one. `coordinator_changed`: with its coordinator, and nothing of it is left."""
    trigger: RebalanceTrigger
    started_ms: int
    duration_ms: int
    is_begin_known: bool | UnsetType = UNSET
    join_ms: int | None
    """Length of the join phase; None where it did not end."""
    waited_for: tuple[Waited, ...]
    slowest: str | None
    dropped: tuple[str, ...]


# ----------------------------------------------------------------------------------------------------------- offsets


class OffsetsCommitted(HistoryRecord, frozen=True, kw_only=True, tag="offsets_committed"):
    """An OffsetCommit changed offsets."""

    member_id: str | None
    """None: a commit without membership."""
    offsets: tuple[OffsetChange, ...]


class OffsetsExpired(HistoryRecord, frozen=True, kw_only=True, tag="offsets_expired"):
    """Offsets were dropped because their retention was over."""

    offsets: tuple[OffsetChange, ...]


class OffsetsDeleted(HistoryRecord, frozen=True, kw_only=True, tag="offsets_deleted"):
    """Offsets were deleted by a request, or because their topic was (`cause.kind` is `topics_deleted`)."""

    offsets: tuple[OffsetChange, ...]


# ---------------------------------------------------------------------------------------------------------- refusals


class RequestRefused(HistoryRecord, frozen=True, kw_only=True, tag="request_refused"):
    """A request was answered with an error that is not a normal step of the protocol."""

    api: str
    error_code: int
    error: str
    rule: str
    """Which rule refused it, for example `unknown_member` or `generation_differs`."""
    detail: str
    state: str
    """The state of the group that it met; `none` where there is no group."""


History = (
    GroupCreated | GroupEmpty | GroupStable | GroupDead | GroupRecorded | RecordingGap
    | MemberIdAssigned | PendingMemberRemoved | MemberJoined | MemberRejoined | MemberLeft | MemberExpired
    | MemberDropped | MemberReplaced | MemberFenced
    | RebalanceStarted | RebalanceExtended | JoinPhaseCompleted | ProtocolChosen | LeaderElected
    | AssignmentReceived | RebalanceCompleted
    | OffsetsCommitted | OffsetsExpired | OffsetsDeleted | RequestRefused
    | TransactionHistory | ConsumerGroupHistory | ObservedHistory
)

_decode_history: Callable[[bytes], History] = json_decoder(History)


def decode_history(value: bytes) -> History:
    """Read one record of the history topic. Raises `msgspec.DecodeError`."""
    return _decode_history(value)


# ----------------------------------------------------------------------------------------------- the group as it is


class SnapshotConsumerMember(Struct, frozen=True, kw_only=True, gc=False):
    """What a member of a consumer group asks for, and how far it is on its way to its target."""

    member_epoch: int
    previous_member_epoch: int
    state: Literal["stable", "unrevoked_partitions", "unreleased_partitions", "unknown"]
    """Stable; it must give up what is pending; or it waits for what others must give up."""
    target: tuple[AssignedTopic, ...] | None
    """What it shall own; null: just what it owns."""
    pending_revocation: tuple[AssignedTopic, ...]
    """Those of its partitions that it must give up."""
    revoking_since_ms: int | None
    """Since when it must, by the group's clock; null: it need not, or has not heard of it."""
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    server_assignor: str | None
    rack_id: str | None
    uses_classic_protocol: bool


class SnapshotMember(Struct, frozen=True, kw_only=True, gc=False):
    """One member of the group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    metadata: bytes
    """Its metadata of the chosen protocol; empty before one is chosen."""
    assignment: bytes
    """What it holds, as its leader wrote it."""
    partitions: tuple[AssignedTopic, ...] | None
    """The same decoded; None where the blob is not one of the consumer protocol. Of a consumer group: what the member
    has in hand, also what it must give up."""
    consumer: SnapshotConsumerMember | UnsetType = UNSET
    """Of a consumer group; absent: it is of another kind, or an earlier version wrote it."""


class GroupSnapshot(Struct, frozen=True, kw_only=True, gc=False):
    """The group as it is: the value of the assignments topic (key: group id); a null value: the group is gone.

    In the state Dead there is no group, but its id has settings. More than 64 KiB are written at 256 KiB a second only.
    """

    group_id: str
    epoch: int
    seq: int
    time_ms: int
    """The group's clock, as ticks tell it; after a pause it lies behind."""
    timestamp_ms: int | None = None
    """The same moment by the append times of the events topic; absent in what earlier versions wrote."""
    state: str
    state_since_ms: int
    """Since when it has been in this state, by the group's clock."""
    generation_id: int
    """Of a consumer group: its epoch."""
    assignment_epoch: int | UnsetType = UNSET
    """Of the target assignment of a consumer group; absent: it is of another kind, or an earlier version wrote it."""
    protocol_type: str | None
    protocol_name: str | None
    """The assignor that the members have chosen."""
    leader_id: str | None
    members: tuple[SnapshotMember, ...]
    subscription: SnapshotSubscription | UnsetType = UNSET
    """Of a consumer group; absent: it is of another kind, or an earlier version wrote it."""
    configuration: GroupConfiguration | UnsetType = UNSET
    """Its own settings; absent: it has none."""
    pending_topics: tuple[str, ...] | UnsetType = UNSET
    """Those of which only open transactions have offsets, so the offsets topic has none yet; absent: none."""
    schema_version: Literal[1] = 1

    @property
    def is_consumer_group(self) -> bool:
        """Whether it is a group of KIP-848."""
        return self.subscription is not UNSET

    @property
    def exists(self) -> bool:
        """Whether there is a group."""
        return self.state != GroupState.DEAD


encode_history = json.Encoder().encode
"""Write the value of a record."""
_decode_snapshot: Callable[[bytes], GroupSnapshot] = json_decoder(GroupSnapshot)


def decode_snapshot(value: bytes) -> GroupSnapshot:
    """Read one value of the assignments topic. Raises `msgspec.DecodeError`."""
    return _decode_snapshot(value)
