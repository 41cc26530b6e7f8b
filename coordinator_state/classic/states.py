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
