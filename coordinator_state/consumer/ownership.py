"""What a member is told to own next, written where it differs. `reconciliation` decides."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.member import ConsumerMember
from coordinator_state.consumer.reconciliation import Subscription, reconcile
from coordinator_state.consumer.target import Target, subscribed_names

OwnedPartitions = Mapping[str, frozenset[int]] | None


def reconcile_member(
    changes: Changes, member: ConsumerMember, target: Target, subscription_changed: bool, owned: OwnedPartitions
) -> ConsumerMember:
    """Take the member a step further, and write what it owns then if that differs. Raises `Refusal`."""
    drops_unsubscribed = changes.step.config.kafka_version.drops_unsubscribed
    subscription_changed = subscription_changed and drops_unsubscribed
    if member.is_reconciled_to(target.epoch) and not subscription_changed:
        return member
    group, image = changes.group, changes.image
    names = frozenset(subscribed_names(group, member))
    topics = [image.by_id(topic_id) for topic_id in {*dict(target.assignment), *member.assigned}]
    subscribed = frozenset([topic.topic_id for topic in topics if topic is not None and topic.name in names])
    if not drops_unsubscribed:
        subscribed = frozenset({*dict(target.assignment), *member.assigned})
    subscription = Subscription(bool(names), subscribed)
    reconciled = reconcile(
        member, target.epoch, target.assignment, subscription, subscription_changed, owned, group.is_free,
        before_4_2=not drops_unsubscribed,
    )  # fmt: skip
    if reconciled is not member:
        changes.put_current(reconciled)
        changes.narrator.reconciled(reconciled)
    return reconciled
