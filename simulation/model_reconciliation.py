"""How one member moves towards its target, as a function: what it must give up first, what it gets when it is free."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from simulation.model_consumer_group import ConsumerModelGroup
from simulation.model_consumer_records import (
    STABLE,
    UNRELEASED,
    UNREVOKED,
    ConsumerMember,
    Holding,
    Partition,
    Target,
)


class Goal(NamedTuple):
    """What one heartbeat of a member is held against."""

    epoch: int
    """Of the target."""
    target: Target
    has_new_subscription: bool
    owned: frozenset[Partition] | None
    """What the member says it owns; None: it says nothing."""


def reconciled(group: ConsumerModelGroup, member: ConsumerMember, goal: Goal) -> Holding:
    """Return what the member has afterwards; the very same object where nothing changes."""
    holding = member.holding
    is_there = holding.state == STABLE and holding.epoch == goal.epoch
    if is_there and not goal.has_new_subscription:
        return holding
    still_owes = holding.state == UNREVOKED and (goal.owned is None or bool(goal.owned & holding.pending.keys()))
    if is_there or still_owes:
        return _shrunk(group, member, goal) if goal.has_new_subscription else holding
    return _next(group, member, goal)


def _next(group: ConsumerModelGroup, member: ConsumerMember, goal: Goal) -> Holding:
    holding = member.holding
    wanted = {partition for partition in goal.target if _is_subscribed(group, member, partition)}
    kept = {partition: epoch for partition, epoch in holding.assigned.items() if partition in wanted}
    revoked = {partition: epoch for partition, epoch in holding.assigned.items() if partition not in wanted}
    if revoked and (goal.owned is None or goal.owned & revoked.keys()):
        return Holding(holding.epoch, holding.epoch, UNREVOKED, kept, revoked)
    missing = wanted - kept.keys()
    free = {partition for partition in missing if partition in holding.pending or not group.is_owned(partition)}
    assigned = kept | dict.fromkeys(free, goal.epoch)
    return Holding(goal.epoch, holding.epoch, UNRELEASED if missing - free else STABLE, assigned, {})


def _shrunk(group: ConsumerModelGroup, member: ConsumerMember, goal: Goal) -> Holding:
    """Take away what the member does not subscribe to any more."""
    holding = member.holding
    lost = {
        partition: epoch
        for partition, epoch in holding.assigned.items()
        if not _is_subscribed(group, member, partition)
    }
    pending = {**holding.pending, **lost}
    if not lost and (pending or group.topics_of(member)):
        return holding
    kept = {partition: epoch for partition, epoch in holding.assigned.items() if partition not in lost}
    if pending and (goal.owned is None or goal.owned & pending.keys()):
        return Holding(holding.epoch, holding.epoch, UNREVOKED, kept, pending)
    return replace(holding, assigned=kept, previous=holding.epoch)


def _is_subscribed(group: ConsumerModelGroup, member: ConsumerMember, partition: Partition) -> bool:
    topic = group.known.named(partition[0])
    return topic is not None and topic.name in group.topics_of(member)
