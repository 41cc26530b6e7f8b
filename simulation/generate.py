"""A seed becomes a scenario: members, and faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from coordinator_state import GroupConfig
from coordinator_state.kafka_versions import OF_OLD_LOGS
from simulation.faults import EXTERNAL_CLIENTS
from simulation.random_streams import RandomStreams
from simulation.scenario import (
    BadNetwork,
    BrokerClockJump,
    BrokerPause,
    ChangeRules,
    Close,
    Crash,
    DriverCrash,
    ExternalClient,
    Fault,
    Freeze,
    Grow,
    MemberPlan,
    Migrate,
    ProducerPlan,
    Protocol,
    RelayAway,
    Remake,
    Scenario,
    SlowPoll,
    StrayTick,
    Subscribe,
    WallClockJump,
)

TOPICS = ("orders", "clicks")
ASSIGNORS = (("range",), ("roundrobin",), ("sticky",), ("cooperative-sticky",), ("range", "cooperative-sticky"))
SESSION_MS = 6_000
BOTH_PROTOCOLS = 0.5
"""Of so many worlds the members do not all use the classic protocol."""
CHANGED_RULES = 0.4
"""In so many worlds the log changes its rules in the midst."""
WITH_PRODUCERS = range(7, 10**12, 10)
"""The seeds of worlds with producers and transactions. All others, those that once showed a fault among them, stay what
they were."""
DAY_MS = 86_400_000


def scenario_of(seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    dice = RandomStreams(seed).of("scenario")
    shards = dice.choice((1, 1, 2))
    config = GroupConfig(
        group_min_session_timeout_ms=SESSION_MS,
        group_initial_rebalance_delay_ms=dice.choice((0, 0, 500, 3_000)),
        group_max_size=dice.choice((1_000, 1_000, 1_000, 2)),
        offsets_retention_minutes=dice.choice((10_080, 10_080, 1)),
        offsets_retention_check_interval_ms=dice.choice((600_000, 5_000)),
        shard_count=shards,
        kafka_rules=OF_OLD_LOGS,
    )
    groups = dice.sample(("readers", "writers", "auditors"), dice.choice((1, 1, 2)))
    topics = {topic: dice.randint(1, 5) for topic in TOPICS[: dice.choice((1, 2))]}
    faults_end_ms = dice.choice((10_000, 20_000, 30_000))
    every_ms = dice.choice(((20, 100), (50, 400), (50, 400), (200, 1_500), (4_000, 9_000)))
    members = tuple(
        plan for group_id in groups for plan in _members(dice, group_id, tuple(topics), faults_end_ms, every_ms[1])
    )
    faults = [_fault(dice, members, topics, groups, shards, faults_end_ms) for _ in range(dice.randint(0, 7))]
    deletions = RandomStreams(seed).of("topics that go")
    faults += [
        Remake(topic=deletions.choice(list(topics)), at_ms=deletions.randint(0, faults_end_ms))
        for _ in range(deletions.choice((0, 0, 0, 1, 2)))
    ]
    protocols = RandomStreams(seed).of("protocols")
    if protocols.random() < BOTH_PROTOCOLS:
        config = _config_of_consumer_groups(protocols, config)
        members, migrations = _with_protocols(protocols, members, faults_end_ms)
        faults += migrations
    first_rules, changes = _rules(RandomStreams(seed).of("rules"), faults_end_ms)
    producers, faults = _producers(seed, [*faults, *changes], shards, faults_end_ms)
    if producers:
        config = dataclasses.replace(config, offsets_retention_minutes=10_080)
    return Scenario(
        seed=seed,
        config=config,
        topics=topics,
        members=members,
        producers=producers,
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        faults_end_ms=faults_end_ms,
        coordinator_starts_ms=RandomStreams(seed).of("coordinator").choice((0, 0, 0, 1_000, 9_000, 25_000)),
        batch_every_ms=every_ms,
        # However it is cut, the query must keep up with its ticks and members.
        batch_records_max=dice.choice((2, 10, 60)) if every_ms[1] <= 100 else 60 if every_ms[1] <= 1_500 else 1_000,
        tick_ms=dice.choice((200, 500, 500, 1_500)),
        first_rules=first_rules,
    )


def _rules(dice: Random, until_ms: int) -> tuple[str | None, list[Fault]]:
    """Draw by which rules the log begins, and when it changes them."""
    first_rules = dice.choice((None, "4.3", "4.4", "4.4"))
    if dice.random() >= CHANGED_RULES:
        return first_rules, []
    to = "4.4" if first_rules != "4.4" else "4.3"
    return first_rules, [ChangeRules(at_ms=dice.randint(0, until_ms), rules=to)]


def _producers(
    seed: int, faults: list[Fault], shards: int, until_ms: int
) -> tuple[tuple[ProducerPlan, ...], list[Fault]]:
    """Draw producers, whose topic stays, and when the relays of their transactions are away."""
    if seed not in WITH_PRODUCERS:
        return (), faults
    dice = RandomStreams(seed).of("producers")
    producers = tuple(
        ProducerPlan(name=f"tx-{number}", group_id=f"loops-{number}", start_ms=dice.randint(0, 3_000))
        for number in range(dice.randint(1, 3))
    )
    away: list[Fault] = [
        RelayAway(shard=dice.randrange(shards), at_ms=dice.randint(0, until_ms), for_ms=dice.randint(100, 9_000))
        for _ in range(dice.randint(0, 2))
    ]
    return producers, [fault for fault in faults if not isinstance(fault, Remake)] + away


def _config_of_consumer_groups(dice: Random, config: GroupConfig) -> GroupConfig:
    return dataclasses.replace(
        config,
        group_max_size=1_000,
        group_consumer_session_timeout_ms=SESSION_MS,
        group_consumer_min_session_timeout_ms=1_000,
        group_consumer_heartbeat_interval_ms=1_500,
        group_consumer_min_heartbeat_interval_ms=500,
        group_consumer_assignment_interval_ms=dice.choice((0, 1_000, 1_000, 5_000)),
        group_consumer_assignors=dice.choice(("uniform,range", "range,uniform")),
        group_consumer_max_size=dice.choice((1_000, 1_000, 1_000, 2)),
    )


def _with_protocols(
    dice: Random, members: tuple[MemberPlan, ...], until_ms: int
) -> tuple[tuple[MemberPlan, ...], list[Fault]]:
    """Give members a protocol: to each group one, or both, or they migrate, up or down, one after another."""
    ways = {
        group_id: dice.choice(("consumer", "consumer", "both", "up", "up", "down"))
        for group_id in dict.fromkeys(plan.group_id for plan in members)
    }
    plans: list[MemberPlan] = []
    migrations: list[Fault] = []
    for plan in members:
        way = ways[plan.group_id]
        protocol: Protocol = "classic" if way == "up" or (way == "both" and dice.random() < 0.5) else "consumer"
        pattern = dice.choice((None, None, None, "orders|clicks", "cl.*"))
        instance_id = None if plan.instance_id is None else f"{plan.name}-i"
        assignor = dice.choice((None, None, "range"))
        plans.append(replace(plan, protocol=protocol, pattern=pattern, assignor=assignor, instance_id=instance_id))
        if way in ("up", "down") and dice.random() < 0.9:
            to: Protocol = "consumer" if way == "up" else "classic"
            at_ms, back_ms = dice.randint(1_000, until_ms), dice.randint(100, 3_000)
            migrations.append(Migrate(member=plan.name, at_ms=at_ms, protocol=to, back_after_ms=back_ms))
    return tuple(plans), migrations


def _members(dice: Random, group_id: str, topics: tuple[str, ...], until_ms: int, batch_ms: int) -> list[MemberPlan]:
    static = dice.random() < 0.35
    twins = static and dice.random() < 0.3
    assignors = dice.choice(ASSIGNORS)
    session_ms = dice.choice((SESSION_MS, SESSION_MS, 10_000, 30_000))
    poll_ms = dice.choice((200, 500, 1_000))
    # Whoever must rejoin has to hear of it by a heartbeat, commit, give up and join, a poll each, before the time is
    # over.
    heartbeat_ms = min(session_ms // dice.choice((3, 4)), 2_500)
    max_poll_ms = max(dice.choice((2_500, 5_000, 10_000)), heartbeat_ms + 4 * poll_ms + 4 * batch_ms + 1_000)
    return [
        MemberPlan(
            name=f"{group_id}-{number}",
            group_id=group_id,
            topics=topics if twins or dice.random() < 0.8 else topics[:1],
            start_ms=dice.choice((0, dice.randint(0, 2_000), dice.randint(0, until_ms // 2))),
            instance_id=f"{group_id}-i{0 if twins else number}" if static else None,
            assignors=assignors,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=heartbeat_ms,
            max_poll_interval_ms=max_poll_ms,
            poll_every_ms=poll_ms,
            auto_commit_interval_ms=dice.choice((1_000, 3_000)),
            clock_percent=dice.choice((100, 100, 97, 103)),
            clock_ahead_ms=dice.choice((0, 0, -3_600_000, 90_000)),
        )
        for number in range(dice.randint(1, 4))
    ]


def _fault(
    dice: Random, members: tuple[MemberPlan, ...], topics: dict[str, int], groups: list[str], shards: int, end_ms: int
) -> Fault:
    member = dice.choice(members).name
    at_ms = dice.randint(0, end_ms)
    long_ms = dice.choice((dice.randint(100, 3_000), dice.randint(3_000, 9_000), dice.randint(9_000, 60_000)))
    back_ms = dice.choice((None, dice.randint(100, 2_000), dice.randint(2_000, 12_000)))
    # A static leader that comes back decides nothing (KIP-814), so partitions that were added while it was away wait
    # for the next rebalance: a gap of the protocol.
    dynamic = 0 if any(plan.instance_id is not None for plan in members) else 2
    kinds: list[tuple[int, Callable[[], Fault]]] = [
        (4, lambda: Crash(member=member, at_ms=at_ms, back_after_ms=back_ms)),
        (3, lambda: Close(member=member, at_ms=at_ms, back_after_ms=back_ms)),
        (3, lambda: Freeze(member=member, at_ms=at_ms, for_ms=min(long_ms, 20_000))),
        (3, lambda: SlowPoll(member=member, at_ms=at_ms, for_ms=min(long_ms, 20_000))),
        (5, lambda: _bad_network(dice, member, at_ms)),
        (2, lambda: Subscribe(member=member, at_ms=at_ms, topics=tuple(topics)[: dice.randint(1, 2)])),
        (3, lambda: BrokerPause(at_ms=at_ms, for_ms=long_ms)),
        (5, lambda: _driver_crash(dice, shards, at_ms, long_ms)),
        (1, lambda: WallClockJump(at_ms=at_ms, by_ms=dice.choice((-3_600_000, 3_600_000, 1_000)))),
        (1, lambda: BrokerClockJump(at_ms=at_ms, by_ms=dice.choice((-20_000, -1_000, 1_000, 20_000)))),
        (1, lambda: StrayTick(shard=dice.randrange(shards), at_ms=at_ms, back_ms=dice.choice((0, 1, 100_000)))),
        (
            1,
            lambda: StrayTick(
                shard=dice.randrange(shards), at_ms=at_ms, ahead_ms=dice.choice((1, 100_000, 8 * DAY_MS, 10**14))
            ),
        ),
        (dynamic, lambda: Grow(topic=dice.choice(list(topics)), at_ms=at_ms, partitions=dice.randint(2, 8))),
        (
            5,
            lambda: ExternalClient(
                group_id=dice.choice([*groups, "nobodys"]), at_ms=at_ms, what=dice.choice(EXTERNAL_CLIENTS)
            ),
        ),
    ]
    make = dice.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]
    return make()


def _bad_network(dice: Random, member: str, at_ms: int) -> BadNetwork:
    lossy, doubling, slow = (dice.random() < 0.5 for _ in range(3))
    return BadNetwork(
        member=member,
        at_ms=at_ms,
        for_ms=dice.randint(500, 15_000),
        lose_requests=dice.choice((0, 20, 60)) if lossy else 0,
        lose_answers=dice.choice((0, 20, 60)) if lossy else 0,
        double=50 if doubling else 0,
        late=50 if slow else 0,
        late_ms=dice.choice((300, 3_000, 9_000)),
    )


def _driver_crash(dice: Random, shards: int, at_ms: int, down_ms: int) -> DriverCrash:
    ticker_lives = dice.random() < 0.4
    return DriverCrash(
        shard=dice.randrange(shards),
        at_ms=at_ms,
        step=dice.randint(0, 7),
        down_ms=down_ms,
        times=dice.choice((1, 1, 3)),
        ticker_lives=ticker_lives,
    )
