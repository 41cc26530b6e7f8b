"""This tells what each member of a group that counts epochs shall own and has, and who holds up whom. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from group_coordinator.watching.dashboard import api_types as api
from group_coordinator.watching.dashboard.rebalance_page import holder, seen_in
from group_coordinator.watching.history.current_group import CurrentGroup
from group_coordinator.watching.narrative import sentences, words
from schemas.consumer_group_history import (
    GroupConverted,
    GroupEpochBumped,
    MemberReconciled,
    RegexResolved,
    TargetAssignmentComputed,
)
from schemas.history import AssignedTopic, History

TARGETS_MAX = 300
PROGRESS_MAX = 6_000
HOLDERS_MAX = 3_000
REGEXES_MAX = 500
"""So many are told, the latest."""


def present(group: CurrentGroup) -> dict[str, Any]:
    """Return how far a group is on its way now, as the page shows it: a copy, which does not change any more. It is
    empty for a group that is a classic one."""
    way = group.way
    if not (way.targets or way.progress or group.regexes):
        return {}
    return {
        "target_epoch": way.epoch,
        "targets": {member_id: _owned(topics) for member_id, topics in way.targets.items()},
        "members": {member_id: _progress(record) for member_id, record in way.progress.items()},
        "holders": _holders(group),
        "classic": group.classic_members,
        "regexes": group.regexes,
    }


class EpochsOverTime:
    """What members had and should have at any moment of the records that there are."""

    def __init__(self) -> None:
        self._targets: list[list[Any]] = []
        self._steps: list[list[Any]] = []
        self._bumps: list[list[Any]] = []
        self._conversions: list[list[Any]] = []
        self._regexes: list[list[Any]] = []
        self._classic: list[list[Any]] = []
        self._classic_now: list[str] = []
        self._held: list[list[Any]] = []
        """From when, until when, who."""
        self._open: dict[str, list[Any]] = {}
        """Those that go on, by member."""

    def document(self, now: dict[str, Any]) -> dict[str, Any] | None:
        """Return the page of a group that counts epochs; None for a group that has always been a classic one."""
        document = {
            "targets": self._targets[-TARGETS_MAX:],
            "members": self._steps[-PROGRESS_MAX:],
            "holders": self._held[-HOLDERS_MAX:],
            "bumps": self._bumps[-TARGETS_MAX:],
            "regexes": self._regexes[-REGEXES_MAX:],
            "classic": self._classic[-PROGRESS_MAX:],
            "conversions": self._conversions,
        }
        return None if not (now or any(document.values())) else {"now": now} | document

    def note(self, record: History, group: CurrentGroup) -> None:
        """Take the next record, and the group as it is after it."""
        at_ms = record.timestamp_ms
        if isinstance(record, TargetAssignmentComputed):
            shares = {share.member_id: _owned(share.topics or ()) for share in record.assignments}
            self._targets.append([at_ms, record.assignment_epoch, record.assignor, shares])
        elif isinstance(record, MemberReconciled):
            self._steps.append([at_ms, record.member.member_id, *_progress(record)])
        elif isinstance(record, GroupEpochBumped):
            self._bumps.append([at_ms, record.generation_id, list(record.reasons)])
        elif isinstance(record, GroupConverted):
            sentence, cause = sentences.sentence(record), record.cause
            self._conversions.append([at_ms, record.to_protocol, sentence, cause, seen_in(cause)])
        elif isinstance(record, RegexResolved):
            self._regexes.append([at_ms, record.regex, record.topics])
        classic = group.classic_members
        if classic != self._classic_now:
            self._classic_now = classic
            self._classic.append([at_ms, classic])
        if group.way.held_up or self._open:
            self._note_holders(at_ms, group)

    def _note_holders(self, at_ms: int, group: CurrentGroup) -> None:
        holders = {each.member_id: each for each in _holders(group)}
        for member_id, span in list(self._open.items()):
            if holders.get(member_id) != span[2]:
                span[1] = at_ms
                del self._open[member_id]
        for member_id, found in holders.items():
            if member_id not in self._open:
                span = self._open[member_id] = [at_ms, None, found]
                self._held.append(span)


def _holders(group: CurrentGroup) -> list[api.Holder]:
    return [holder(each, group.gives_up_by_ms(each.member_id)) for each in group.holders()]


def _progress(record: MemberReconciled) -> list[Any]:
    pending = _owned(record.pending_revocation) if record.pending_revocation else ""
    return [record.state, record.member_epoch, _owned(record.assigned), pending]


def _owned(topics: Iterable[AssignedTopic]) -> str:
    """The page compares these texts, so topics are in order."""
    return words.owned(tuple(sorted(topics, key=lambda topic: topic.topic)))
