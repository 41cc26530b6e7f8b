"""A world as data: who lives in it and what goes wrong. With its seed it decides everything that happens.

Times are milliseconds since the world's beginning.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from coordinator_state import GroupConfig

Protocol = Literal["classic", "consumer"]


class MemberPlan(Struct, frozen=True, kw_only=True):
    """One process with one group member."""

    name: str
    group_id: str
    topics: tuple[str, ...]
    start_ms: int = 0
    instance_id: str | None = None
    assignors: tuple[str, ...] = ("range",)
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 1_500
    max_poll_interval_ms: int = 10_000
    poll_every_ms: int = 500
    auto_commit_interval_ms: int = 2_000
    clock_percent: int = 100
    """How fast its own clock goes."""
    clock_ahead_ms: int = 0
    protocol: Protocol = "classic"
    pattern: str | None = None
    """A member of the consumer protocol subscribes to this instead of to topics by name."""
    assignor: str | None = None
    """The coordinator's assignor that it asks for."""


class ProducerPlan(Struct, frozen=True, kw_only=True):
    """One process that commits offsets of a group of its own in transactions. What goes wrong has a share of all."""

    name: str
    group_id: str
    start_ms: int = 0
    pause_ms: int = 500
    """Between its transactions, at the most."""
    goes_on: float = 0.4
    """It commits again in the same transaction, further on."""
    aborts: float = 0.3
    crashes: float = 0.1
    losses: float = 0.05
    copies: float = 0.5
    """Requests that come again, up to six seconds later."""


class _AtATime(Struct, frozen=True, kw_only=True, tag=True):
    at_ms: int


class _OfMember(_AtATime, frozen=True, kw_only=True):
    member: str


class Crash(_OfMember, frozen=True, kw_only=True):
    """A process ends without a word; perhaps it is started again."""

    back_after_ms: int | None = None


class Close(_OfMember, frozen=True, kw_only=True):
    """A process closes its member, and ends; perhaps it is started again."""

    back_after_ms: int | None = None


class Freeze(_OfMember, frozen=True, kw_only=True):
    """A process stands still: it sends nothing and reads nothing. Then it goes on as if nothing had been."""

    for_ms: int


class SlowPoll(_OfMember, frozen=True, kw_only=True):
    """An application does not poll, while its member sends heartbeats."""

    for_ms: int


class BadNetwork(_OfMember, frozen=True, kw_only=True):
    """Between one process and the broker: requests and answers are lost, doubled, late."""

    for_ms: int
    lose_requests: int = 0
    """Percent."""
    lose_answers: int = 0
    double: int = 0
    late: int = 0
    late_ms: int = 0
    """How late at the most."""


class Subscribe(_OfMember, frozen=True, kw_only=True):
    """An application subscribes to other topics."""

    topics: tuple[str, ...]


class Migrate(_OfMember, frozen=True, kw_only=True):
    """A process closes its member and is started again with the other protocol: one step of a rolling migration."""

    protocol: Protocol
    back_after_ms: int


class BrokerPause(_AtATime, frozen=True, kw_only=True):
    """The log takes and gives nothing; what is sent meanwhile arrives afterwards."""

    for_ms: int


class DriverCrash(_AtATime, frozen=True, kw_only=True):
    """The first batch of a shard from this time on fails at one of its steps, several times over.

    With the driver its ticker is gone, too; `ticker_lives`: only the query fails and is started again.
    """

    shard: int
    step: int
    down_ms: int
    times: int = 1
    ticker_lives: bool = False


class WallClockJump(_AtATime, frozen=True, kw_only=True):
    """The wall clock of the driver's machine is set."""

    by_ms: int


class BrokerClockJump(_AtATime, frozen=True, kw_only=True):
    """The clock of the broker, which times the records, is set: another broker leads now."""

    by_ms: int


class StrayTick(_AtATime, frozen=True, kw_only=True):
    """Somebody writes a tick that repeats the last one or goes back, or one that lies too far in the future to be
    valid."""

    shard: int
    back_ms: int = 0
    """Behind the last tick."""
    ahead_ms: int = 0
    """Beyond what is valid; 0: it goes back."""


class ChangeRules(_AtATime, frozen=True, kw_only=True):
    """The operator has the log go by the rules of another version of Kafka from here on."""

    rules: str


class Grow(_AtATime, frozen=True, kw_only=True):
    """A topic gets more partitions."""

    topic: str
    partitions: int


class Remake(_AtATime, frozen=True, kw_only=True):
    """A topic is deleted and made again under its name, at once. Some brokers hear of it late."""

    topic: str


class ExternalClient(_AtATime, frozen=True, kw_only=True):
    """Somebody who is no member sends a request to a group."""

    group_id: str
    what: str
    """describe, delete, delete_offsets, commit, fetch, heartbeat, join_and_vanish, garbage, wrong_shard."""


class RelayAway(_AtATime, frozen=True, kw_only=True):
    """The relay of a shard's log of transactions is killed; so much later another one begins at its saved position."""

    shard: int
    for_ms: int


MemberFault = Crash | Close | Freeze | SlowPoll | BadNetwork | Subscribe | Migrate
Fault = (
    MemberFault
    | BrokerPause
    | DriverCrash
    | WallClockJump
    | BrokerClockJump
    | StrayTick
    | ChangeRules
    | Grow
    | Remake
    | ExternalClient
    | RelayAway
)


class Scenario(Struct, frozen=True, kw_only=True):
    """A world as data: its members, settings and faults."""

    seed: int
    config: GroupConfig
    topics: dict[str, int]
    members: tuple[MemberPlan, ...]
    producers: tuple[ProducerPlan, ...] = ()
    faults: tuple[Fault, ...] = ()
    faults_end_ms: int = 20_000
    """Nothing goes wrong after this, apart from what is still late."""
    coordinator_starts_ms: int = 0
    """When the drivers and tickers start for the first time: what members send before lies in the log."""
    first_rules: str | None = None
    """What a new log begins with; None: it is older than the choice."""
    tick_ms: int = 500
    batch_every_ms: tuple[int, int] = (50, 400)
    batch_records_max: int = 40

    @property
    def has_both_protocols(self) -> bool:
        """Whether anybody uses the consumer protocol, at some time."""
        migrates = any(isinstance(fault, Migrate) for fault in self.faults)
        return migrates or any(plan.protocol == "consumer" for plan in self.members)


def member_of(fault: Fault) -> str | None:
    """Return the member that a fault is about, if it is about one."""
    return getattr(fault, "member", None)
