"""Which groups have changed, as far as ListGroups tells, since what the query has published for sure. Pure.

A gateway lists what the query has published, two or three seconds behind what a responder has answered. So it asks the
responder for these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from coordinator_state import Answer, Group, Output
from schemas.group_states import GroupState
from schemas.query_progress import ChangedGroup, GroupsAsked, GroupsChanged

KEPT_S = 10.0
"""So long after the query's commit of a change it is kept: whoever asks may not have read yet what was published."""
GROUPS_MAX = 100_000
"""Of more groups the first that changed are left out: those are as the query has published them."""
GROUPS_PER_RECORD = 1_000
_QUESTIONS_MAX = 1_000
_NOT_LISTED = ("", "", "")


class _Change(Struct):
    group: ChangedGroup
    offset: int
    """Of the event from which it follows."""
    clock_ms: int
    """The shard's clock then: what a timer has changed the query has decided when it has come as far."""


class ChangedGroups:
    """One for a shard."""

    def __init__(self) -> None:
        self._changes: dict[bytes, _Change] = {}
        """By key; the last change of a group is at the end."""
        self._shown: dict[bytes, tuple[str, str, str]] = {}
        """State, type and protocol type of the groups that have written anything lately."""
        self._commits: list[tuple[float, int, int]] = []
        """When the query's commits were heard, and up to which offset and clock it had decided."""
        self._questions: dict[str, GroupsAsked] = {}

    def note(self, key: bytes, group: Group | None, outputs: Sequence[Output], offset: int, clock_ms: int) -> None:
        """Note a group after an event at `offset`, or after its timers. `outputs`: what came of that."""
        if not any(type(output) is not Answer for output in outputs):
            return  # it is as it was
        shown = _shown(group)
        if self._shown.get(key) == shown:
            return
        last = outputs[-1]
        state, group_type, protocol_type = shown
        self._changes.pop(key, None)
        self._changes[key] = _Change(
            ChangedGroup(
                group_id=key.decode(), epoch=last.epoch, seq=last.seq, state=state or None, group_type=group_type,
                protocol_type=protocol_type,
            ),
            offset,
            clock_ms,
        )  # fmt: skip
        self._shown.pop(key, None)
        self._shown[key] = shown
        for entries in (self._changes, self._shown):
            if len(entries) > GROUPS_MAX:
                del entries[next(iter(entries))]

    def committed(self, end_offset: int, clock_ms: int, now_s: float) -> None:
        """Note that the query has decided all events before this offset, and all timers up to this clock."""
        self._commits.append((now_s, end_offset, clock_ms))
        while len(self._commits) > 1 and self._commits[1][0] <= now_s - KEPT_S:
            del self._commits[0]
        heard_s, end_offset, clock_ms = self._commits[0]
        if heard_s > now_s - KEPT_S:
            return
        for key, change in list(self._changes.items()):
            if change.offset >= end_offset or change.clock_ms > clock_ms:
                return
            del self._changes[key]
            if not change.group.state:
                self._shown.pop(key, None)

    def asked(self, question: GroupsAsked) -> None:
        """Take a question; one of each asker, the last, is answered."""
        if len(self._questions) < _QUESTIONS_MAX:
            self._questions[question.asker] = question

    def answers(self) -> Iterator[GroupsChanged]:
        """Yield the answers to all questions, each in pieces: the groups as they are now, those that are not listed any
        more among them."""
        questions, self._questions = self._questions, {}
        groups = tuple([change.group for change in self._changes.values()]) if questions else ()
        for asker, question in questions.items():
            for begin in range(0, max(len(groups), 1), GROUPS_PER_RECORD):
                end = begin + GROUPS_PER_RECORD
                yield GroupsChanged(
                    asker=asker, number=question.number, groups=groups[begin:end], is_last=end >= len(groups)
                )


def _shown(group: Group | None) -> tuple[str, str, str]:
    if group is None or not group.is_logged or group.body.state_name == GroupState.DEAD:
        return _NOT_LISTED
    return group.body.state_name, group.body.type_name, group.body.protocol_type or ""
