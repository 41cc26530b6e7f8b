"""The log of a broker's group coordinator (`GroupMetadataManager`, level INFO) is read for its groups.

Its lines tell when a rebalance began and why, when it ended, who left and who failed. History says the same in types;
`entry_of_history` puts it in the words of the log, so that the two can be compared line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import tzinfo
from pathlib import Path

from msgspec import Struct

from group_coordinator.recordings.line_times import LineError, line_time
from group_coordinator.recordings.text_files import lines_of
from schemas.history import (
    AssignmentReceived,
    GroupEmpty,
    History,
    JoinPhaseCompleted,
    MemberExpired,
    MemberLeft,
    MemberReplaced,
    RebalanceStarted,
)


class LogEntry(Struct, frozen=True):
    """One thing that the coordinator told. Two entries mean the same if all but their times are equal."""

    time_ms: int
    kind: str
    generation: int | None = None
    """The old one where a rebalance starts, else that of the group."""
    cause: str | None = None
    """Why a rebalance starts, in one of the words below."""
    who: frozenset[str] = frozenset()
    """The member that it is about."""
    count: int | None = None
    """Of members."""

    def same(self, other: LogEntry) -> bool:
        return (self.kind, self.generation, self.cause, self.who, self.count) == (
            other.kind,
            other.generation,
            other.cause,
            other.who,
            other.count,
        )

    def __str__(self) -> str:
        parts = [self.kind]
        parts += [f"generation {self.generation}"] if self.generation is not None else []
        parts += [f"because {self.cause}"] if self.cause else []
        parts += [", ".join(sorted(self.who))] if self.who else []
        parts += [f"{self.count} members"] if self.count is not None else []
        return f"{'; '.join(parts)} (at {self.time_ms})"


_REJOINED = "member rejoined or changed"
_TRIGGERS = {
    "member_joined": "member joined",
    "leader_rejoined": _REJOINED,
    "member_changed": _REJOINED,
    "static_member_replaced": "static member replaced",
    "member_left": "members left",
    "pending_member_left": "members left",
    "member_expired": "member expired",
    "members_did_not_sync": "members did not sync",
    "assignment_too_large": "assignment could not be stored",
}
_CAUSED_BY_SEVERAL = frozenset({"members left", "members did not sync", "assignment could not be stored"})
"""Causes where the line that starts the rebalance is not compared by members: other lines name those who left."""
_REASONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), cause)
    for pattern, cause in (
        (r"Adding new member (?P<who>.*?) with group instance id", "member joined"),
        (r"Leader (?P<who>.*?) re-joining group during", _REJOINED),
        (r"Updating metadata for static member (?P<who>.*?) with instance id", "static member replaced"),
        (r"Updating metadata for member (?P<who>.*?) during", _REJOINED),
        (
            r"Group's selectedProtocol will change because static member (?P<who>.*?) with instance id",
            "static member replaced",
        ),
        (r"explicit `LeaveGroup` request for \(.*\) members", "members left"),
        (r"[Rr]emoving member (?P<who>.*?) on heartbeat expiration", "member expired"),
        (r"Removing .* on pending sync request expiration", "members did not sync"),
        (r"[Ee]rror|[Ff]ailed to (?:write|persist)", "assignment could not be stored"),
    )
)
_PREPARING = re.compile(
    r"Preparing to rebalance group (?P<group>.*) in state \w+ with old generation (?P<generation>-?\d+) \(reason: "
    r"(?P<reason>.*)\)\."
)
_STABILIZED = re.compile(r"Stabilized group (?P<group>.*) generation (?P<generation>-?\d+) with (?P<count>\d+) members")
_EMPTY = re.compile(r"Group (?P<group>.*) with generation (?P<generation>-?\d+) is now empty")
_ASSIGNED = re.compile(
    r"Assignment received from leader (?P<who>.*) for group (?P<group>.*) for generation (?P<generation>-?\d+)\. The "
    r"group has (?P<count>\d+) members"
)
_FAILED = re.compile(r"Member (?P<who>.*) in group (?P<group>.*) has failed, removing it from the group")
_LEFT = re.compile(
    r"\[Group (?P<group>.*?)\] (?:Static m|M)ember (?P<who>.*?) (?:with instance id .*? )?has left group through "
    r"explicit"
)
_REPLACED = re.compile(
    r"Static member with groupInstanceId=.* and unknown member id joins group (?P<group>.*) in \w+ state\. Replacing "
    r"previously mapped member (?P<who>.*) with this"
)


def read_coordinator_log(path: Path, time_zone: tzinfo) -> dict[str, list[LogEntry]]:
    """The entries by group, in their order; lines of other kinds are skipped."""
    by_group: dict[str, list[LogEntry]] = {}
    for _, line, _ in lines_of(path):
        text = line.decode(errors="replace").rstrip("\r\n")
        for pattern, make in _LINES:
            found = pattern.search(text)
            if found is not None:
                try:
                    time_ms = line_time(line[: len(text[: found.start()].encode())], time_zone).us // 1000
                except LineError:
                    break
                by_group.setdefault(found["group"], []).append(make(time_ms, found))
                break
    return by_group


def _preparing(time_ms: int, found: re.Match[str]) -> LogEntry:
    generation = int(found["generation"])
    for pattern, cause in _REASONS:
        reason = pattern.search(found["reason"])
        if reason is not None:
            who = frozenset({reason["who"]}) if "who" in reason.groupdict() else frozenset()
            return LogEntry(time_ms, "rebalance starts", generation, cause, who)
    return LogEntry(time_ms, "rebalance starts", generation, found["reason"])


_LINES: tuple[tuple[re.Pattern[str], Callable[[int, re.Match[str]], LogEntry]], ...] = (
    (_PREPARING, _preparing),
    (
        _STABILIZED,
        lambda ms, found: LogEntry(ms, "join phase ends", int(found["generation"]), count=int(found["count"])),
    ),
    (_EMPTY, lambda ms, found: LogEntry(ms, "group is empty", int(found["generation"]))),
    (
        _ASSIGNED,
        lambda ms, found: LogEntry(
            ms,
            "assignment received",
            int(found["generation"]),
            who=frozenset({found["who"]}),
            count=int(found["count"]),
        ),
    ),
    (_FAILED, lambda ms, found: LogEntry(ms, "member expired", who=frozenset({found["who"]}))),
    (_LEFT, lambda ms, found: LogEntry(ms, "member left", who=frozenset({found["who"]}))),
    (_REPLACED, lambda ms, found: LogEntry(ms, "member replaced", who=frozenset({found["who"]}))),
)


def entry_of_history(record: History) -> LogEntry | None:
    """Return the broker's log entry for a history record; None if it writes none."""
    match record:
        case RebalanceStarted():
            return _started(record)
        case JoinPhaseCompleted():
            return LogEntry(record.time_ms, "join phase ends", record.generation_id, count=len(record.members))
        case GroupEmpty():
            return LogEntry(record.time_ms, "group is empty", record.generation_id)
        case AssignmentReceived():
            who = frozenset({record.leader_id})
            return LogEntry(
                record.time_ms, "assignment received", record.generation_id, who=who, count=len(record.assignments)
            )
        case MemberExpired():
            return LogEntry(record.time_ms, "member expired", who=frozenset({record.member.member_id}))
        case MemberLeft():
            return LogEntry(record.time_ms, "member left", who=frozenset({record.member.member_id}))
        case MemberReplaced():
            return LogEntry(record.time_ms, "member replaced", who=frozenset({record.old_member_id}))
        case _:
            return None


def _started(record: RebalanceStarted) -> LogEntry:
    cause = _TRIGGERS[record.trigger]
    named = record.member is not None and cause not in _CAUSED_BY_SEVERAL
    who = frozenset({record.member.member_id}) if named and record.member is not None else frozenset()
    return LogEntry(record.time_ms, "rebalance starts", record.generation_id, cause, who)
