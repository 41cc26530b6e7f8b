"""What a line of a broker's log can say of a group, typed; one type for each thing that is told.

The words differ with the version; the types do not. Members are named by their ids.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from schemas.history import RebalanceTrigger


class OfGroup(Struct, frozen=True, kw_only=True, gc=False, tag=True):
    """What every line has that names a group."""

    group_id: str


# ------------------------------------------------------------------------------------------------------ classic groups


class MemberIdGiven(OfGroup, frozen=True, kw_only=True, gc=False):
    """A client without an id was given one, and is to join with it."""

    member_id: str


class MemberAdded(OfGroup, frozen=True, kw_only=True, gc=False):
    """A member was added to the group."""

    member_id: str
    group_instance_id: str | None = None


class RebalancePrepared(OfGroup, frozen=True, kw_only=True, gc=False):
    """A rebalance begins."""

    old_generation_id: int
    trigger: RebalanceTrigger
    member_ids: tuple[str, ...] = ()
    """Whose doing it is."""
    group_instance_id: str | None = None
    reason: str
    """The broker's words."""
    client_reason: str | None = None


class JoinPhaseEnded(OfGroup, frozen=True, kw_only=True, gc=False):
    generation_id: int
    members: int


class AssignmentTaken(OfGroup, frozen=True, kw_only=True, gc=False):
    """The leader has sent the assignment."""

    generation_id: int
    leader_id: str | None = None
    """None: the line does not say, as before Kafka 3."""
    members: int | None = None


class GroupEmptied(OfGroup, frozen=True, kw_only=True, gc=False):
    generation_id: int


class MemberFailed(OfGroup, frozen=True, kw_only=True, gc=False):
    """Nothing was heard of a member for its session timeout."""

    member_id: str


class MemberDeparted(OfGroup, frozen=True, kw_only=True, gc=False):
    """A member left by LeaveGroup, or by the heartbeat that says so."""

    member_id: str
    client_reason: str | None = None
    is_told_late: bool = False
    """The line stands behind those of what followed from it, as brokers of 3.x write it."""


class MembersNotRejoined(OfGroup, frozen=True, kw_only=True, gc=False):
    """Members were put out because they did not join the rebalance in time."""

    member_ids: tuple[str, ...]


class PendingMemberExpired(OfGroup, frozen=True, kw_only=True, gc=False):
    """An id was given out and not used in time."""

    member_id: str


class StaticMemberReplaced(OfGroup, frozen=True, kw_only=True, gc=False):
    """A static member came back under a new id."""

    group_instance_id: str
    old_member_id: str
    member_id: str | None
    """None: the line does not say."""
    in_consumer_group: bool = False
    """Of a group that is a consumer group from then on, if it was not before."""


class InstanceFenced(OfGroup, frozen=True, kw_only=True, gc=False):
    """A client that uses the instance id of another member was refused."""

    member_id: str
    group_instance_id: str
    owner_member_id: str | None


class GroupDeleted(OfGroup, frozen=True, kw_only=True, gc=False):
    """The group was deleted by a request."""


class GroupExpired(OfGroup, frozen=True, kw_only=True, gc=False):
    """The group had neither members nor offsets."""

    generation_id: int


class GroupLoaded(OfGroup, frozen=True, kw_only=True, gc=False):
    """This broker coordinates the group from now on. Brokers name its generation up to 3.9, its members from 4.0 on."""

    generation_id: int | None = None
    members: int | None = None


class PartitionLoaded(OfGroup, frozen=True, kw_only=True, gc=False):
    """This broker coordinates all groups of this partition of the offsets topic from now on. It names no group."""

    of_partition: int
    leader_epoch: int


class GroupUnloaded(OfGroup, frozen=True, kw_only=True, gc=False):
    """This broker does not coordinate the group any more."""


class LogSilent(OfGroup, frozen=True, kw_only=True, gc=False):
    """The log had no line for a while, and goes on. It names no group."""

    since_ms: int
    until_ms: int


class BrokerStoodStill(OfGroup, frozen=True, kw_only=True, gc=False):
    """No line says so: it follows from the lines and records of several groups."""

    since_ms: int
    until_ms: int
    member_ids: tuple[str, ...]
    """The members of the group that expired by it."""
    members: int
    """So many expired by it ..."""
    groups: int
    """... of so many groups."""


# ----------------------------------------------------------------------------------------------------- consumer groups


class EpochBumped(OfGroup, frozen=True, kw_only=True, gc=False):
    epoch: int


class TargetComputed(OfGroup, frozen=True, kw_only=True, gc=False):
    epoch: int
    assignor: str


class MemberFencedOut(OfGroup, frozen=True, kw_only=True, gc=False):
    """A member was put out of a consumer group."""

    member_id: str
    why: str
    """The broker's words."""

    @property
    def is_expiry(self) -> bool:
        return "session expired" in self.why


class StaticMemberAway(OfGroup, frozen=True, kw_only=True, gc=False):
    """A static member left for a while."""

    member_id: str
    group_instance_id: str


class GroupConverted(OfGroup, frozen=True, kw_only=True, gc=False):
    to_protocol: Literal["classic", "consumer"]


class UpgradeRefused(OfGroup, frozen=True, kw_only=True, gc=False):
    """A classic group could not be converted."""

    why: str


LineEvent = (
    MemberIdGiven
    | MemberAdded
    | RebalancePrepared
    | JoinPhaseEnded
    | AssignmentTaken
    | GroupEmptied
    | MemberFailed
    | MemberDeparted
    | MembersNotRejoined
    | PendingMemberExpired
    | StaticMemberReplaced
    | InstanceFenced
    | GroupDeleted
    | GroupExpired
    | GroupLoaded
    | PartitionLoaded
    | LogSilent
    | BrokerStoodStill
    | GroupUnloaded
    | EpochBumped
    | TargetComputed
    | MemberFencedOut
    | StaticMemberAway
    | GroupConverted
    | UpgradeRefused
)
"""All of them."""


_OF_MODERN_GROUPS = (EpochBumped, TargetComputed, MemberFencedOut, StaticMemberAway)


def is_of_modern_group(event: LineEvent) -> bool:
    """Return whether a line tells that the group is no classic one."""
    if isinstance(event, GroupConverted):
        return event.to_protocol == "consumer"
    return isinstance(event, _OF_MODERN_GROUPS) or (isinstance(event, StaticMemberReplaced) and event.in_consumer_group)


class BrokerLine(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One line: when, whose, where it stands, and what it says."""

    time_ms: int
    broker: int | None
    partition: int | None
    """Of the offsets topic, where the line names it."""
    file: str
    number: int
    event: LineEvent
    source: Literal["broker_log", "request_log"] = "broker_log"
    """A line of a request log may say the same of a member."""
