"""The states of a group, by the names that DescribeGroups and ListGroups answer and that our topics carry.

Which may follow which is the coordinator's (`coordinator_state/states.py`).
"""

from __future__ import annotations

from enum import StrEnum


class GroupState(StrEnum):
    """Source: `ClassicGroupState` (Kafka 4.3)."""

    EMPTY = "Empty"
    """No members; it may have committed offsets and handed-out member ids."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members must (re)join; each JoinGroup is parked until all have, or the time is over."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All know the new generation; their SyncGroups are parked until the leader's brings the assignments."""
    STABLE = "Stable"
    """Every member has, or can fetch, its assignment."""
    DEAD = "Dead"
    """The group is gone; the next event begins another life of it."""


NO_GROUP = "none"
"""Where there is no group, in place of its state."""
UNKNOWN = "unknown"
"""Where history does not tell."""

ASSIGNING = "Assigning"
"""Of a consumer group: its epoch is ahead of its target assignment."""
RECONCILING = "Reconciling"
"""Of a consumer group: members are on the way to their target assignments."""

REBALANCING: tuple[str, ...] = (
    GroupState.PREPARING_REBALANCE.value,
    GroupState.COMPLETING_REBALANCE.value,
    ASSIGNING,
    RECONCILING,
)
"""Between one generation, or one target assignment, and the next."""
