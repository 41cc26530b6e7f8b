"""A few minutes of seven groups with real members, the real core and some trouble: what the dashboard is shown with."""

from __future__ import annotations

from functools import cache

from coordinator_state import GroupConfig
from group_coordinator.watching.dashboard.index import Index
from schemas.events import encode_json
from schemas.history import History, HistoryRecord
from simulation.run import live_through
from simulation.scenario import Close, Crash, ExternalClient, Fault, Freeze, MemberPlan, Scenario, SlowPoll
from simulation.world import START_MS, World

TOPICS = {"payments": 6, "orders": 4, "clicks": 12}
CRASH_MS = START_MS + 60_000
"""When payments-b dies."""


def _member(group: str, name: str, topics: tuple[str, ...], **fields: object) -> MemberPlan:
    plan = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 2_000, **fields}
    return MemberPlan(name=f"{group}-{name}", group_id=group, topics=topics, **plan)  # type: ignore[arg-type]


def scenario() -> Scenario:
    members = [
        *(_member("payments", name, ("payments",), start_ms=700 * i) for i, name in enumerate("abc")),
        *(
            _member("orders", name, ("orders",), assignors=("cooperative-sticky",), start_ms=900 * i)
            for i, name in enumerate("abc")
        ),
        _member("clicks", "steady", ("clicks",)),
        _member("clicks", "second", ("clicks",), start_ms=300),
        _member("clicks", "flapping", ("clicks",), start_ms=600),
        *(
            _member("ledger", name, ("payments", "orders"), instance_id=f"ledger-{name}", session_timeout_ms=30_000)
            for name in "ab"
        ),
        _member("reports", "slow", ("orders",), max_poll_interval_ms=8_000),
        _member("reports", "quick", ("orders",), max_poll_interval_ms=8_000),
        _member("audit", "a", ("clicks", "orders"), start_ms=200),
        _member("nightly", "job", ("payments",)),
    ]
    faults: list[Fault] = [
        Crash(member="payments-b", at_ms=60_000, back_after_ms=45_000),
        *(
            Close(member=f"orders-{name}", at_ms=90_000 + 9_000 * i, back_after_ms=3_000)
            for i, name in enumerate("abc")
        ),
        *(Close(member="clicks-flapping", at_ms=40_000 + 22_000 * i, back_after_ms=6_000) for i in range(7)),
        Close(member="ledger-b", at_ms=80_000, back_after_ms=4_000),
        SlowPoll(member="reports-slow", at_ms=70_000, for_ms=14_000),
        Freeze(member="reports-slow", at_ms=130_000, for_ms=16_000),
        Close(member="nightly-job", at_ms=50_000),
        ExternalClient(group_id="payments", at_ms=100_000, what="heartbeat"),
        ExternalClient(group_id="orders", at_ms=101_000, what="commit"),
        ExternalClient(group_id="nobodys", at_ms=102_000, what="delete"),
    ]
    return Scenario(
        seed=7,
        config=GroupConfig(group_initial_rebalance_delay_ms=1_500),
        topics=dict(TOPICS),
        members=tuple(members),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        faults_end_ms=240_000,
    )


@cache
def scene() -> tuple[History, ...]:
    """The history, in the order in which it came to the sink."""
    world = World(scenario())
    live_through(world)
    return tuple(written.output for written in world.written if isinstance(written.output, HistoryRecord))


@cache
def values() -> tuple[bytes, ...]:
    """The same, as it lies on the history topic."""
    return tuple(encode_json(record) for record in scene())


def index_of_scene() -> Index:
    index = Index()
    for value in values():
        index.add(value)
    return index
