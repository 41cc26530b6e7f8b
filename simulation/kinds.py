"""What kind of group a group is: the core's parts of it, as rules and generators look at them."""

from __future__ import annotations

from coordinator_state import ClassicGroup, Group
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.no_group import NoGroup


def existing(group: Group | None) -> Group | None:
    """Return a group that is there: of one that is not, its settings may be kept."""
    return None if group is None or isinstance(group.body, NoGroup) else group


def classic_of(group: Group | None) -> ClassicGroup | None:
    """Return the part of the group that classic groups have; None for another group."""
    body = None if group is None else group.body
    return body if isinstance(body, ClassicGroup) else None


def consumer_of(group: Group | None) -> ConsumerGroup | None:
    """Return the part of the group that consumer groups have; None for another group."""
    body = None if group is None else group.body
    return body if isinstance(body, ConsumerGroup) else None
