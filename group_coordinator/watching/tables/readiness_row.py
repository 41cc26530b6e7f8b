"""The row of a judgement: whether a classic group can go over to the consumer protocol."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from group_coordinator.watching.tables.row import Moment

ReadinessVerdict = Literal["go", "change this first", "wait"]


class Cost(Struct, frozen=True, kw_only=True):
    """What rebalances of the classic protocol cost a group in the last week, as far as its history goes."""

    since_ms: int | None
    """From when on it is counted; null: there is no history."""
    rebalances: int
    """Without those that came together in the beginning."""
    without_owner_ms: int
    """Summed over its partitions, while it had members."""
    not_known_ms: int
    """The same of time in which it is not known whether there was an owner."""


class Readiness(Struct, frozen=True, kw_only=True):
    """Whether a classic group can go over to the consumer protocol (KIP-848), by the last of its stored generations.
    `watch` alone writes this table: history has no bytes of assignors."""

    group_id: str
    """The group."""
    stored_ms: Moment
    """When the generation that is judged was stored."""
    verdict: ReadinessVerdict
    """`go`, `change this first` or `wait`."""
    reasons: tuple[str, ...]
    """Sentences: why it is not `go`; of `go` the first says how."""
    is_converted_live: bool
    """Whether brokers convert it with its members in it, when the first member of the consumer protocol comes."""
    remarks: tuple[str, ...]
    """What else will be otherwise."""
    protocol_type: str | None
    """Of its members: `consumer`, `connect` ..."""
    assignor: str | None
    """Its assignor."""
    members: int
    """How many it has."""
    static_members: int
    """How many of them are static."""
    session_timeouts_ms: tuple[int, ...]
    """Of its members, each once."""
    cost: Cost
    """What rebalances cost it in the last week."""
