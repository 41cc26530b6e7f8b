"""Recordings of whole clusters: the evidence, and the two truths that it is held to, polls and what members said."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, GroupLoaded
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.observed.cluster import Observed, observe
from group_coordinator.watching.observed.offsets_log import Entry, LogRecord, OffsetsDump, read_raw
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import AnyRow, Commit, Expiry, Member, Ownership, Rebalance
from schemas.consumer_group_history import TargetAssignmentComputed
from schemas.history import (
    AssignmentReceived,
    GroupDead,
    GroupEmpty,
    GroupRecorded,
    History,
    OffsetsCommitted,
    RecordingGap,
)
from schemas.observed_history import GroupRestored, OwnershipNotKnown

CLUSTERS = Path(__file__).parents[2] / "fixtures" / "clusters"
NAMES = sorted(path.name.removesuffix(".offsets.jsonl.gz") for path in CLUSTERS.glob("*.offsets.jsonl.gz"))
NEAR_MS = 1_500
"""So near to a change a poll may show what was before or after it."""
_ACTIVE_TASKS = re.compile(r"activeTasks=([\d_,]*),")
_TELLS_OWNERS = (
    AssignmentReceived, GroupRecorded, GroupRestored, GroupEmpty, GroupDead, TargetAssignmentComputed
)  # fmt: skip
_FOREVER = 2**62
Span = tuple[int, int]
_OWNERSHIP_EVENTS = ("assigned", "revoked", "lost", "owned", "tasks")


class Poll(NamedTuple):
    """One group at one poll."""

    at_ms: int
    until_ms: int
    group: dict[str, Any]

    @property
    def group_id(self) -> str:
        return str(self.group["group"])

    @property
    def owners(self) -> set[tuple[str, str]]:
        """Partitions, or active tasks, and member ids."""
        members = self.group.get("members", ())
        return {(place, member["member_id"]) for member in members for place in _places(member["assignment"])}


def _places(assignment: list[str] | str) -> list[str]:
    """Return partitions or active tasks. Some recordings have tasks as Java prints them."""
    if not isinstance(assignment, str):
        return assignment
    active = _ACTIVE_TASKS.search(assignment)
    tasks = [] if active is None else [task for task in active[1].split(",") if task]
    return [f"subtopology {task.replace('_', '-')}" for task in tasks]


def driver_s_name(client_id: str) -> str:
    """Return the name of a member in the story: in Kafka Streams each thread is a client."""
    return client_id.removesuffix("-StreamThread-1-consumer")


def files(name: str, suffix: str) -> list[Path]:
    """Return the files of a recording, such as those of `server.log.gz`; a name may be a path to another place."""
    stem = CLUSTERS / name
    return sorted(stem.parent.glob(f"{stem.name}.*{suffix}"))


@cache
def entries(name: str) -> tuple[Entry, ...]:
    dump = OffsetsDump[Entry]()
    dump.read_file(CLUSTERS / f"{name}.offsets.jsonl.gz", read_raw)
    assert list(dump.doubts()) == []
    return tuple(dump.entries())


@cache
def lines(name: str) -> tuple[BrokerLine, ...]:
    log = BrokerLog(UTC)
    for path in files(name, "server.log.gz"):
        log.read_file(path)
    assert log.left_out == 0
    return tuple(log.lines)


@cache
def observed(name: str, *, with_logs: bool) -> Observed:
    return observe(entries(name), lines(name) if with_logs else (), {})


@cache
def rows(name: str, *, with_logs: bool) -> tuple[AnyRow, ...]:
    return tuple(fold(observed(name, with_logs=with_logs).history))


def rebalances(name: str, *, with_logs: bool) -> list[Rebalance]:
    return [row for row in rows(name, with_logs=with_logs) if isinstance(row, Rebalance)]


@cache
def polls(name: str) -> tuple[Poll, ...]:
    with gzip.open(CLUSTERS / f"{name}.admin.jsonl.gz") as file:
        answers = [json.loads(line) for line in file]
    return tuple(
        Poll(answer["at_ms"], answer["until_ms"], group) for answer in answers for group in answer.get("groups", ())
    )


@cache
def truth(name: str) -> tuple[dict[str, Any], ...]:
    with gzip.open(CLUSTERS / f"{name}.truth.jsonl.gz") as file:
        return tuple(json.loads(line) for line in file)


def quiet_polls(name: str) -> Iterator[Poll]:
    """Yield the polls at which a group is stable and nothing has just changed, or is about to."""
    changes = _changes(name)
    for poll in polls(name):
        if poll.group.get("state") == "Stable":
            near = range(poll.at_ms - NEAR_MS, poll.until_ms + NEAR_MS + 1)
            if not any(change_ms in near for change_ms in changes[poll.group_id]):
                yield poll


def _changes(name: str) -> defaultdict[str, list[int]]:
    """Return when owners changed in each group, by the polls and by what members said."""
    changes: defaultdict[str, list[int]] = defaultdict(list)
    group_of = {action["client_id"]: action["group"] for action in truth(name) if action["action"] == "start"}
    for action in truth(name):
        if action["action"] == "member" and action.get("event") in _OWNERSHIP_EVENTS:
            changes[group_of[action["member"]]].append(action["at_ms"])
    last: dict[str, Poll] = {}
    for poll in polls(name):
        before = last.get(poll.group_id)
        if before is not None and before.owners != poll.owners:
            changes[poll.group_id] += range(before.until_ms, poll.until_ms + 1, NEAR_MS)
        last[poll.group_id] = poll
    return changes


def owners_at(name: str, group_id: str, at_ms: int, *, with_logs: bool) -> set[tuple[str, str]]:
    """Return partitions and member ids, as the table of ownership has them."""
    return owners_among(rows(name, with_logs=with_logs), group_id, at_ms)


def owners_among(table: Iterable[AnyRow], group_id: str, at_ms: int) -> set[tuple[str, str]]:
    """Return the same of any rows."""
    return {
        (f"{row.topic}-{row.partition}", row.member_id)
        for row in table
        if isinstance(row, Ownership) and row.group_id == group_id
        if row.from_ms <= at_ms and (row.to_ms is None or row.to_ms > at_ms)
    }


def is_known_at(name: str, group_id: str, at_ms: int, *, with_logs: bool) -> bool:
    """Return whether it is told who owns what."""
    return not is_within(at_ms, owners_not_known(observed(name, with_logs=with_logs).history)[group_id])


def owners_not_known(history: Iterable[History]) -> defaultdict[str, list[Span]]:
    """Return by group when it is told that not all owners are known: before its first record that is left, from a gap
    on, and where no record has an assignment, each time until the next one."""
    spans: defaultdict[str, list[Span]] = defaultdict(lambda: [(0, _FOREVER)])
    begun: set[str] = set()
    for record in history:
        of_group = spans[record.group_id]
        is_open = of_group[-1][1] == _FOREVER
        match record:
            case OffsetsCommitted():
                continue
            case OwnershipNotKnown() | RecordingGap():
                if not is_open:
                    of_group.append((record.timestamp_ms, _FOREVER))
            case _ if is_open and (record.group_id not in begun or isinstance(record, _TELLS_OWNERS)):
                of_group[-1] = of_group[-1][0], record.timestamp_ms
        begun.add(record.group_id)
    return spans


def is_within(time_ms: int, spans: Iterable[Span]) -> bool:
    return any(from_ms <= time_ms <= until_ms for from_ms, until_ms in spans)


def members_at(name: str, group_id: str, at_ms: int) -> set[str]:
    """Return the members of the group, as the table of members has them."""
    return {
        row.member_id
        for row in rows(name, with_logs=True)
        if isinstance(row, Member) and row.group_id == group_id and row.joined_ms is not None
        if row.first_seen_ms <= at_ms and (row.ended_ms is None or row.ended_ms > at_ms)
    }


def epoch_at(name: str, group_id: str, at_ms: int) -> int:
    """Return the group's epoch."""
    epochs = [
        record.generation_id
        for record in observed(name, with_logs=True).history
        if record.group_id == group_id and record.timestamp_ms <= at_ms
    ]
    return epochs[-1] if epochs else 0


@cache
def offsets_over_time(name: str) -> dict[tuple[str, str], list[tuple[int, int | None]]]:
    """Return for each group and partition which offset stood from when on."""
    changes_by_place: dict[tuple[str, str], list[tuple[int, int | None]]] = defaultdict(list)
    for row in rows(name, with_logs=True):
        if isinstance(row, Commit):
            changes_by_place[row.group_id, f"{row.topic}-{row.partition}"].append((row.committed_ms, row.offset))
        elif isinstance(row, Expiry) and row.kind == "offset":
            changes_by_place[row.group_id, f"{row.topic}-{row.partition}"].append((row.expired_ms, None))
    return {place: sorted(changes, key=lambda change: change[0]) for place, changes in changes_by_place.items()}


def is_undone(name: str, group_id: str, member_id: str, time_ms: int) -> bool:
    """Return whether the group had the member again when it was loaded next: that it was gone was never stored, and
    to tell it or not is right."""
    loads = (line for line in lines(name) if isinstance(line.event, GroupLoaded) and line.event.group_id == group_id)
    load_ms = next((line.time_ms for line in loads if line.time_ms > time_ms), 0)
    stored: dict[str, bool] = {}
    for record in entries(name):
        if isinstance(record, LogRecord) and record.group_id == group_id and record.timestamp_ms < load_ms:
            if record.name == "GroupMetadata":
                stored = {member["member_id"]: True for member in (record.value or {}).get("members", ())}
            elif record.name == "ConsumerGroupMemberMetadata":
                stored[record.key["member_id"]] = record.value is not None
    return stored.get(member_id, False)
