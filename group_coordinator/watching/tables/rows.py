"""The tables, row by row: what each column means. Schemas (Arrow, Spark, Delta) and the reference are made from here.

A field of type `Moment` is milliseconds since 1970; its table has a second column with the same moment as a timestamp
(`from_ms` and `from_at`). Every table has a column `day`: the UTC day of `Table.day_of`, by which it is partitioned.
`last_seq` grows with every change of a row: of two versions of a row the one with the larger `last_seq` holds.

Moments are append times of the events topic. Where a row spans time (rebalances, ownership, members) a moment is never
before that of an earlier record of the group, so that no row ends before it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from group_coordinator.watching.tables.owned_rows import Ownership as Ownership
from group_coordinator.watching.tables.owned_rows import OwnershipEnd as OwnershipEnd
from group_coordinator.watching.tables.owned_rows import Target as Target
from group_coordinator.watching.tables.readiness_row import Cost as Cost
from group_coordinator.watching.tables.readiness_row import Readiness as Readiness
from group_coordinator.watching.tables.row import Moment as Moment
from group_coordinator.watching.tables.row import Row as Row
from schemas.history import CauseKind, Certainty, RebalanceTrigger, TimerName, Waited


class Event(Row, frozen=True, kw_only=True):
    """Every record of the history, once, with its cause in columns."""

    events_partition: int
    """Partition of the events topic that the group lives on. Part of the key: a request that was sent to a wrong
    partition is refused there, under the numbers of that partition."""
    type: str
    """What happened: `member_expired`, `rebalance_started` ..."""
    time_ms: Moment
    """When, by the group's clock: what deadlines are measured by."""
    timestamp_ms: Moment
    """When, by the append time of the events topic: finer, for people."""
    generation_id: int
    """The group's generation at that moment."""
    caused_by: int | None
    """`seq` of the record that led to this one."""
    member_id: str | None
    """The member that the record is about; null where it is about the group."""
    cause_kind: CauseKind
    """What led to it: a request, a timer, or another event; `observed`: of a watched one."""
    cause_offset: int
    """The event's offset in the events topic; for a timer, that of the event that armed it."""
    cause_api: str | None
    """The request's kind: `JoinGroup`, `OffsetCommit` ..."""
    cause_api_version: int | None
    """Its version."""
    cause_request_id: str | None
    """Its id, under which its answer lies on the responses topic."""
    cause_timer: TimerName | None
    """Which timer fired."""
    cause_armed_ms: Moment | None
    """When the timer was armed."""
    cause_deadline_ms: Moment | None
    """When it was due."""
    cause_member_id: str | None
    """Who sent the request, or whose timer it was."""
    cause_group_instance_id: str | None
    """The static id that the request gave."""
    cause_client_id: str | None
    """The client id that the request gave."""
    cause_client_host: str | None
    """Where the request came from."""
    cause_reason: str | None
    """The reason that the client gave (KIP-800)."""
    cause_certainty: Certainty | None
    """Of a watched group, how far the record is sure: `told` by the evidence, `inferred`, `not_known`, or
    `not_confirmed`: only a line of a broker's log says so, which a client may have written. Else `told`."""
    record: str
    """The whole record as JSON, as on the history topic."""


class Rebalance(Row, frozen=True, kw_only=True):
    """One rebalance. While it runs, `ended_ms` and `outcome` are null."""

    started_ms: Moment
    """When the group went to PreparingRebalance, or a consumer group to another epoch."""
    join_ended_ms: Moment | None
    """When all had joined, or the time was over. Of a consumer group: null."""
    target_ms: Moment | None = None
    """Of a consumer group: when the target assignment was computed."""
    ended_ms: Moment | None
    """When it was over: the leader's assignment arrived, all members of a consumer group had reconciled, nobody was
    left, the next rebalance interrupted it, or its coordinator was gone."""
    outcome: Literal["stable", "empty", "interrupted", "coordinator_changed", "unknown"] | None
    """How it ended; `coordinator_changed`: with its coordinator, and nothing of it is left; `unknown`: the history has
    no end of it. Null: it is running."""
    trigger: RebalanceTrigger
    """What started it."""
    reason: str
    """The trigger in plain words."""
    cause_chain: str
    """The records that led to it, first cause first, in words."""
    cause_seqs: tuple[int, ...]
    """The same records by their `seq`, to be looked up in `events`."""
    member_id: str | None
    """Whose doing it was."""
    group_instance_id: str | None
    """That member's static id."""
    client_id: str | None
    """That member's client id."""
    client_host: str | None
    """That member's host."""
    client_reason: str | None
    """The reason that its client gave (KIP-800)."""
    cause_offset: int
    """Offset of the causing request in the events topic; for a timer, of the event that armed it."""
    initial: bool
    """The first rebalance of an empty group, which waits for further members."""
    interrupts: int | None
    """`seq` of the rebalance that this one cut short."""
    waited_for: tuple[Waited, ...]
    """The members that had to rejoin, when each was told and when it joined (null: never). Of a consumer group: that
    had to give up partitions, when each was told, and when it had."""
    slowest: str | None
    """The member of those that joined last."""
    dropped: tuple[str, ...]
    """Members that were put out because they did not rejoin, sync or give up partitions in time."""
    extensions: int = 0
    """How often the join phase went on beyond its deadline."""
    join_ms: int | None = None
    """Length of the join phase."""
    sync_ms: int | None = None
    """Length of the sync phase: from there to the end."""
    total_ms: int | None = None
    """From start to end."""
    generation_before: int
    """The generation that it ended. Of a consumer group generations are group epochs."""
    generation_after: int | None = None
    """The generation that it led to."""
    protocol_name: str | None = None
    """The assignor that the members voted for, or that computed the target."""
    leader_id: str | None = None
    """The member that computed the assignment; null where it came to none."""
    members: int | None = None
    """How many members were in when the join phase ended, or when the target was computed."""
    partitions: int | None = None
    """How many partitions were assigned; null where none were, or the assignment is not one of the consumer
    protocol."""
    last_seq: int
    """The history record that last changed this row."""


MemberEnd = Literal["left", "expired", "dropped", "replaced", "never_joined", "unknown"]


class Member(Row, frozen=True, kw_only=True):
    """One life of a member: from its id or its joining to its end. A process that restarts is another life."""

    member_id: str
    """Its id."""
    group_instance_id: str | None
    """Its static id."""
    client_id: str | None
    """Its client id."""
    client_host: str | None
    """Its host."""
    replaces: str | None = None
    """The member id that this one took over from (static members)."""
    first_seen_ms: Moment
    """When it was given its id, or joined."""
    joined_ms: Moment | None
    """When it joined; null: it has not (yet) used its id."""
    ended_ms: Moment | None = None
    """When it was gone; null: it is there."""
    ended_by: MemberEnd | None = None
    """How it ended; `never_joined`: its id was not used; `unknown`: the history does not say."""
    reason: str | None = None
    """More about the end: the client's own words, which rule put it out, or who replaced it."""
    lived_ms: int | None = None
    """From `first_seen` to its end."""
    rejoins: int = 0
    """How often it joined again."""
    session_timeout_ms: int | None
    """Its session timeout."""
    rebalance_timeout_ms: int | None
    """Its rebalance timeout."""
    protocols: tuple[str, ...] | None = None
    """The assignors that it offered when it joined."""
    subscribed_topics: tuple[str, ...] | None = None
    """Its subscription at its last join; null where it is not known."""
    first_generation_id: int | None = None
    """The first generation that it was in."""
    last_generation_id: int | None = None
    """The last one so far."""
    last_seq: int
    """The history record that last changed this row."""


class Commit(Row, frozen=True, kw_only=True):
    """One partition's offset committed."""

    position: int
    """Place in the request's list: part of the key, with `seq`."""
    committed_ms: Moment
    """When."""
    topic: str
    """The topic."""
    partition: int
    """The partition."""
    offset: int | None
    """The offset committed."""
    previous_offset: int | None
    """The one before; null: there was none."""
    moved: int | None
    """How far it went; negative: back."""
    rewind: bool
    """Whether it went back."""
    leader_epoch: int
    """Leader epoch that the client gave; -1: none."""
    metadata: str
    """Metadata that the client gave."""
    member_id: str | None
    """Who committed; null: a client without membership."""
    client_id: str | None
    """Its client id."""
    client_host: str | None
    """Its host."""
    generation_id: int
    """The group's generation."""
    request_offset: int
    """Offset of the request in the events topic."""


class Refusal(Row, frozen=True, kw_only=True):
    """One request, or one part of a request, answered with an error that is not a normal step of the protocol."""

    events_partition: int
    """Partition of the events topic that the request lies on; part of the key."""
    refused_ms: Moment
    """When."""
    api: str
    """The request's kind."""
    api_version: int | None
    """Its version."""
    error_code: int
    """Kafka's error code."""
    error: str
    """Its name."""
    rule: str
    """Which rule refused it."""
    detail: str
    """The rule applied to this request, in words."""
    state: str
    """The state of the group that it met; `none`: there is no group."""
    generation_id: int
    """The group's generation; -1: there is no group."""
    member_id: str | None
    """The member that the request named."""
    group_instance_id: str | None
    """The static id that it named."""
    client_id: str | None
    """Its client id."""
    client_host: str | None
    """Its host."""
    request_id: str | None
    """Its id."""
    request_offset: int
    """Its offset in the events topic."""


class Expiry(Row, frozen=True, kw_only=True):
    """Something ended because its time was over; and offsets and groups that somebody deleted."""

    position: int
    """Place in the record's list of offsets, else 0: part of the key, with `seq`."""
    expired_ms: Moment
    """When."""
    kind: Literal["member", "pending_member", "offset", "group"]
    """What: a member, an id that was never used, a committed offset, a group."""
    reason: Literal["expired", "deleted", "not_known"]
    """By time, by request, or untold."""
    topic: str | None = None
    """Of an offset: the topic."""
    partition: int | None = None
    """Of an offset: the partition."""
    offset: int | None = None
    """Of an offset: what it was."""
    member_id: str | None = None
    """Of a member or an id: which. Of a deletion: the client's member id, where it gave one."""
    group_instance_id: str | None = None
    """Of a member: its static id."""
    client_id: str | None = None
    """Of a member: its client id. Of a deletion: the client's."""
    client_host: str | None = None
    """Of a member: its host. Of a deletion: the client's."""
    last_heard_ms: Moment | None = None
    """Of a member: when it was last heard, by the group's clock."""
    timeout_ms: int | None = None
    """Of a member: the session timeout that it had."""


class Unreadable(Struct, frozen=True, kw_only=True):
    """A record of the history topic that is no history record: nothing else is known of it, and no table has it."""

    history_partition: int | None
    """Where it lies."""
    history_offset: int | None
    """Where it lies."""
    timestamp_ms: Moment
    """Its append time; 1970 where it has none."""
    reason: str
    """Why it cannot be read."""
    value: str | None
    """Its value; bytes that are no UTF-8 are replaced."""


AnyRow = Event | Rebalance | Ownership | Target | Member | Commit | Refusal | Expiry | Unreadable | Readiness


class Table(Struct, frozen=True):
    """One table."""

    name: str
    row: type[Any]
    key: tuple[str, ...]
    """The columns that name a row."""
    day_of: str
    """The moment whose UTC day the row lies under; it never changes in the life of a row."""

    @property
    def changes(self) -> bool:
        """Rows change after they were first written; else rows are only added."""
        return "last_seq" in self.row.__struct_fields__


TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table("events", Event, ("group_id", "events_partition", "epoch", "seq"), "timestamp_ms"),
        Table("rebalances", Rebalance, ("group_id", "epoch", "seq"), "started_ms"),
        Table("ownership", Ownership, ("group_id", "epoch", "seq", "topic", "partition", "member_id"), "from_ms"),
        Table("targets", Target, ("group_id", "epoch", "seq", "topic", "partition", "member_id"), "from_ms"),
        Table("members", Member, ("group_id", "epoch", "seq"), "first_seen_ms"),
        Table("commits", Commit, ("group_id", "epoch", "seq", "position"), "committed_ms"),
        Table("refusals", Refusal, ("group_id", "events_partition", "epoch", "seq"), "refused_ms"),
        Table("expiries", Expiry, ("group_id", "epoch", "seq", "position"), "expired_ms"),
        Table("unreadable", Unreadable, ("history_partition", "history_offset"), "timestamp_ms"),
        Table("readiness", Readiness, ("group_id",), "stored_ms"),
    )
}
"""In the order in which a batch is written."""

TABLE_OF: Mapping[type[Any], Table] = {table.row: table for table in TABLES.values()}

MS_PER_DAY = 86_400_000
