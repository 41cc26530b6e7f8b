"""What is kept of one group, in order, and the history that it tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.observed.group import ObservedGroup
from group_coordinator.watching.observed.ordering import TimedLine, in_order
from group_coordinator.watching.observed.transactions import Fact
from schemas.history import History
from schemas.java_hash import group_partition

OFFSETS_PARTITIONS = 50
"""Kafka's default of `offsets.topic.num.partitions`; of use only where neither record nor line names a partition."""


class KeptGroup(Struct, frozen=True, kw_only=True):
    """What is kept of one group."""

    group_id: str
    lines: Sequence[TimedLine]
    """By time."""
    facts: Sequence[Fact]
    """By offset."""
    topic_names: Mapping[str, str]

    @property
    def partition(self) -> int:
        """The group's partition of the offsets topic."""
        partition = partition_of(self.facts, [line.line for line in self.lines])
        return group_partition(self.group_id, OFFSETS_PARTITIONS) if partition is None else partition

    def group(self) -> ObservedGroup:
        """Return the group, which is not followed yet."""
        return ObservedGroup(self.group_id, self.partition, self.topic_names)

    def follow(self) -> tuple[ObservedGroup, list[History]]:
        """Return the group and its history."""
        group = self.group()
        return group, group.follow(in_order(self.facts, self.lines))


def partition_of(facts: Sequence[Fact], lines: Sequence[BrokerLine]) -> int | None:
    """Return the partition of the offsets topic in which a group lies; None where neither record nor line says so."""
    if facts:
        return facts[0].partition
    return next((line.partition for line in lines if line.partition is not None), None)
