"""The states of a group and which may follow which. Rule 1: transitions are written here and nowhere else.

Source: `ClassicGroupState` (Kafka 4.3). `Group.transition_to` asserts this table; docs/architecture.md shows it as a
diagram.
"""

from __future__ import annotations

from typing import Final

from schemas.group_states import GroupState as GroupState

# The core asks for them by these names, and often: Python 3.11 takes four times as long to find a member in its
# enumeration.
EMPTY: Final = GroupState.EMPTY
PREPARING_REBALANCE: Final = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD


VALID_PREVIOUS_STATES: dict[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.DEAD: (GroupState.EMPTY,),
}

TRANSITION_CAUSES: dict[tuple[GroupState, GroupState], str] = {
    (GroupState.EMPTY, GroupState.PREPARING_REBALANCE): "first member joins",
    (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE): "all have joined, or time is over",
    (GroupState.PREPARING_REBALANCE, GroupState.EMPTY): "nobody is left",
    (GroupState.COMPLETING_REBALANCE, GroupState.STABLE): "leader syncs",
    (
        GroupState.COMPLETING_REBALANCE,
        GroupState.PREPARING_REBALANCE,
    ): "member joins, changes, leaves, expires, does not sync",
    (GroupState.STABLE, GroupState.PREPARING_REBALANCE): "member joins, changes, leaves, expires; leader rejoins",
    (GroupState.EMPTY, GroupState.DEAD): "deleted, or the last offset expired",
}


def state_diagram() -> str:
    """Return the transitions as the Mermaid state diagram of docs/architecture.md (a test compares them)."""
    lines = ["stateDiagram-v2", "    [*] --> Empty: first JoinGroup or OffsetCommit"]
    lines += [
        f"    {previous} --> {state}: {TRANSITION_CAUSES[previous, state]}"
        for state, all_previous in VALID_PREVIOUS_STATES.items()
        for previous in all_previous
    ]
    return "\n".join([*lines, "    Dead --> [*]"])
