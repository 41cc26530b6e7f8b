"""The server-side assignor `uniform`, Kafka's default: balanced, and members keep what they have where that allows it.

It does not look at racks (as Kafka's does not, 4.3).
"""

from __future__ import annotations

from coordinator_state.consumer.assignors.contract import AssignorGroup, SubscriptionType
from coordinator_state.consumer.assignors.uniform_heterogeneous import assign_heterogeneous
from coordinator_state.consumer.assignors.uniform_homogeneous import assign_homogeneous
from coordinator_state.consumer.member import TargetAssignment


class UniformAssignor:
    """Kafka's `uniform`."""

    name = "uniform"

    def assign(self, group: AssignorGroup) -> dict[str, TargetAssignment]:
        """Return the assignment; every member has an entry. Raises `AssignorError` for a target that cannot be."""
        if group.subscription_type is SubscriptionType.HOMOGENEOUS:
            return assign_homogeneous(group)
        return assign_heterogeneous(group)
