"""Verdicts on groups of real brokers, at each moment, held against what was done to their members."""

from __future__ import annotations

from collections import defaultdict

import pytest

from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.health import verdict
from group_coordinator.watching.dashboard.settings import HealthSettings
from tests.watching.observed.scores import DUMP, LOGS, history

SETTINGS = HealthSettings()


def kinds(name: str) -> dict[str, set[str]]:
    """Return by group what is said of it after each of its records."""
    facts: dict[str, GroupFacts] = {}
    told: dict[str, set[str]] = defaultdict(set)
    for record in history(name, frozenset({DUMP, LOGS})):
        group = facts.setdefault(record.group_id, GroupFacts(record.group_id))
        group.add(record)
        told[record.group_id].add(verdict(group, None, record.timestamp_ms, SETTINGS).kind)
    return told


@pytest.mark.parametrize(
    ("recording", "done", "never"),
    [
        ("failover-3.7", "brokers were killed, and all stood still", {"deploying", "flapping", "storming"}),
        ("rack-4.0", "three members came, one was killed, all left, and a classic one came", {"storming"}),
        ("orphan-4.2", "a coordinator was lost", {"deploying", "flapping", "storming"}),
    ],
)
def test_nothing_is_told_that_nobody_did(recording: str, done: str, never: set[str]) -> None:
    told = kinds(recording)
    assert told
    assert {group_id: found & never for group_id, found in told.items() if found & never} == {}, done
