"""A world from beginning to end: live through it, judge it."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

from simulation.checker import CheckResult, Rule, Violation, check_log
from simulation.faults import apply_fault
from simulation.rules import (
    AssignmentsAsDecided,
    EveryRequestOnce,
    GenerationsRise,
    OneOwner,
    SeqsWithoutGaps,
)
from simulation.rules_of_consumers import (
    EpochsInOrder,
    NativeSessionsKept,
    OneOwnerAtATime,
    RulesAsLogged,
    TopicsAsTold,
)
from simulation.rules_of_offsets import CommitsKept, LogTellsHardState, OffsetsWithinBound, OnlyCurrentCommits
from simulation.rules_of_sessions import OnlyTicksMoveTime, SessionsKept
from simulation.rules_of_worlds import check_drivers, check_end, check_expiries, check_ticks, check_topics
from simulation.scenario import Remake, Scenario
from simulation.settled import why_unsettled
from simulation.transactions import Transactions
from simulation.world import START_MS, TraceLine, World

CALM_LIMIT_MS, CALM_LIMIT_BATCHES = 180_000, 60
"""After the last fault a group must have settled within this time and as many of the longest batches: with slow ones
the clock is slow."""
SETTLED_FOR_MS = 3_000


def live_through(world: World) -> Transactions:
    """Run the scenario, wait until no fault is left, then let the drivers finish. Return what became of
    transactions."""
    transactions = Transactions(world)
    if world.scenario.producers:
        transactions.start()
    world.at(START_MS + world.scenario.coordinator_starts_ms, world.start_coordinator)
    for plan in world.scenario.members:
        world.at(START_MS + plan.start_ms, partial(world.start, plan))
    for fault in world.scenario.faults:
        world.at(START_MS + fault.at_ms, partial(apply_fault, world, fault))
    world.run_until(START_MS + world.scenario.faults_end_ms)
    _calm_down(world)
    _finish(world, transactions)
    _remove_all_topics(world)
    for driver in world.drivers:
        while not driver.is_done:
            driver.run_batch(world.batch_dice(driver.shard), world.scenario.batch_records_max, is_last=True)
    return transactions


def _calm_down(world: World) -> None:
    world.driver_faults.clear()
    world.wall_ahead_ms = world.broker_ahead_ms = 0  # somebody has set the clocks
    started_ms = START_MS + world.scenario.coordinator_starts_ms
    world.run_until(max(world.now_ms, started_ms, world.broker_back_ms, *world.driver_down_until_ms))
    world.ended_ms = world.now_ms
    settled_since_ms = None
    limit_ms = CALM_LIMIT_MS + CALM_LIMIT_BATCHES * world.scenario.batch_every_ms[1]
    while world.now_ms < world.ended_ms + limit_ms:
        world.run_until(world.now_ms + 500)
        if not _is_settled(world):
            settled_since_ms = None
        elif settled_since_ms is None:
            settled_since_ms = world.now_ms
        elif world.now_ms - settled_since_ms >= SETTLED_FOR_MS:
            world.settled = True
            return


def _finish(world: World, transactions: Transactions) -> None:
    """Let producers end their transactions, and relays write all of them."""
    transactions.is_over = True
    end_ms = max([world.now_ms, *(relay.away_until_ms for relay in transactions.relays)]) + CALM_LIMIT_MS
    while world.scenario.producers and world.now_ms < end_ms and not transactions.is_done:
        world.run_until(world.now_ms + 500)


def _remove_all_topics(world: World) -> None:
    """In worlds that lose topics, all topics go once more when no member is left; the watchers must notice it."""
    topics = dict.fromkeys(fault.topic for fault in world.scenario.faults if isinstance(fault, Remake))
    if not topics:
        return
    for process in [process for process in world.processes if process.alive]:
        process.end()
    for topic in topics:
        world.remake(topic)
    end_ms = world.now_ms + CALM_LIMIT_MS
    while world.now_ms < end_ms and not all(watch.is_at_rest for watch in world.topic_watches):
        world.run_until(world.now_ms + 500)


def _is_settled(world: World) -> bool:
    """Return whether in every group each partition has one owner and no member is about to change that."""
    return all(not why_unsettled(world, group_id) for group_id in {plan.group_id for plan in world.scenario.members})


RULES: tuple[type[Rule], ...] = (
    EveryRequestOnce,
    SeqsWithoutGaps,
    GenerationsRise,
    AssignmentsAsDecided,
    OnlyCurrentCommits,
    CommitsKept,
    OffsetsWithinBound,
    OnlyTicksMoveTime,
    SessionsKept,
    LogTellsHardState,
    OneOwnerAtATime,
    EpochsInOrder,
    RulesAsLogged,
    TopicsAsTold,
    NativeSessionsKept,
)
"""What must hold of every group, however its members behave."""
RULES_OF_WORLDS: tuple[type[Rule], ...] = (*RULES, OneOwner)
"""And where the leaders know what they do."""


class Outcome(NamedTuple):
    """What came of a run."""

    violations: list[Violation]
    """The first of each rule, in the order in which they were seen."""
    requests: int
    trace: list[TraceLine]
    result: CheckResult


def run_world(scenario: Scenario, *, keep_steps: bool = False) -> Outcome:
    """Run a world and check it against all rules."""
    world = World(scenario)
    result = CheckResult()
    transactions = None
    try:
        transactions = live_through(world)
    except Exception as error:
        # Whatever breaks in a world breaks in the coordinator or in a member, and the log up to there is worth judging.
        result.report(broken(error, world.now_ms))
    check_log(world.log, scenario.config, RULES_OF_WORLDS, result, keep_steps=keep_steps)
    if transactions is not None and "NothingBreaks" not in result.violations:
        for violation in check_drivers(world.written, world.drivers, result, world.now_ms):
            result.report(violation)
        for violation in check_expiries(world, result):
            result.report(violation)
        at_the_end = (*check_end(world), *check_topics(world), *transactions.check_end())
        for violation in (*check_ticks(world, result), *at_the_end):
            result.report(violation)
    return Outcome(list(result.violations.values()), world.log.requests, world.trace, result)


def broken(error: Exception, time_ms: int) -> Violation:
    """Return the violation of a coordinator or member that raised something."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{PurePath(frame.filename).name}, line {frame.lineno}"
    return Violation("NothingBreaks", f"{type(error).__name__}: {error} ({place})", "", time_ms)
