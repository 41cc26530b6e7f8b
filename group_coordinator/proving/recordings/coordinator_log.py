"""What the group coordinators of brokers logged (level INFO), group by group, to be compared with history.

Its lines tell when a rebalance began and why, when it ended, who left and who failed. History says the same in types;
`entry_of_history` puts it in the words of the log, so that the two can be compared line by line.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from pathlib import Path

from msgspec import Struct, field

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from schemas.consumer_group_history import (
    ConsumerMemberAway,
    GroupConverted,
    GroupEpochBumped,
    TargetAssignmentComputed,
)
from schemas.history import (
    AssignmentReceived,
    GroupEmpty,
    History,
    JoinPhaseCompleted,
    MemberDropped,
    MemberExpired,
    MemberLeft,
    MemberReplaced,
    RebalanceStarted,
)


class LogEntry(Struct, frozen=True):
    """One thing that the coordinator told. Two entries mean the same if all that both tell is equal but their times."""

    time_ms: int
    kind: str
    generation: int | None = None
    """The old one where a rebalance starts, else that of the group."""
    cause: str | None = None
    """Why a rebalance starts, in one of the words below."""
    member_ids: frozenset[str] = frozenset()
    """The member that it is about; empty where the line does not say."""
    count: int | None = None
    """Of members; None where the line does not say."""

    def matches(self, other: LogEntry) -> bool:
        return (
            (self.kind, self.generation, self.cause) == (other.kind, other.generation, other.cause)
            and (self.member_ids == other.member_ids or not self.member_ids or not other.member_ids)
            and (self.count == other.count or self.count is None or other.count is None)
        )

    def __str__(self) -> str:
        parts = [self.kind]
        parts += [f"generation {self.generation}"] if self.generation is not None else []
        parts += [f"because {self.cause}"] if self.cause else []
        parts += [", ".join(sorted(self.member_ids))] if self.member_ids else []
        parts += [f"{self.count} members"] if self.count is not None else []
        return f"{'; '.join(parts)} (at {self.time_ms})"


EMPTY = "group is empty"
_LEFT = "members left"
REJOINED = "member rejoined or changed"
_CONVERTED = "group converted"
_TRIGGERS = {
    "member_joined": "member joined",
    "leader_rejoined": REJOINED,
    "member_changed": REJOINED,
    "static_member_replaced": "static member replaced",
    "member_left": _LEFT,
    "pending_member_left": _LEFT,
    "member_expired": "member expired",
    "members_did_not_sync": "members did not sync",
    "assignment_too_large": "assignment could not be stored",
    "group_converted": _CONVERTED,
}
_CAUSED_BY_SEVERAL = frozenset({_LEFT, "members did not sync", "assignment could not be stored"})
"""Causes where the line that starts the rebalance is not compared by members: other lines name those who left."""
LEAVE_ENTRIES = 3
LEAVE_MS = 100
"""How far behind the rebalance the line may stand that tells which member has left."""


class CoordinatorLogs(Struct):
    """What the brokers' logs tell, by group, in the order of the times."""

    entries: dict[str, list[LogEntry]] = field(default_factory=dict)
    """What can be compared."""
    moves: dict[str, list[BrokerLine]] = field(default_factory=dict)
    """Loads and unloads of groups that were there before."""
    settings: dict[str, str] = field(default_factory=dict)
    """The brokers' settings by Kafka's names, as far as they tell them."""
    doubts: tuple[str, ...] = ()
    """What there is to say of the clusters that the logs are of."""
    version: str | None = None
    """Of the broker that was started last; None: no line tells it."""
    topic_names: dict[str, str] = field(default_factory=dict)
    """Names of topics, by id in hexadecimal digits, as far as lines have both."""
    since_ms: int = 0
    """Since when the logs of all brokers are there, and until when: older files may be rotated away."""
    until_ms: int = 2**62


def read_coordinator_logs(paths: Sequence[Path], time_zone: tzinfo, of_cluster: str | None = None) -> CoordinatorLogs:
    """Read the logs of any number of brokers; lines of other kinds are skipped, and so are logs of other clusters than
    this one."""
    log, logs = BrokerLog(time_zone, of_cluster=of_cluster), CoordinatorLogs()
    for path in paths:
        log.read_file(path)
    logs.doubts = tuple(log.doubts())
    logs.since_ms, logs.until_ms = _covered_ms(log)
    logs.settings, logs.version, logs.topic_names = log.settings, log.version, log.topic_names
    for line in sorted(log.lines, key=lambda line: line.time_ms):  # stable: lines of one broker keep their order
        group_id = line.event.group_id
        if isinstance(line.event, line_events.GroupLoaded | line_events.GroupUnloaded):
            logs.moves.setdefault(group_id, []).append(line)
        elif (entry := _entry_of_line(line)) is not None:
            entries = logs.entries.setdefault(group_id, [])
            entries.insert(_place(entries, entry), entry)
    return logs


def _covered_ms(log: BrokerLog) -> tuple[int, int]:
    """Return since when all brokers' logs are there, and until when any: what is older may be rotated away."""
    firsts: dict[int | None, int] = {}
    for file in log.files:
        firsts[file.broker] = min(file.first_ms or 0, firsts.get(file.broker, 2**62))
    return max(firsts.values(), default=0), max((file.last_ms or 2**62 for file in log.files), default=2**62)


def _place(entries: list[LogEntry], entry: LogEntry) -> int:
    """Brokers before Kafka 4 tell of a rebalance, and that the group is empty, before they tell which member has left:
    that one goes first."""
    place = len(entries)
    if entry.kind == _CONVERTED and entries and entries[-1].cause == _CONVERTED:
        return place - 1  # told after the rebalance that it begins
    if entry.kind == "member left":
        recent = entries[-LEAVE_ENTRIES:]
        for back, earlier in enumerate(reversed(recent), 1):
            if entry.time_ms - earlier.time_ms > LEAVE_MS:
                break
            starts = (earlier.kind, earlier.cause, earlier.member_ids) == ("rebalance starts", _LEFT, entry.member_ids)
            if starts or earlier.kind == EMPTY:
                place = len(entries) - back
    return place


def _entry_of_line(line: BrokerLine) -> LogEntry | None:
    ms, event = line.time_ms, line.event
    match event:
        case line_events.RebalancePrepared():
            return _prepared(ms, event)
        case line_events.JoinPhaseEnded():
            return LogEntry(ms, "join phase ends", event.generation_id, count=event.members)
        case line_events.GroupEmptied():
            return LogEntry(ms, EMPTY, event.generation_id)
        case line_events.AssignmentTaken():
            member_ids = frozenset() if event.leader_id is None else frozenset({event.leader_id})
            return LogEntry(ms, "assignment received", event.generation_id, member_ids=member_ids, count=event.members)
        case line_events.MemberFailed():
            return LogEntry(ms, "member expired", member_ids=frozenset({event.member_id}))
        case line_events.MemberDeparted():
            return LogEntry(ms, "member left", member_ids=frozenset({event.member_id}))
        case line_events.StaticMemberReplaced():
            return LogEntry(ms, "member replaced", member_ids=frozenset({event.old_member_id}))
        case _:
            return _entry_of_consumer_group(ms, event)


def _entry_of_consumer_group(ms: int, event: line_events.LineEvent) -> LogEntry | None:
    match event:
        case line_events.EpochBumped():
            return LogEntry(ms, "epoch bumped", event.epoch)
        case line_events.TargetComputed():
            return LogEntry(ms, "target computed", event.epoch, event.assignor)
        case line_events.MemberFencedOut():
            kind = "member expired" if event.is_expiry else "member fenced"
            return LogEntry(ms, kind, member_ids=frozenset({event.member_id}))
        case line_events.StaticMemberAway():
            return LogEntry(ms, "static member away", member_ids=frozenset({event.member_id}))
        case line_events.GroupConverted():
            return LogEntry(ms, _CONVERTED, cause=f"to {event.to_protocol}")
        case _:
            return None


def _prepared(time_ms: int, event: line_events.RebalancePrepared) -> LogEntry:
    cause = _TRIGGERS.get(event.trigger, event.reason)
    return LogEntry(time_ms, "rebalance starts", event.old_generation_id, cause, frozenset(event.member_ids))


def entry_of_history(record: History, *, in_consumer_group: bool) -> LogEntry | None:
    """Return the broker's log entry for a history record; None if it writes none."""
    match record:
        case RebalanceStarted():
            is_told = not in_consumer_group and record.trigger != "not_known"
            return _started(record) if is_told else None
        case JoinPhaseCompleted():
            return LogEntry(record.time_ms, "join phase ends", record.generation_id, count=len(record.members))
        case GroupEmpty():
            return None if in_consumer_group else LogEntry(record.time_ms, EMPTY, record.generation_id)
        case AssignmentReceived():
            member_ids = frozenset({record.leader_id})
            return LogEntry(
                record.time_ms,
                "assignment received",
                record.generation_id,
                member_ids=member_ids,
                count=len(record.assignments),
            )
        case MemberExpired():
            return LogEntry(record.time_ms, "member expired", member_ids=frozenset({record.member.member_id}))
        case MemberLeft():
            return LogEntry(record.time_ms, "member left", member_ids=frozenset({record.member.member_id}))
        case MemberReplaced():
            return LogEntry(record.time_ms, "member replaced", member_ids=frozenset({record.old_member_id}))
        case _:
            return _entry_of_epochs(record, in_consumer_group=in_consumer_group)


def _entry_of_epochs(record: History, *, in_consumer_group: bool) -> LogEntry | None:
    """What a broker tells of groups that count epochs, and of conversions."""
    match record:
        case GroupConverted():
            return LogEntry(record.time_ms, _CONVERTED, cause=f"to {record.to_protocol}")
        case GroupEpochBumped() if record.reasons != ("converted",):
            return LogEntry(record.time_ms, "epoch bumped", record.generation_id)
        case TargetAssignmentComputed() if record.assignor is not None:
            return LogEntry(record.time_ms, "target computed", record.assignment_epoch, record.assignor)
        case MemberDropped() if in_consumer_group:
            return LogEntry(record.time_ms, "member fenced", member_ids=frozenset({record.member.member_id}))
        case ConsumerMemberAway():
            return LogEntry(record.time_ms, "static member away", member_ids=frozenset({record.member.member_id}))
        case _:
            return None


def _started(record: RebalanceStarted) -> LogEntry:
    cause = _TRIGGERS[record.trigger]
    is_named = record.member is not None and cause not in _CAUSED_BY_SEVERAL
    member_ids = frozenset({record.member.member_id}) if is_named and record.member is not None else frozenset()
    return LogEntry(record.time_ms, "rebalance starts", record.generation_id, cause, member_ids)
