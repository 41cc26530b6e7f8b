"""One member on its way to its target assignment: what it gives up, what it waits for, what it gets.

Source: `CurrentAssignmentBuilder` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.member import ConsumerMember, MemberState, PartitionsWithEpochs
from coordinator_state.consumer.membership import fenced_epoch
from coordinator_state.consumer.target import Target, subscribed_names

OwnedPartitions = Mapping[str, frozenset[int]] | None


def reconcile_member(
    changes: Changes, member: ConsumerMember, target: Target, subscription_changed: bool, owned: OwnedPartitions
) -> ConsumerMember:
    """Take the member a step further, and write what it owns then if that differs."""
    reconciled = _Reconciliation(changes, member, target, owned).step(subscription_changed)
    if reconciled != member:
        changes.put_current(reconciled)
        changes.narrator.reconciled(reconciled)
        return reconciled
    return member


class _Reconciliation:
    def __init__(self, changes: Changes, member: ConsumerMember, target: Target, owned: OwnedPartitions) -> None:
        self._group, self._image = changes.group, changes.image
        self._member, self._target, self._owned = member, target, owned
        self._names = frozenset(subscribed_names(changes.group, member))

    def step(self, subscription_changed: bool) -> ConsumerMember:
        member, epoch = self._member, self._target.epoch
        if member.state is MemberState.STABLE:
            if member.member_epoch != epoch:
                return self._next(member.member_epoch)
            return self._shrink() if subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            if self._may_hold(member.pending_revocation):
                return self._shrink() if subscription_changed else member
            return self._next(member.member_epoch)
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return self._next(member.member_epoch)
        if self._owned is None or any(self._owned.values()):
            raise fenced_epoch("the member is in a state that is not known here, and owns partitions")
        return self._next(epoch)

    def _is_subscribed(self, topic_id: str) -> bool:
        topic = self._image.by_id(topic_id)
        return topic is not None and topic.name in self._names

    def _may_hold(self, partitions: PartitionsWithEpochs) -> bool:
        """Return whether the member may own any of these: it says so, or says nothing."""
        owned = self._owned
        return owned is None or any(
            partition in owned.get(topic_id, ()) for topic_id, epochs in partitions.items() for partition in epochs
        )

    def _next(self, kept_epoch: int) -> ConsumerMember:
        """Give up what the target lacks; only then take what it adds, as far as nobody has it."""
        member, group = self._member, self._group
        target = {
            topic_id: partitions for topic_id, partitions in self._target.assignment if self._is_subscribed(topic_id)
        }
        kept: PartitionsWithEpochs = {}
        revoked: PartitionsWithEpochs = {}
        added: PartitionsWithEpochs = {}
        is_unreleased = False
        for topic_id in dict.fromkeys((*target, *member.assigned)):
            wanted, has = frozenset(target.get(topic_id, ())), member.assigned.get(topic_id, {})
            pending = member.pending_revocation.get(topic_id, {})
            stays = {partition: epoch for partition, epoch in has.items() if partition in wanted}
            goes = {partition: epoch for partition, epoch in has.items() if partition not in wanted}
            lacking = [partition for partition in sorted(wanted) if partition not in has]
            free = [
                partition for partition in lacking if partition in pending or group.is_free(topic_id, partition)
            ]
            is_unreleased = is_unreleased or len(free) < len(lacking)
            for partitions, part in ((kept, stays), (revoked, goes), (added, dict.fromkeys(free, self._target.epoch))):
                if part:
                    partitions[topic_id] = part
        if revoked and self._may_hold(revoked):
            return self._changed(MemberState.UNREVOKED_PARTITIONS, kept_epoch, kept, revoked)
        for topic_id, epochs in added.items():
            kept[topic_id] = {**kept.get(topic_id, {}), **epochs}
        state = MemberState.UNRELEASED_PARTITIONS if is_unreleased else MemberState.STABLE
        return self._changed(state, self._target.epoch, kept, {})

    def _shrink(self) -> ConsumerMember:
        """Give up topics that the member does not subscribe to any more."""
        member = self._member
        if not self._names and not member.pending_revocation and not member.assigned:
            return self._changed(member.state, member.member_epoch, {}, {})
        left = {topic_id: epochs for topic_id, epochs in member.assigned.items() if self._is_subscribed(topic_id)}
        if len(left) == len(member.assigned):
            return member
        pending = dict(member.pending_revocation)
        for topic_id, epochs in member.assigned.items():
            if topic_id not in left:
                pending[topic_id] = {**pending.get(topic_id, {}), **epochs}
        if self._may_hold(pending):
            return self._changed(MemberState.UNREVOKED_PARTITIONS, member.member_epoch, left, pending)
        return self._changed(member.state, member.member_epoch, left, member.pending_revocation)

    def _changed(
        self, state: MemberState, epoch: int, assigned: PartitionsWithEpochs, pending: PartitionsWithEpochs
    ) -> ConsumerMember:
        return replace(
            self._member,
            state=state,
            member_epoch=epoch,
            previous_member_epoch=self._member.member_epoch,
            assigned=assigned,
            pending_revocation=pending,
        )
