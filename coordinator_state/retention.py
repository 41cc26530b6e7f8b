"""Offset retention. Source: `OffsetMetadataManager.cleanupExpiredOffsets`, `OffsetExpirationConditionImpl` (Kafka 4.3), KIP-211.

Kafka's check runs every `offsets.retention.check.interval.ms` over all groups. Ours is a timer of each group, at the
same instants, armed only for the first run at which something may expire; a run too early changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator_state import timers
from coordinator_state.group import Group, TopicRetention
from coordinator_state.offset_log import append_group_tombstones, append_offset_tombstone
from coordinator_state.offsets import OffsetExpirationCondition, offset_bytes, utf8_bytes
from coordinator_state.step import Step
from schemas.history import GroupDead, OffsetChange, OffsetsDeleted, OffsetsExpired

CHANGES_PER_RECORD_MAX = 1_000
"""A history record tells of no more offsets than this, so that it stays small."""


def note_commits(step: Step, topic: str, added: int, expire_timestamp_ms: int | None) -> None:
    """Note commits for a topic; `added` of them are for partitions that had no offset."""
    group = step.require_group()
    retention = group.retention.get(topic)
    if retention is None:
        group.retention[topic] = TopicRetention(added, step.now_ms, expire_timestamp_ms)
        step.retention_changed = True
        return
    retention.count += added
    # What is committed later than the rest leaves the first possible expiry as it is, unless it brings its own.
    if expire_timestamp_ms is not None:
        earliest_ms = retention.earliest_expire_ms
        retention.earliest_expire_ms = (
            expire_timestamp_ms if earliest_ms is None else min(expire_timestamp_ms, earliest_ms)
        )
        step.retention_changed = True


def remove_offset(step: Step, topic: str, partition: int) -> OffsetChange | None:
    """Forget a committed offset, and what is pending for its partition, and write its tombstone; None if there is
    neither."""
    group = step.require_group()
    dropped = drop_pending(step, topic, partition)
    removed = group.offsets.remove(topic, partition)
    if removed is None and not dropped:
        return None
    append_offset_tombstone(step, topic, partition)
    if removed is not None:
        retention = group.retention[topic]
        retention.count -= 1
        if not retention.count:
            del group.retention[topic]
        group.grow_offsets(-offset_bytes(utf8_bytes(group.group_id) + utf8_bytes(topic), removed.metadata))
        step.retention_changed = True
    previous_offset = None if removed is None else removed.offset
    return OffsetChange(topic=topic, partition=partition, offset=None, previous_offset=previous_offset)


def drop_pending(step: Step, topic: str, partition: int) -> bool:
    """Forget what is pending for a partition, of all producers; return whether there was anything."""
    group = step.require_group()
    if not group.offsets.is_open(topic, partition):
        return False
    key_bytes = utf8_bytes(group.group_id) + utf8_bytes(topic)
    if topic in group.offsets.pending_only:
        step.assignment_changed = True
    for pending in group.offsets.remove_pending(topic, partition).values():
        group.grow_offsets(-offset_bytes(key_bytes, pending.metadata))
    step.retention_changed = True
    return True


def plan_expiry(step: Step) -> None:
    """Arm the retention timer for the first run at which something of the group may expire, or cancel it."""
    group = step.require_group()
    due_ms = _earliest_expiry(group, step.config.offsets_retention_ms)
    armed = group.timers.get(timers.OFFSETS_EXPIRY)
    if due_ms is None:
        if armed is not None:
            step.cancel(timers.OFFSETS_EXPIRY)
        return
    run_ms = next_run(step, max(due_ms, step.now_ms + _check_is_over(step)))
    if armed is None or armed.deadline_ms != run_ms:
        step.arm(timers.OFFSETS_EXPIRY, run_ms - step.now_ms)


def _check_is_over(step: Step) -> bool:
    """Return whether the retention check of this very millisecond has already run."""
    due = step.due_timer
    return (
        due is None
        or due.name == timers.OFFSETS_EXPIRY
        or timers.runs_before(due.timer.deadline_ms, due.timer, step.config.offsets_retention_check_interval_ms)
    )


def next_run(step: Step, at_least_ms: int) -> int:
    """Return the time of the first retention check at or after a time."""
    interval_ms = step.config.offsets_retention_check_interval_ms
    phase_ms = step.config.offsets_retention_check_phase_ms
    return at_least_ms + (phase_ms - at_least_ms) % interval_ms


def _earliest_expiry(group: Group, retention_ms: int) -> int | None:
    """Return the earliest time of the next expiry (never too late); None if nothing can expire."""
    if not group.retention:
        return 0 if group.body.is_empty and not group.offsets.has_pending else None
    condition = group.body.offset_expiration_condition()
    if condition is None:
        return None
    times = [
        _first_expiry(condition, retention, retention_ms)
        for topic, retention in group.retention.items()
        if not group.body.is_subscribed_to_topic(topic)
    ]
    return min(times, default=None)


def _first_expiry(condition: OffsetExpirationCondition, retention: TopicRetention, retention_ms: int) -> int:
    by_retention = condition.base_ms(retention.oldest_committed_ms) + retention_ms
    return by_retention if retention.earliest_expire_ms is None else min(by_retention, retention.earliest_expire_ms)


def expiry_timer_expired(step: Step) -> None:
    """Run the retention check: write tombstones for expired offsets, and for the group if nothing is left of it.

    While a transaction has an offset of a partition pending, the committed one stays, and so does the group.
    """
    group = step.require_group()
    condition = group.body.offset_expiration_condition()
    if condition is not None and group.retention:
        retention_ms = step.config.offsets_retention_ms
        expired = [
            (topic, partition)
            for topic, partition, committed in group.offsets
            if not group.body.is_subscribed_to_topic(topic)
            and condition.is_expired(committed, step.now_ms, retention_ms)
            and not group.offsets.is_open(topic, partition)
        ]
        changes = [_forget(step, topic, partition) for topic, partition in expired]
        for chunk in chunks(changes):
            step.cause_seq = step.append_history(OffsetsExpired(*step.history_fields(), offsets=chunk))
        _refresh_retention(group)
    if not group.retention and group.body.is_empty and not group.offsets.has_pending:
        append_group_tombstones(step)
        step.append_history(GroupDead(*step.history_fields(), reason="expired"))
        step.forget_group()
    else:
        step.retention_changed = True


def _refresh_retention(group: Group) -> None:
    """Make the lower bounds exact: what was oldest may have been committed anew since."""
    for topic, retention in group.retention.items():
        all_committed = group.offsets.topics[topic].values()
        retention.oldest_committed_ms = min(committed.committed_ms for committed in all_committed)
        retention.earliest_expire_ms = min(
            (committed.expire_timestamp_ms for committed in all_committed if committed.expire_timestamp_ms is not None),
            default=None,
        )


def delete_group(step: Step) -> None:
    """Delete the group: write tombstones for its offsets, then for those that were only pending, then for the group."""
    group = step.require_group()
    changes = [_forget(step, topic, partition) for topic, partition, _ in list(group.offsets)]
    if group.offsets.has_pending:
        pending = sorted(
            (topic, partition) for topic, partitions in group.offsets.pending.items() for partition in partitions
        )
        changes += [_forget(step, topic, partition) for topic, partition in pending]
    append_group_tombstones(step)
    record_deleted_offsets(step, changes)
    step.append_history(GroupDead(*step.history_fields(), reason="deleted"))
    step.forget_group()


def record_deleted_offsets(step: Step, changes: Iterable[OffsetChange]) -> None:
    for chunk in chunks(list(changes)):
        step.cause_seq = step.append_history(OffsetsDeleted(*step.history_fields(), offsets=chunk))


def _forget(step: Step, topic: str, partition: int) -> OffsetChange:
    change = remove_offset(step, topic, partition)
    assert change is not None
    return change


def chunks(changes: list[OffsetChange]) -> list[tuple[OffsetChange, ...]]:
    """Return the changes in pieces of the size that one history record holds."""
    if len(changes) <= CHANGES_PER_RECORD_MAX:  # nearly always
        return [tuple(changes)] if changes else []
    starts = range(0, len(changes), CHANGES_PER_RECORD_MAX)
    return [tuple(changes[start : start + CHANGES_PER_RECORD_MAX]) for start in starts]
