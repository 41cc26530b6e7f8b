"""How the watching of each cluster goes, and whether a defect of this program has ended it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

ConditionState = Literal["being_reached", "unreachable", "being_read", "watched", "failed"]


class Condition(Struct, frozen=True, kw_only=True):
    """How the watching of one cluster goes."""

    state: ConditionState
    """`unreachable`: it is tried again by itself. `failed`: only a restart helps."""
    reason: str = ""
    """Why it is not watched; a sentence."""


Conditions = Mapping[str, Condition]
"""By the cluster's name; a single cluster is called ""."""


def condition_of(*, caught_up: bool, problem: str, failure: str) -> Condition:
    """Return the condition of a cluster that was reached. `problem`: why nothing comes at present."""
    if failure:
        return Condition(state="failed", reason=failure)
    if problem:
        return Condition(state="unreachable", reason=problem)
    return Condition(state="watched" if caught_up else "being_read")


def failure_of(problem: Exception, name: str, log: logging.Logger) -> str:
    """Log an exception that nobody expects, with its traceback. Returns the sentence for people."""
    log.error("watching %s has failed", name, exc_info=problem)
    return f"it is not watched, because this program has a defect, and only a restart may help: {problem!r}"


def failures(conditions: Conditions) -> list[str]:
    """Return a sentence for each cluster that is not watched any more."""
    return [
        f"{cluster}: {condition.reason}" if cluster else condition.reason
        for cluster, condition in conditions.items()
        if condition.state == "failed"
    ]
