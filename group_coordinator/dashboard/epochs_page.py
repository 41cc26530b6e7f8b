"""Of a group that counts epochs: what each member shall own, what it has, and what it must give up, over time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from group_coordinator.narrative import words
from schemas.history import AssignedTopic, History
from schemas.observed_history import GroupConverted, MemberReconciled, TargetAssignmentComputed

TARGETS_MAX = 300
PROGRESS_MAX = 6_000
"""So many are told, the latest."""


def epochs_document(
    life: Iterable[History], targets: Mapping[str, tuple[AssignedTopic, ...]], progress: Mapping[str, MemberReconciled]
) -> dict[str, Any] | None:
    """Return the page of a group that counts epochs. `targets` and `progress` are those of now, by member. None for a
    group that has always been a classic one."""
    computed, steps, conversions = [], [], []
    for record in life:
        if isinstance(record, TargetAssignmentComputed):
            shares = {share.member_id: words.owned(share.topics) for share in record.assignments}
            computed.append([record.timestamp_ms, record.assignment_epoch, record.assignor, shares])
        elif isinstance(record, MemberReconciled):
            steps.append([record.timestamp_ms, record.member.member_id, *_progress(record)])
        elif isinstance(record, GroupConverted):
            conversions.append([record.timestamp_ms, record.to_protocol])
    if not (computed or steps or targets or progress):
        return None
    return {
        "targets_now": {member_id: words.owned(topics) for member_id, topics in targets.items()},
        "members_now": {member_id: _progress(record) for member_id, record in progress.items()},
        "targets": computed[-TARGETS_MAX:],
        "members": steps[-PROGRESS_MAX:],
        "conversions": conversions,
    }


def _progress(record: MemberReconciled) -> list[Any]:
    pending = words.owned(record.pending_revocation) if record.pending_revocation else ""
    return [record.state, record.member_epoch, words.owned(record.assigned), pending]
