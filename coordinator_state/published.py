"""The group as it is now, published at the end of a step that changed it: a large one now and then (`publication`)."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from coordinator_state import timers
from coordinator_state.kind import GroupKind
from coordinator_state.outputs import AssignmentChange
from coordinator_state.publication import publication_interval_ms
from coordinator_state.step import Step
from schemas.group_states import GroupState
from schemas.history import GroupSnapshot


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
