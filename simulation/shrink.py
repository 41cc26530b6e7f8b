"""Make a failing world as small as it can be while the same rule is still broken: fewer faults and members, simpler
ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from coordinator_state import GroupConfig
from simulation.run import run_world
from simulation.scenario import BadNetwork, DriverCrash, Fault, Scenario, member_of

T = TypeVar("T")
TRIES_MAX = 400
_EASIER_PARTS = ("lose_requests", "lose_answers", "double", "late")


class _Tries:
    """Says whether a world still breaks the rule, until there have been too many."""

    def __init__(self, rule: str, tries_max: int) -> None:
        self._rule = rule
        self._left = tries_max

    def still_fails(self, scenario: Scenario) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        return any(violation.rule == self._rule for violation in run_world(scenario).violations)


def shrink(scenario: Scenario, rule: str, tries_max: int = TRIES_MAX) -> Scenario:
    """Return a smaller scenario that breaks the same rule; the same one if there is none."""
    tries = _Tries(rule, tries_max)
    smaller = scenario
    while True:
        before = smaller
        smaller = _fewer_faults(smaller, tries)
        smaller = _fewer_members(smaller, tries)
        for candidate in _simpler(smaller):
            if tries.still_fails(candidate):
                smaller = candidate
                break
        if smaller == before:
            return smaller


def _fewer_faults(scenario: Scenario, tries: _Tries) -> Scenario:
    faults = fewer(scenario.faults, lambda left: tries.still_fails(replace(scenario, faults=tuple(left))))
    return replace(scenario, faults=tuple(faults))


def _fewer_members(scenario: Scenario, tries: _Tries) -> Scenario:
    def with_members(members: Sequence[object]) -> Scenario:
        names = {member.name for member in members}  # type: ignore[attr-defined]
        faults = tuple(fault for fault in scenario.faults if member_of(fault) in (None, *names))
        return replace(scenario, members=tuple(members), faults=faults)

    return with_members(fewer(scenario.members, lambda left: tries.still_fails(with_members(left))))


def fewer(items: Sequence[T], still_fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Leave out halves, quarters, ... single items, for as long as that is possible."""
    size = max(len(items) // 2, 1)
    while items:
        start = 0
        while start < len(items):
            remaining = [*items[:start], *items[start + size :]]
            if still_fails(remaining):
                items = remaining
            else:
                start += size
        if size == 1:
            return items
        size = max(size // 2, 1)
    return items


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Yields the same world with one thing made plainer."""
    config = scenario.config
    plain = GroupConfig(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        shard_count=config.shard_count,
        kafka_rules=config.kafka_rules,
    )
    for candidate in (
        replace(scenario, config=dataclasses.replace(plain, group_initial_rebalance_delay_ms=0)),
        replace(scenario, config=dataclasses.replace(config, shard_count=1)),
        replace(scenario, batch_every_ms=(50, 50)),
        replace(scenario, coordinator_starts_ms=0),
        replace(scenario, first_rules=None),
        replace(scenario, producers=()),
        replace(scenario, producers=scenario.producers[:1]),
        replace(scenario, batch_records_max=1_000),
        replace(scenario, topics=dict.fromkeys(scenario.topics, 2)),
        replace(scenario, topics=dict.fromkeys(scenario.topics, 1)),
        replace(scenario, faults_end_ms=max((fault.at_ms for fault in scenario.faults), default=0) + 1_000),
    ):
        if candidate != scenario:
            yield candidate
    for number, fault in enumerate(scenario.faults):
        for easier in _easier(fault):
            yield replace(scenario, faults=(*scenario.faults[:number], easier, *scenario.faults[number + 1 :]))
    for number, plan in enumerate(scenario.members):
        for plainer in (replace(plan, clock_percent=100, clock_ahead_ms=0), replace(plan, start_ms=0)):
            if plainer != plan:
                members = (*scenario.members[:number], plainer, *scenario.members[number + 1 :])
                yield replace(scenario, members=members)


def _easier(fault: Fault) -> Iterator[Fault]:
    if isinstance(fault, DriverCrash) and fault.times > 1:
        yield replace(fault, times=1)
    if isinstance(fault, BadNetwork):
        for part in _EASIER_PARTS:
            if getattr(fault, part):
                yield replace(fault, **{part: 0})
    for length in ("for_ms", "down_ms"):
        lasts_ms = getattr(fault, length, 0)
        if lasts_ms > 200:
            yield replace(fault, **{length: lasts_ms // 2})
