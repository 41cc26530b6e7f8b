"""A world from beginning to end: live through it, judge it."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import NamedTuple

from simulation.checker import CheckResult, Rule, Violation, check_log
from simulation.life import live_through
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
from simulation.scenario import Scenario
from simulation.world import TraceLine, World

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
    try:
        live_through(world)
    except Exception as error:
        # Whatever breaks in a world breaks in the coordinator or in a member, and the log up to there is worth judging.
        result.report(broken(error, world.now_ms))
    check_log(world.log, scenario.config, RULES_OF_WORLDS, result, keep_steps=keep_steps)
    if "NothingBreaks" not in result.violations:
        for violation in check_drivers(world.written, world.drivers, result, world.now_ms):
            result.report(violation)
        for violation in check_expiries(world, result):
            result.report(violation)
        for violation in (*check_ticks(world, result), *check_end(world), *check_topics(world)):
            result.report(violation)
    return Outcome(list(result.violations.values()), world.log.requests, world.trace, result)


def broken(error: Exception, time_ms: int) -> Violation:
    """Return the violation of a coordinator or member that raised something."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{PurePath(frame.filename).name}, line {frame.lineno}"
    return Violation("NothingBreaks", f"{type(error).__name__}: {error} ({place})", "", time_ms)
