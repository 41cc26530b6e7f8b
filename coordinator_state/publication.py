"""How often a large group is published: the assignments topic gets the whole group, so its rate has a bound in bytes.

A small group is published at the end of each step that changes it. A large one is published at most once in the time
that its size takes at a fixed rate, by the group's own clock; what changes in between is published by a timer, as it is
then. So 1,000 members that reconcile one by one are not published a thousand times.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import UNSET
from msgspec.structs import replace

from coordinator_state import timers
from coordinator_state.kind import GroupKind
from coordinator_state.offsets import utf8_bytes
from coordinator_state.outputs import AssignmentChange
from coordinator_state.step import Step
from schemas.group_states import GroupState
from schemas.history import AssignedTopic, GroupSnapshot, SnapshotConsumerMember

AT_ONCE_BYTES_MAX = 65_536
"""A group of this size, or a smaller one, is published at each change."""
SURELY_SMALL_BYTES = AT_ONCE_BYTES_MAX // 8
"""What members bring takes no more than eight times as much in the record, names of topics and partitions included."""
BYTES_PER_S = 262_144
"""How fast a larger one is published."""
_MEMBER_BYTES = 212
_CONSUMER_MEMBER_BYTES = 200
_TOPIC_BYTES = 30
_PARTITION_BYTES = 4
_TEXT_BYTES = 3
"""About what the record has of each, besides names, and besides the bytes that a member has brought."""


def publication_interval_ms(snapshot: GroupSnapshot) -> int:
    """Return how long after this publication of a group the next one may come; 0: at once."""
    size = estimated_bytes(snapshot)
    return 0 if size <= AT_ONCE_BYTES_MAX else size * 1_000 // BYTES_PER_S


def estimated_bytes(snapshot: GroupSnapshot) -> int:
    """Return about how large the record of a published group is. It depends on nothing but the group.

    Whatever a client can make longer counts, or a group could grow past the bound.
    """
    size = 0
    for member in snapshot.members:  # each change of a group counts all of them: their names together
        names = f"{member.member_id}{member.group_instance_id or ''}{member.client_id}{member.client_host}"
        size += _MEMBER_BYTES + (len(member.metadata) + len(member.assignment)) * 4 // 3  # in base64
        size += utf8_bytes(names)
        size += _topics_size(member.partitions)
        if member.consumer is not UNSET:
            size += _consumer_size(member.consumer)
    if snapshot.subscription is not UNSET:
        size += _names_size(snapshot.subscription.topics)
        for regex, topics in snapshot.subscription.regexes.items():
            size += _names_size((regex, *(topics or ())))
    if snapshot.pending_topics is not UNSET:
        size += _names_size(snapshot.pending_topics)
    return size


def _consumer_size(consumer: SnapshotConsumerMember) -> int:
    size = _CONSUMER_MEMBER_BYTES + _topics_size(consumer.target) + _topics_size(consumer.pending_revocation)
    size += _names_size(consumer.subscribed_topics)
    return size + _names_size((consumer.subscribed_regex or "", consumer.server_assignor or "", consumer.rack_id or ""))


def _names_size(names: Collection[str]) -> int:
    return _TEXT_BYTES * len(names) + utf8_bytes("".join(names)) if names else 0


def _topics_size(topics: Collection[AssignedTopic] | None) -> int:
    if not topics:
        return 0
    size = _TOPIC_BYTES * len(topics) + utf8_bytes("".join([topic.topic for topic in topics]))
    return size + _PARTITION_BYTES * sum([len(topic.partitions) for topic in topics])


def publish(step: Step, kind: GroupKind) -> None:
    """Publish the group, or plan to."""
    group = step.group
    if group is not None and step.now_ms < group.next_publication_ms:
        if timers.PUBLICATION not in group.timers:
            step.arm(timers.PUBLICATION, group.next_publication_ms - step.now_ms)
        return
    step.seq += 1
    snapshot = _snapshot(step, kind)
    step.outputs.append(AssignmentChange(step.group_id, step.epoch, step.seq, snapshot))
    if group is not None and snapshot is not None:
        is_small = group.body.is_small and snapshot.pending_topics is UNSET
        interval_ms = 0 if is_small else publication_interval_ms(snapshot)
        group.next_publication_ms = step.now_ms + interval_ms if interval_ms else 0
        group.timers.pop(timers.PUBLICATION, None)


def _snapshot(step: Step, kind: GroupKind) -> GroupSnapshot | None:
    """Return the group as it is published. Of an id that has settings, but no group, these are."""
    group = step.group
    if group is not None:
        snapshot = kind.snapshot(group, step.seq, step.config)
        own, offsets = group.configuration, group.offsets
        if own is None and not offsets.has_pending:
            return snapshot
        pending = offsets.pending_only or UNSET
        return replace(snapshot, configuration=UNSET if own is None else own, pending_topics=pending)
    if step.configuration is None:
        return None
    return GroupSnapshot(
        group_id=step.group_id, epoch=step.epoch, seq=step.seq, time_ms=step.now_ms, timestamp_ms=step.timestamp_ms,
        state=GroupState.DEAD.value, state_since_ms=step.now_ms, generation_id=-1, protocol_type=None,
        protocol_name=None, leader_id=None, members=(), configuration=step.configuration,
    )  # fmt: skip
