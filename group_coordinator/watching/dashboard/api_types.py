"""What the API answers, version 1, and `--json` prints: pages and the OpenAPI document are made from these types.

Fields stay, with name and meaning; new ones may come. Times are milliseconds since 1970. What is not known is null.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from group_coordinator.watching.dashboard.findings import Finding, FindingKind
from group_coordinator.watching.dashboard.open_transactions import OpenTransactions
from group_coordinator.watching.dashboard.verdicts import Severity, VerdictKind
from group_coordinator.watching.dashboard.watched import Watched
from group_coordinator.watching.narrative.seen import CertaintyInWords
from group_coordinator.watching.narrative.steps import Move, WaitedFor
from schemas.history import Cause


class Group(Struct, frozen=True, kw_only=True):
    """A group as it is now."""

    group_id: str
    """Where there are several clusters it begins with the cluster's name and a slash."""
    cluster: str
    """The name that `watch --cluster` gives; empty: there is one cluster only."""
    type: str
    """`classic`, `consumer`, `share` or `streams`."""
    state: str
    state_since_ms: int
    members: int
    classic_members: int
    """Those of the classic protocol, also in a consumer group."""
    held_up_since_ms: int | None
    """Since when a member has not given up what it was told to; null: nobody must."""
    generation: int
    """The group epoch, of a group that is not classic."""
    target_epoch: int | None
    """The epoch of the target, if the group counts epochs."""
    topics: tuple[str, ...]
    partitions: int
    lag: int | None
    """Messages that wait, without those that were deleted; null: the ends of the logs are not known."""
    lag_ms: int | None
    """How long ago the next message was written, of the partition that is furthest behind."""
    lag_ms_is_at_least: bool
    """It may be longer: the ends of logs were not known before."""
    lost: int
    """Messages deleted unread, which `lag` leaves out: behind committed offsets, or passed over in the last hour."""
    uncommitted_partitions: int
    """Partitions that were assigned and have no committed offset; `lag` does not count them."""
    uncommitted_messages: int
    """So many messages they have at most."""
    partitions_beyond_end: int
    """Partitions whose committed offset lies beyond the end of the log."""
    loses_in_ms: int | None
    """In about so long messages are deleted unread."""
    finding_counts: dict[FindingKind, int]
    """How many partitions of each kind of finding there are ..."""
    findings: tuple[Finding, ...]
    """... and the first ones."""
    last_commit_ms: int | None
    last_event_ms: int
    last_rebalance_ms: int | None
    """When it began."""
    last_rebalance_duration_ms: int | None
    last_rebalance_cause: str
    latest_rebalances_ms: tuple[int, ...]
    """When each of the latest began."""
    rebalances: int
    """Those that are known."""
    refusals: int
    """Requests that were answered with an error, as far as they are known."""
    verdict: VerdictKind
    severity: Severity
    """3: somebody should look now. 2: somebody should look. 1: it passes. 0: all is well."""
    reason: str
    """Why the verdict is what it is, in words."""
    member: str | None
    """Whom the verdict is about."""
    holds_until_ms: int | None
    """From then on time alone may make the verdict another one."""

    @property
    def id_in_cluster(self) -> str:
        """The id without the name of the cluster."""
        return self.group_id.removeprefix(f"{self.cluster}/") if self.cluster else self.group_id

    @property
    def labels(self) -> tuple[str, str]:
        """The cluster and the group, as labels of metrics."""
        return self.cluster, self.id_in_cluster

    def found(self, *kinds: FindingKind) -> int:
        """Return how many partitions of these kinds of finding there are."""
        return sum(self.finding_counts.get(kind, 0) for kind in kinds)


class Groups(Struct, frozen=True, kw_only=True):
    """A page of groups, by id."""

    now_ms: int
    groups: tuple[Group, ...]
    next_page: str | None
    """What to give as `page` for the groups that follow; null: there are none."""
    groups_left_out: int
    """Groups that memory has no room for: the list leaves them out, and each is found by its id."""


class PastGroup(Struct, frozen=True, kw_only=True):
    """A group as it was."""

    group_id: str
    state: str
    state_since_ms: int
    members: int
    generation: int


class PastGroups(Struct, frozen=True, kw_only=True):
    """All groups as they were at a moment, as far back as that is remembered."""

    now_ms: int
    at_ms: int
    groups: tuple[PastGroup, ...]


class Identity(Struct, frozen=True, kw_only=True):
    """Whom a member's id stands for."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None


class Member(Identity, frozen=True, kw_only=True):
    """A member of a group."""

    topics: dict[str, tuple[int, ...]]
    """The partitions that it has."""


class Partition(Struct, frozen=True, kw_only=True):
    """A partition that has an owner in the group, or a committed offset."""

    topic: str
    partition: int
    member_id: str | None
    """The owner."""
    committed_offset: int | None
    committed_ms: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_ms: int | None
    lag_ms_is_at_least: bool
    lost: int
    is_beyond_end: bool
    """The committed offset lies beyond the end of the log: the topic was made anew, or truncated."""
    uncommitted_messages: int | None
    """Of a partition without a committed offset: so many messages wait at most."""
    metadata: str


class PartitionOverTime(Partition, frozen=True, kw_only=True):
    """The same, with what was committed, and the ends of the log, as far as they are known."""

    committed_by: str | None
    """The member, or the client, that committed last."""
    expires_ms: int | None
    times_ms: tuple[int, ...]
    """When each of these ..."""
    offsets: tuple[int | None, ...]
    """... was committed."""
    end_times_ms: tuple[int, ...]
    end_offsets: tuple[int, ...]


class GroupDetails(Struct, frozen=True, kw_only=True):
    """A group with its members and partitions."""

    now_ms: int
    group: Group
    assignor: str | None
    leader_id: str | None
    members: tuple[Member, ...]
    partitions: tuple[Partition, ...]
    findings: tuple[Finding, ...]
    """The first ones."""
    open_transactions: OpenTransactions
    """Offsets wait for these."""


class Seen(Struct, frozen=True, kw_only=True):
    """Where a watched cluster, or a request log, says so."""

    sources: str
    places: str
    certainty: CertaintyInWords


class Rebalance(Struct, frozen=True, kw_only=True):
    """A rebalance of a group."""

    key: str
    started_ms: int
    ended_ms: int | None
    duration_ms: int | None
    generation: int
    counts: Literal["generation", "epoch"]
    outcome: str | None
    trigger: str
    cause: str
    """In words."""
    initial: bool
    """The group came together for the first time."""
    is_begin_known: bool
    """False: only its end was seen."""
    has_steps: bool
    """Whether the records are there that tell it step by step."""
    waited_for: int
    """So many members."""
    dropped: tuple[str, ...]
    """Members that were put out, because they did not rejoin."""
    seen: Seen | None


class Rebalances(Struct, frozen=True, kw_only=True):
    """A page of rebalances of a group, the newest first."""

    now_ms: int
    group_id: str
    rebalances: tuple[Rebalance, ...]
    next_page: str | None


class Step(Struct, frozen=True, kw_only=True):
    """What happened in a rebalance, in words."""

    time_ms: int
    text: str
    is_cause: bool
    type: str | None
    """The kind of the record that says so; null: it follows from others."""
    cause: Cause | None
    """The request or timer."""
    seen: Seen | None
    advice: str


class Holder(Struct, frozen=True, kw_only=True):
    """A member that must give up partitions which others wait for."""

    member_id: str
    partitions: str
    """In words."""
    since_ms: int | None
    until_ms: int | None
    """It is dropped then."""
    waiting: tuple[str, ...]


class Votes(Struct, frozen=True, kw_only=True):
    """How the assignor was chosen: the members that voted for each."""

    time_ms: int
    protocol: str
    tie: bool
    votes: dict[str, tuple[str, ...]]


class RebalanceDetails(Struct, frozen=True, kw_only=True):
    """A rebalance, step by step."""

    group_id: str
    rebalance: Rebalance
    headline: str
    join_ms: int | None
    """So long the join phase took."""
    interrupts: str | None
    """The key of the rebalance that it cut short."""
    steps: tuple[Step, ...]
    steps_left_out: int
    waiting: tuple[str, ...]
    """Members that it still waits for."""
    waited_for: tuple[WaitedFor, ...]
    holders: tuple[Holder, ...]
    moves: tuple[Move, ...]
    votes: Votes | None
    members: tuple[Identity, ...]


class Event(Struct, frozen=True, kw_only=True):
    """What happened in a group, in words."""

    number: int
    time_ms: int
    group_id: str
    type: str
    text: str
    cause: Cause
    """The request or timer."""
    seen: Seen | None


class Events(Struct, frozen=True, kw_only=True):
    """A page of the latest events of all groups, the newest first."""

    now_ms: int
    events: tuple[Event, ...]
    next_page: str | None


class Overview(Struct, frozen=True, kw_only=True):
    """What is known, and how far."""

    api_version: Literal["v1"] = "v1"
    now_ms: int
    source: str
    is_live: bool
    caught_up: bool
    """All that was there at the start is shown. Until then groups may be missing, or older than they are."""
    progress: str
    doubts: tuple[str, ...]
    """Why what is told may not be what happened."""
    groups: int
    groups_left_out: int
    """Groups that memory has no room for: the list leaves them out, and each is found by its id."""
    records: int
    unreadable: int
    dead_letters: int
    kept_bytes: int
    first_ms: int | None
    last_ms: int
    verdict_window_ms: int
    """Verdicts look at so much of the past."""
    has_what_if: bool
    is_report: bool
    watched: tuple[Watched, ...]
    """Clusters whose own brokers coordinate the groups, and from which sources that is known."""


class Request(Struct, frozen=True, kw_only=True):
    """A request, or another event, as it lies on the events topic, and when it was appended."""

    timestamp_ms: int
    value: Any


class DeadLetter(Struct, frozen=True, kw_only=True):
    """An event that could not be read."""

    number: int
    """In the order in which they were seen here."""
    timestamp_ms: int
    group_id: str | None
    reason: str
    detail: str
    partition: int | None
    offset: int | None
    value: str


class DeadLetters(Struct, frozen=True, kw_only=True):
    """The latest events that could not be read, the newest first."""

    now_ms: int
    dead_letters: tuple[DeadLetter, ...]


class Problem(Struct, frozen=True, kw_only=True):
    """Why there is no answer."""

    error: str
