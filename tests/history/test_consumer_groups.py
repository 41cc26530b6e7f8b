"""What is told of consumer groups, held against what Kafka's own classes say of the same groups after each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest

from group_coordinator.history.fold import GroupFold
from schemas.history import HistoryRecord, RebalanceCompleted, RebalanceStarted
from schemas.observed_history import GroupEpochBumped
from tests.history.kafka_histories import FAMILIES, Json, Played, played


class Check(Protocol):
    """Follows one history."""

    def take(self, step: Played) -> None: ...

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        """Compare a consumer group as it is after the step."""


class States:
    """The state that a group is in by its history is Kafka's."""

    class Fold(GroupFold):
        def __init__(self) -> None:
            super().__init__()
            self.state = ""

        def state_entered(self, record: HistoryRecord, state: str) -> None:
            self.state = state

    def __init__(self) -> None:
        self._groups: dict[str, States.Fold] = {}

    def take(self, step: Played) -> None:
        for record in step.records:
            self._groups.setdefault(record.group_id, States.Fold()).add(record)

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        assert self._groups[group_id].state == group["state"]


class Rebalances:
    """Each rise of the epoch has one rebalance, which is over when the group has settled."""

    def __init__(self) -> None:
        self._running: dict[str, RebalanceStarted] = {}

    def take(self, step: Played) -> None:
        for record in step.records:
            if isinstance(record, RebalanceStarted):
                assert record.group_id not in self._running
                self._running[record.group_id] = record
            elif isinstance(record, RebalanceCompleted):
                assert self._running.pop(record.group_id).seq == record.rebalance
            elif isinstance(record, GroupEpochBumped) and "converted" not in record.reasons:
                assert self._running[record.group_id].generation_id == record.generation_id - 1

    def compare(self, step: Played, group_id: str, group: Json) -> None:
        assert group_id not in self._running or group["state"] not in ("Stable", "Empty")


def checks() -> Iterator[Check]:
    yield States()
    yield Rebalances()


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "txn_classic"])
def test_history_tells_what_kafka_says(family: str) -> None:
    compared = 0
    for steps in played(family):
        followed = list(checks())
        for step in steps:
            consumer_groups = {name: group for name, group in step.groups.items() if group["type"] == "consumer"}
            for check in followed:
                try:
                    check.take(step)
                    for group_id, group in consumer_groups.items():
                        check.compare(step, group_id, group)
                except (AssertionError, KeyError) as error:
                    error.add_note(f"{type(check).__name__} at {step.history}, step {step.step['id']}")
                    raise
            compared += len(consumer_groups)
    assert compared > 50
