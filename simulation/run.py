"""One seed from beginning to end: make its case, live through it, judge it."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import NamedTuple

from simulation.generate import scenario_of
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
from simulation.rules_of_sessions import OnlyTicksMoveTime, SessionsKept
from simulation.rules_of_worlds import judge_drivers, judge_end, judge_expiries, judge_ticks, judge_topics
from simulation.scenario import Scenario
from simulation.soup import Soup, pour, serve, soup_of
from simulation.world import Told, World

RULES: tuple[type[Rule], ...] = (
    SameAsModel,
    EveryRequestOnce,
    SeqsWithoutGaps,
    GenerationsRise,
    AssignmentsAsDecided,
    OnlyCurrentCommits,
    CommitsKept,
    OnlyTicksMoveTime,
    SessionsKept,
    LogTellsHardState,
)
"""What must hold of every group, however its members behave."""
RULES_OF_WORLDS: tuple[type[Rule], ...] = (*RULES, OneOwner)
"""And where the leaders know what they do."""


Case = Scenario | Soup
"""What a seed stands for."""


class Outcome(NamedTuple):
    """What came of a case."""

    violations: list[Violation]
    """The first of each rule, in the order in which they were seen."""
    requests: int
    told: list[Told]
    judgement: Judgement


def is_world(seed: int) -> bool:
    """Two of three seeds are worlds, the third is a soup."""
    return seed % 3 != 2


def case_of(seed: int) -> Case:
    """What a seed stands for."""
    return scenario_of(seed) if is_world(seed) else soup_of(seed)


def live(case: Case, *, keep_steps: bool = False) -> Outcome:
    """Live through a case and judge it."""
    return live_soup(case, keep_steps) if isinstance(case, Soup) else live_world(case, keep_steps)


def live_world(scenario: Scenario, keep_steps: bool = False) -> Outcome:
    world = World(scenario)
    judgement = Judgement()
    try:
        world.run()
    except Exception as error:
        # Whatever breaks in a world breaks in the coordinator or in a member, and the log up to there is worth judging.
        judgement.accuse(_broken(error, world.now_ms))
    judge(world.log, scenario.config, RULES_OF_WORLDS, judgement, keep_steps=keep_steps)
    if "NothingBreaks" not in judgement.violations:
        for violation in judge_drivers(world.written, world.drivers, judgement, world.now_ms):
            judgement.accuse(violation)
        for violation in judge_expiries(world, judgement):
            judgement.accuse(violation)
        for violation in (*judge_ticks(world, judgement), *judge_end(world), *judge_topics(world)):
            judgement.accuse(violation)
    return Outcome(list(judgement.violations.values()), world.log.requests, world.told, judgement)


def live_soup(soup: Soup, keep_steps: bool = False) -> Outcome:
    judgement = Judgement()
    log = pour(soup)
    end_ms = log.partitions[0][-1].timestamp_ms
    judge(log, soup.config, RULES, judgement, keep_steps=keep_steps)
    if "NothingBreaks" not in judgement.violations:
        try:
            driver, written = serve(soup, log)
        except Exception as error:
            judgement.accuse(_broken(error, end_ms))
        else:
            for violation in judge_drivers(written, [driver], judgement, end_ms):
                judgement.accuse(violation)
    return Outcome(list(judgement.violations.values()), log.requests, [], judgement)


def _broken(error: Exception, time_ms: int) -> Violation:
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{PurePath(where.filename).name}, line {where.lineno}"
    return Violation("NothingBreaks", f"{type(error).__name__}: {error} ({place})", "", time_ms)
