"""What all records of history are made of: who, what, and the cause. The records are in `schemas.history`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

TimerName = Literal["session", "rebalance", "pending_member", "join", "sync", "offsets_expiry"]


Certainty = Literal["told", "inferred", "not_known", "not_confirmed"]
CauseKind = Literal[
    "request",
    "timer",
    "topics_deleted",
    "transaction_ended",
    "topic_metadata",
    "regexes_resolved",
    "group_config",
    "recording",
    "observed",
]

RebalanceTrigger = Literal[
    "member_joined", "leader_rejoined", "member_changed", "static_member_replaced", "member_left",
    "pending_member_left", "member_expired", "members_did_not_sync", "assignment_too_large",
    "subscription_changed", "topics_changed", "regexes_resolved", "group_converted", "member_dropped", "not_known",
]

EvidenceSource = Literal["offsets_log", "broker_log", "request_log", "poll"]


class Evidence(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Where a watched cluster says so: a record of `__consumer_offsets`, a line of a broker's log, a poll."""

    source: EvidenceSource
    partition: int | None = None
    """Of `__consumer_offsets`."""
    offset: int | None = None
    """Of the record in it."""
    broker: int | None = None
    """Whose log it is; None: the log does not say."""
    file: str | None = None
    line: int | None = None


class Cause(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The request, the timer or the other event that led to a record."""

    kind: CauseKind
    """`topics_deleted` and the like: the event of that `type`. `recording`: what the log of another coordinator says of
    the group. `observed`: what a watched cluster shows of it; `evidence` says where."""
    partition: int
    """Partition of the events topic of `offset`; of a watched group, its partition of `__consumer_offsets`."""
    offset: int
    """The event's offset; for a timer, the offset of the event that armed it (a session: when the member was
    last heard). Of a watched group, that of the record that says so; -1 where a line of a log says it."""
    api: str | None = None
    api_version: int | None = None
    request_id: str | None = None
    timer: TimerName | None = None
    armed_ms: int | None = None
    deadline_ms: int | None = None
    member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    reason: str | None = None
    """What the client gave as its reason (KIP-800), shortened to 255 characters as Kafka does."""
    producer_id: int | None = None
    """Of `transaction_ended`: whose transaction it was."""
    evidence: tuple[Evidence, ...] = ()
    """Of a watched group: where it was seen."""
    certainty: Certainty = "told"
    """Of a watched group: whether the evidence says so, whether it follows from it, whether nobody said it, or whether
    only a line of a broker's log says it, which a client may have written and nothing later confirms."""


class HistoryRecord(Struct, frozen=True, gc=False, tag_field="type"):
    """The fields of every record.

    Code may give these by position, those of one kind of record by name only.
    """

    group_id: str
    epoch: int
    seq: int
    time_ms: int
    """The group's time, as the ticks say: what every deadline is measured by."""
    timestamp_ms: int
    """The same moment by the append time of the events topic: finer than the ticks, for people and durations."""
    generation_id: int
    cause: Cause
    caused_by: int | None = None
    schema_version: Literal[1] = 1


class MemberIdentity(Struct, frozen=True, kw_only=True, gc=False):
    """Who a member is."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str


class MemberRecorded(Struct, frozen=True, kw_only=True, gc=False):
    """One member of a group that a recording tells of; since when it was there is not known."""

    member: MemberIdentity
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    protocols: tuple[str, ...]
    subscribed_topics: tuple[str, ...] | None
    """Topics of its first protocol's subscription; None where it is no consumer or cannot be read."""


class AssignedTopic(Struct, frozen=True, kw_only=True, gc=False):
    """Partitions of one topic that a member owns."""

    topic: str
    """The name that it has, or had; its id where none is known."""
    partitions: tuple[int, ...]


class MemberAssignment(Struct, frozen=True, kw_only=True, gc=False):
    """What one member got."""

    member_id: str
    topics: tuple[AssignedTopic, ...] | None
    """None: the blob is not one of the consumer protocol."""


class OffsetChange(Struct, frozen=True, gc=False):
    """A committed offset of one partition, and the one before."""

    topic: str
    partition: int
    offset: int | None
    """None: there is none any more."""
    previous_offset: int | None
    leader_epoch: int = -1
    metadata: str = ""
