"""What the API answers, version 1: the OpenAPI document is made from these types, and `--json` prints them.

A field that is here stays, with its name and meaning; new ones may come. Times are milliseconds since 1970. What is
not known is null.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from group_coordinator.watching.dashboard.findings import FindingKind
from group_coordinator.watching.dashboard.verdicts import VerdictKind


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
    generation: int
    """The group epoch, of a group that is not classic."""
    topics: tuple[str, ...]
    partitions: int
    lag: int | None
    """Messages that wait, without those that were deleted; null: the ends of the logs are not known."""
    lag_ms: int | None
    """How long ago the next message was written, of the partition that is furthest behind."""
    lag_ms_is_at_least: bool
    """It may be longer: the ends of logs were not known before."""
    lost: int
    """Messages that were deleted before they were read."""
    uncommitted_partitions: int
    """Partitions that were assigned and have no committed offset; `lag` does not count them."""
    uncommitted_messages: int
    """So many messages they have at most."""
    last_commit_ms: int | None
    last_rebalance_ms: int | None
    last_rebalance_cause: str
    rebalances: int
    """Those that are known."""
    verdict: VerdictKind
    severity: Literal[0, 1, 2, 3]
    """3: somebody should look now. 2: somebody should look. 1: it passes. 0: all is well."""
    reason: str
    """Why the verdict is what it is, in words."""
    member: str | None
    """Whom the verdict is about."""


class Groups(Struct, frozen=True, kw_only=True):
    """A page of groups, by id."""

    now_ms: int
    groups: tuple[Group, ...]
    next_page: str | None
    """What to give as `page` for the groups that follow; null: there are none."""


class Member(Struct, frozen=True, kw_only=True):
    """A member of a group."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None
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
    metadata: str


class Finding(Struct, frozen=True, kw_only=True):
    """What is wrong with one partition."""

    kind: FindingKind
    topic: str
    partition: int
    member_id: str | None
    committed_offset: int | None
    messages: int
    since_ms: int | None
    in_ms: int | None


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


class Rebalance(Struct, frozen=True, kw_only=True):
    """A rebalance of a group."""

    key: str
    started_ms: int
    ended_ms: int | None
    duration_ms: int | None
    generation: int
    outcome: str | None
    trigger: str
    cause: str
    """In words."""
    initial: bool
    """The group came together for the first time."""


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


class WaitedFor(Struct, frozen=True, kw_only=True):
    """A member that a rebalance had to wait for."""

    member_id: str
    told_ms: int | None
    joined_ms: int | None
    gone_ms: int | None
    fate: str | None
    is_slowest: bool


class Move(Struct, frozen=True, kw_only=True):
    """Partitions with their owner before and after."""

    topic: str
    partitions: tuple[int, ...]
    member_id_before: str | None
    member_id_after: str | None
    member_id_target: str | None


class Identity(Struct, frozen=True, kw_only=True):
    """Whom a member's id stands for."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None


class RebalanceDetails(Struct, frozen=True, kw_only=True):
    """A rebalance, step by step."""

    group_id: str
    rebalance: Rebalance
    headline: str
    steps: tuple[Step, ...]
    waited_for: tuple[WaitedFor, ...]
    moves: tuple[Move, ...]
    members: tuple[Identity, ...]


class Event(Struct, frozen=True, kw_only=True):
    """What happened in a group, in words."""

    number: int
    time_ms: int
    group_id: str
    type: str
    text: str


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


class Problem(Struct, frozen=True, kw_only=True):
    """Why there is no answer."""

    error: str
