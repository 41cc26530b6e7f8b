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


class Crash(Struct, frozen=True, kw_only=True, tag=True):
    """A process ends without a word; perhaps it is started again."""

    member: str
    at_ms: int
    back_after_ms: int | None = None


class Close(Struct, frozen=True, kw_only=True, tag=True):
    """A process closes its member, and ends; perhaps it is started again."""

    member: str
    at_ms: int
    back_after_ms: int | None = None


class Freeze(Struct, frozen=True, kw_only=True, tag=True):
    """A process stands still: it sends nothing and reads nothing. Then it goes on as if nothing had been."""

    member: str
    at_ms: int
    for_ms: int


class SlowPoll(Struct, frozen=True, kw_only=True, tag=True):
    """An application does not poll, while its member sends heartbeats."""

    member: str
    at_ms: int
    for_ms: int


class BadNetwork(Struct, frozen=True, kw_only=True, tag=True):
    """Between one process and the broker: requests and answers are lost, doubled, late."""

    member: str
    at_ms: int
    for_ms: int
    lose_requests: int = 0
    """Percent."""
    lose_answers: int = 0
    double: int = 0
    late: int = 0
    late_ms: int = 0
    """How late at the most."""


class Subscribe(Struct, frozen=True, kw_only=True, tag=True):
    """An application subscribes to other topics."""

    member: str
    at_ms: int
    topics: tuple[str, ...]


class Migrate(Struct, frozen=True, kw_only=True, tag=True):
    """A process closes its member and is started again with the other protocol: one step of a rolling migration."""

    member: str
    at_ms: int
    protocol: Protocol
    back_after_ms: int


class BrokerPause(Struct, frozen=True, kw_only=True, tag=True):
    """The log takes and gives nothing; what is sent meanwhile arrives afterwards."""

    at_ms: int
    for_ms: int


class DriverCrash(Struct, frozen=True, kw_only=True, tag=True):
    """The first batch of a shard from this time on fails at one of its steps, several times over.

    With the driver its ticker is gone, too; `ticker_lives`: only the query fails and is started again.
    """

    shard: int
    at_ms: int
    step: int
    down_ms: int
    times: int = 1
    ticker_lives: bool = False


class WallClockJump(Struct, frozen=True, kw_only=True, tag=True):
    """The wall clock of the driver's machine is set."""

    at_ms: int
    by_ms: int


class BrokerClockJump(Struct, frozen=True, kw_only=True, tag=True):
    """The clock of the broker, which times the records, is set: another broker leads now."""

    at_ms: int
    by_ms: int


class StrayTick(Struct, frozen=True, kw_only=True, tag=True):
    """Somebody writes a tick that repeats the last one or goes back, or one that lies too far in the future to be
    valid."""

    shard: int
    at_ms: int
    back_ms: int = 0
    """Behind the last tick."""
    ahead_ms: int = 0
    """Beyond what is valid; 0: it goes back."""


class ChangeRules(Struct, frozen=True, kw_only=True, tag=True):
    """The operator has the log go by the rules of another version of Kafka from here on."""

    at_ms: int
    rules: str


class Grow(Struct, frozen=True, kw_only=True, tag=True):
    """A topic gets more partitions."""

    topic: str
    at_ms: int
    partitions: int


class Remake(Struct, frozen=True, kw_only=True, tag=True):
    """A topic is deleted and made again under its name, at once. Some brokers hear of it late."""

    topic: str
    at_ms: int


class ExternalClient(Struct, frozen=True, kw_only=True, tag=True):
    """Somebody who is no member sends a request to a group."""

    group_id: str
    at_ms: int
    what: str
    """describe, delete, delete_offsets, commit, fetch, heartbeat, join_and_vanish, garbage, wrong_shard."""


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
)


class Scenario(Struct, frozen=True, kw_only=True):
    """A world as data: its members, settings and faults."""

    seed: int
    config: GroupConfig
    topics: dict[str, int]
    members: tuple[MemberPlan, ...]
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
