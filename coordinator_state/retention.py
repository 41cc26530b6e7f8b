"""Offset retention. Source: `OffsetMetadataManager.cleanupExpiredOffsets`, `OffsetExpirationConditionImpl` (Kafka 4.3), KIP-211.

Kafka's check runs every `offsets.retention.check.interval.ms` over all groups. Ours is a timer of each group, at the
same instants, armed only for the first run at which something may expire; a run too early changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coordinator_state import states, timers
from coordinator_state.group import CONSUMER, Group, TopicRetention
from coordinator_state.offset_log import append_group_tombstone, append_offset_tombstone
from coordinator_state.offsets import CommittedOffset, offset_bytes, utf8_bytes
from coordinator_state.turn import Turn
from schemas.history import GroupDead, OffsetChange, OffsetsDeleted, OffsetsExpired

CHANGES_PER_RECORD_MAX = 1_000
"""A history record tells of no more offsets than this, so that it stays small."""


def note_commits(turn: Turn, topic: str, added: int, expire_timestamp_ms: int | None) -> None:
    """Offsets of a topic were committed, so many of them for partitions that had none."""
    group = turn.require_group()
    known = group.retention.get(topic)
    if known is None:
        group.retention[topic] = TopicRetention(added, turn.now_ms, expire_timestamp_ms)
        turn.expiry_changed = True
        return
    known.count += added
    # What is committed later than the rest leaves the first possible expiry as it is, unless it brings its own.
    if expire_timestamp_ms is not None:
        earliest_ms = known.earliest_expire_ms
        known.earliest_expire_ms = expire_timestamp_ms if earliest_ms is None else min(expire_timestamp_ms, earliest_ms)
        turn.expiry_changed = True


def remove_offset(turn: Turn, topic: str, partition: int) -> CommittedOffset | None:
    """Forget a committed offset and write its tombstone; None if there is none."""
    group = turn.require_group()
    removed = group.offsets.remove(topic, partition)
    if removed is None:
        return None
    append_offset_tombstone(turn, topic, partition)
    known = group.retention[topic]
    known.count -= 1
    if not known.count:
        del group.retention[topic]
    group.grow_offsets(-offset_bytes(utf8_bytes(group.group_id) + utf8_bytes(topic), removed.metadata))
    turn.expiry_changed = True
    return removed


def plan_expiry(turn: Turn) -> None:
    """Arm the retention timer for the first run at which something of the group may expire, or cancel it."""
    group = turn.require_group()
    due_ms = _earliest_expiry(group, turn.config.offsets_retention_ms)
    armed = group.timers.get(timers.OFFSETS_EXPIRY)
    if due_ms is None:
        if armed is not None:
            turn.cancel(timers.OFFSETS_EXPIRY)
        return
    run_ms = next_run(turn, max(due_ms, turn.now_ms + turn.expiry_run_is_over))
    if armed is None or armed.deadline_ms != run_ms:
        turn.arm(timers.OFFSETS_EXPIRY, run_ms - turn.now_ms)


def next_run(turn: Turn, at_least_ms: int) -> int:
    """The first run of the retention check at or after a time."""
    interval_ms = turn.config.offsets_retention_check_interval_ms
    phase_ms = turn.config.offsets_retention_check_phase_ms
    return at_least_ms + (phase_ms - at_least_ms) % interval_ms


def _earliest_expiry(group: Group, retention_ms: int) -> int | None:
    """When something may expire at the earliest (never too late); None: nothing can as things stand."""
    if not group.retention:
        return 0 if group.state is states.EMPTY else None
    base = _Base(group)
    if not base.exists:
        return None
    times = [
        _first_expiry(base, known, retention_ms)
        for topic, known in group.retention.items()
        if not group.is_subscribed(topic)
    ]
    return min(times, default=None)


def _first_expiry(base: _Base, known: TopicRetention, retention_ms: int) -> int:
    by_retention = base.of(known.oldest_committed_ms) + retention_ms
    return by_retention if known.earliest_expire_ms is None else min(by_retention, known.earliest_expire_ms)


class _Base:
    """From when on retention counts (Kafka's table of protocol type and state)."""

    def __init__(self, group: Group) -> None:
        self._state_since_ms: int | None = None
        self.exists = True
        if group.protocol_type is None:
            return
        if group.state is states.EMPTY:
            self._state_since_ms = group.state_since_ms
        else:
            self.exists = (
                group.protocol_type == CONSUMER
                and group.state is states.STABLE
                and group.subscribed_topics is not None
            )

    def of(self, committed_ms: int) -> int:
        return committed_ms if self._state_since_ms is None else self._state_since_ms


def expiry_timer_expired(turn: Turn) -> None:
    """A run of the retention check: tombstones for what has expired, and for the group if nothing is left of it."""
    group = turn.require_group()
    base = _Base(group)
    if base.exists and group.retention:
        retention_ms = turn.config.offsets_retention_ms
        expired = [
            (topic, partition)
            for topic, partition, committed in group.offsets
            if not group.is_subscribed(topic) and _is_expired(committed, base, retention_ms, turn.now_ms)
        ]
        changes = [_forget(turn, topic, partition) for topic, partition in expired]
        for chunk in chunks(changes):
            turn.cause_seq = turn.tell(OffsetsExpired, offsets=chunk)
        _refresh_retention(group)
    if not group.retention and group.state is states.EMPTY:
        append_group_tombstone(turn)
        turn.tell(GroupDead, reason="expired")
        turn.remove_group()
    else:
        turn.expiry_changed = True


def _is_expired(committed: CommittedOffset, base: _Base, retention_ms: int, now_ms: int) -> bool:
    if committed.expire_timestamp_ms is not None:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - base.of(committed.committed_ms) >= retention_ms


def _refresh_retention(group: Group) -> None:
    """Make the lower bounds exact: what was oldest may have been committed anew since."""
    for topic, known in group.retention.items():
        all_committed = group.offsets.topics[topic].values()
        known.oldest_committed_ms = min(committed.committed_ms for committed in all_committed)
        known.earliest_expire_ms = min(
            (committed.expire_timestamp_ms for committed in all_committed if committed.expire_timestamp_ms is not None),
            default=None,
        )


def delete_group(turn: Turn) -> None:
    """Tombstones for every offset, then for the group: it is gone."""
    group = turn.require_group()
    changes = [_forget(turn, topic, partition) for topic, partition, _ in list(group.offsets)]
    append_group_tombstone(turn)
    tell_deleted(turn, changes)
    turn.tell(GroupDead, reason="deleted")
    turn.remove_group()


def tell_deleted(turn: Turn, changes: Iterable[OffsetChange]) -> None:
    for chunk in chunks(list(changes)):
        turn.cause_seq = turn.tell(OffsetsDeleted, offsets=chunk)


def _forget(turn: Turn, topic: str, partition: int) -> OffsetChange:
    removed = remove_offset(turn, topic, partition)
    assert removed is not None
    return OffsetChange(topic=topic, partition=partition, offset=None, previous_offset=removed.offset)


def chunks(changes: list[OffsetChange]) -> Iterator[tuple[OffsetChange, ...]]:
    for start in range(0, len(changes), CHANGES_PER_RECORD_MAX):
        yield tuple(changes[start : start + CHANGES_PER_RECORD_MAX])
