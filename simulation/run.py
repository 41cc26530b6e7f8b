"""One seed from beginning to end: make its scenario, live through it, judge it."""

from __future__ import annotations

from typing import NamedTuple

from simulation.referee import Judgement, Rule, Violation, judge
from simulation.rules import (
    AssignmentsAsDecided,
    EveryRequestOnce,
    GenerationsRise,
    OneOwner,
    SameAsModel,
    SeqsWithoutGaps,
)
from simulation.rules_of_offsets import CommitsKept, LogTellsHardState, OnlyCurrentCommits
from simulation.rules_of_sessions import SessionsKept
from simulation.rules_of_worlds import judge_drivers, judge_end, judge_expiries
from simulation.scenario import Scenario
from simulation.world import World

RULES: tuple[type[Rule], ...] = (
    SameAsModel,
    EveryRequestOnce,
    SeqsWithoutGaps,
    GenerationsRise,
    AssignmentsAsDecided,
    OnlyCurrentCommits,
    CommitsKept,
    SessionsKept,
    LogTellsHardState,
)
"""What must hold of every group, however its members behave."""
RULES_OF_WORLDS: tuple[type[Rule], ...] = (*RULES, OneOwner)
"""And where the leaders know what they do."""


class Outcome(NamedTuple):
    """What came of a scenario."""

    violations: list[Violation]
    """The first of each rule, in the order in which they were seen."""
    requests: int
    world: World
    judgement: Judgement


def live(scenario: Scenario, *, keep_steps: bool = False) -> Outcome:
    """Live through a scenario and judge it."""
    world = World(scenario)
    judgement = Judgement()
    try:
        world.run()
        judgement = judge(world.log, scenario.config, RULES_OF_WORLDS, keep_steps=keep_steps)
    except Exception as error:  # whatever breaks, breaks in the coordinator or in a member: that is a finding
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where is not None else "?"
        judgement.accuse(Violation("NothingBreaks", f"{type(error).__name__}: {error} ({place})", "", world.now_ms))
    else:
        for violation in judge_drivers(world.written, world.drivers, judgement, world.now_ms):
            judgement.accuse(violation)
        for violation in judge_expiries(world, judgement):
            judgement.accuse(violation)
        for violation in judge_end(world):
            judgement.accuse(violation)
    requests = sum(1 for records in world.log.partitions for record in records if record.key is not None)
    return Outcome(list(judgement.violations.values()), requests, world, judgement)
