"""Scores of what is told of a recorded cluster by any set of its sources, held against polls, members and the driver.

    .venv/bin/python -m tests.watching.observed.scores [RECORDING...]

prints a line for each recording and set of sources. A source is `requests` (request logs), `dump` (the offsets topic)
or `logs` (server logs). Where one of the logs has a moment or a cause, that is the truth, whichever sources are scored.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from functools import cache
from itertools import pairwise
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from group_coordinator.proving.commands.replay_source import replay_source, watched_source
from group_coordinator.proving.recordings.broker_settings import RULES
from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.watching.broker_logs.broker_lines import MemberDeparted, MemberFailed, MemberFencedOut
from group_coordinator.watching.observed.offsets_log import LogRecord
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import AnyRow, Commit, Expiry, Member, Ownership
from schemas.consumer_group_history import GroupConverted
from schemas.history import AssignmentReceived, History, MemberExpired, MemberLeft, RecordingGap, decode_history
from schemas.messages import OffsetCommitRequest
from schemas.observed_history import MemberGone
from streaming.config import StreamingConfig
from streaming.replay import replay_in_process
from tests.watching.observed.members_words import Spans, length_ms, overlap, said_ownership
from tests.watching.observed.recorded import (
    CLUSTERS,
    NAMES,
    Span,
    driver_s_name,
    entries,
    is_undone,
    is_within,
    lines,
    owners_among,
    owners_not_known,
    polls,
    quiet_polls,
    truth,
)
from tests.watching.observed.recorded import files as recorded_files

REQUESTS, DUMP, LOGS = "requests", "dump", "logs"
Sources = frozenset[str]
_FOREVER = 2**62
ALL_SOURCES = [
    frozenset({REQUESTS}),
    frozenset({DUMP}),
    frozenset({DUMP, LOGS}),
    frozenset({REQUESTS, LOGS}),
    frozenset({REQUESTS, DUMP}),
    frozenset({REQUESTS, DUMP, LOGS}),
]
NEAR_MS = 15_000
"""So far from its line a departure may be told: a standstill of a machine lies between."""


class Scores(Struct, kw_only=True):
    """Of one recording by one set of sources: the fewer, the better, but for what is `checked` or `right`."""

    polls_checked: int = 0
    polls_wrong: int = 0
    """Polls of stable groups with other owners than are told."""
    polls_not_known: int = 0
    """Polls with owners of whom it is told that they are not known: they are not checked."""
    commits_checked: int = 0
    commits_wrong: int = 0
    commits_not_known: int = 0
    generations_checked: int = 0
    generations_wrong: int = 0
    """Generations whose owners are not those of the offsets log."""
    claimed_ms: int = 0
    """Partition-milliseconds for which an owner is told that says it owned nothing there."""
    missing_ms: int = 0
    """The same for which a member says that it owned what nobody, or another one, is told to."""
    departures: int = 0
    """Lines of brokers that tell of a departure."""
    not_known: int = 0
    """Of those: told as left or expired, not known which."""
    missed: int = 0
    """Of those: not told at all, but for what a load undid."""
    invented: int = 0
    """Departures that are told with a cause which the broker's log does not have."""
    early_or_late_ms: int = 0
    """By how much in all departures are told at other times than in the broker's log."""


@cache
def scores(name: str, sources: Sources) -> Scores:
    """Return the scores of a recording by some of its sources."""
    result, rows = Scores(), _rows(name, sources)
    gaps = gaps_of(name, sources)
    _score_polls(result, name, rows, owners_not_known(history(name, sources)))
    _score_commits(result, name, rows, gaps, may_be_compacted=REQUESTS not in sources and is_compacted(name))
    _score_generations(result, name, sources)
    _score_ownership(result, name, rows)
    _score_departures(result, name, sources)
    return result


@cache
def history(name: str, sources: Sources) -> tuple[History, ...]:
    """Return the history that `replay` makes of these sources."""
    files = [*map(str, recorded_files(name, "request.log.gz"))] if REQUESTS in sources else []
    files += [str(CLUSTERS / f"{name}.offsets.jsonl.gz")] if DUMP in sources else []
    logs = [*map(str, recorded_files(name, "server.log.gz"))] if LOGS in sources else []
    watched = watched_source(files, logs, None, UTC, UTC)
    if watched is not None:
        assert watched.history is not None
        return watched.history
    config = StreamingConfig()
    with tempfile.TemporaryDirectory() as scratch:
        source = replay_source(files, logs, Path(scratch), None, UTC, {}, UTC)
        assert source.followed is not None
        rules = {"rules_at_first": source.settings.get(RULES, config.rules_at_first)}
        groups = replay_in_process(EventsImport(source.followed), config.changed(**{**source.settings, **rules}))
        told = tuple(
            decode_history(record.value)
            for _, records in groups
            for record in records
            if record.topic == config.topics.history and record.value is not None
        )
    return (*told, *source.told_by_records)


@cache
def _rows(name: str, sources: Sources) -> tuple[AnyRow, ...]:
    return tuple(fold(history(name, sources)))


# -------------------------------------------------------------------------------------------------------------- polls


@cache
def gaps_of(name: str, sources: Sources) -> defaultdict[str, list[Span]]:
    """Return by group when it is told that nothing is known of it. A group that nothing is told of is not known."""
    gaps: defaultdict[str, list[Span]] = defaultdict(lambda: [(0, _FOREVER)])
    for record in history(name, sources):
        if record.group_id not in gaps:
            gaps[record.group_id] = []
        of_group = gaps[record.group_id]
        if of_group and of_group[-1][1] == _FOREVER:
            of_group[-1] = (of_group[-1][0], record.timestamp_ms)
        if isinstance(record, RecordingGap):
            of_group.append((record.timestamp_ms, _FOREVER))
    return gaps


def _score_polls(result: Scores, name: str, rows: Sequence[AnyRow], not_known: Mapping[str, Sequence[Span]]) -> None:
    owned = [row for row in rows if isinstance(row, Ownership)]
    for poll in quiet_polls(name):
        if poll.group["protocol_type"] != "connect":
            told = owners_among(owned, poll.group_id, poll.at_ms)
            is_not_known = told < poll.owners and is_within(poll.at_ms, not_known[poll.group_id])
            result.polls_checked += not is_not_known
            result.polls_not_known += is_not_known
            result.polls_wrong += told != poll.owners and not is_not_known


@cache
def is_compacted(name: str) -> bool:
    """Return whether records are missing between others of the dump: what they said is not known."""
    places = sorted({(entry.partition, entry.offset) for entry in entries(name)})
    return any(one[0] == other[0] and one[1] + 1 < other[1] for one, other in pairwise(places))


def _score_commits(
    result: Scores, name: str, rows: Sequence[AnyRow], gaps: Mapping[str, Sequence[Span]], *, may_be_compacted: bool
) -> None:
    changes: defaultdict[tuple[str, str], list[tuple[int, int | None]]] = defaultdict(list)
    for row in rows:
        if isinstance(row, Commit):
            changes[row.group_id, f"{row.topic}-{row.partition}"].append((row.committed_ms, row.offset))
        elif isinstance(row, Expiry) and row.kind == "offset":
            changes[row.group_id, f"{row.topic}-{row.partition}"].append((row.expired_ms, None))
    for poll in polls(name):
        for place, offset in poll.group.get("offsets", {}).items():
            of_place = sorted(changes[poll.group_id, place], key=lambda change: change[0])
            before = [told for time_ms, told in of_place if time_ms <= poll.at_ms][-1:] or [None]
            during = [told for time_ms, told in of_place if poll.at_ms <= time_ms <= poll.until_ms]
            if before == [None] and (may_be_compacted or is_within(poll.at_ms, gaps[poll.group_id])):
                result.commits_not_known += 1
                continue
            result.commits_checked += 1
            out_of_sight = before[0] in _not_in_sight(name).get((poll.group_id, place), _OutOfSight()).at(poll.at_ms)
            result.commits_wrong += offset not in (*before, *during) and not out_of_sight


class _OutOfSight(Struct):
    """Commits of one partition that replicas did not have: the broker took them, and shows the offset before."""

    spans: list[tuple[int, int, int]] = []
    """From when until when, and the offset."""

    def at(self, time_ms: int) -> set[int]:
        """Return the offsets that were committed, and not to be seen, at a time."""
        return {offset for from_ms, until_ms, offset in self.spans if from_ms <= time_ms <= until_ms}


@cache
def _not_in_sight(name: str) -> dict[tuple[str, str], _OutOfSight]:
    """Return by group and partition which commits were out of sight, as the answers to them show: until the broker
    answered, or, where it answered that replicas did not follow in time, until the next commit."""
    log = RequestLog(recorded_files(name, "request.log.gz"))
    log.read()
    commits: defaultdict[tuple[str, str], list[tuple[int, int | None, int]]] = defaultdict(list)
    for request in log.group_requests(log.topic_ids({}, of_names=True)):
        if isinstance(request.request, OffsetCommitRequest) and request.set_aside is None:
            until_ms = None if request.write_timed_out else request.logged.ready_us // 1000
            for topic in request.request.topics:
                for partition in topic.partitions:
                    place = (request.group_id, f"{topic.name}-{partition.partition_index}")
                    commits[place].append((request.logged.arrival_us // 1000, until_ms, partition.committed_offset))
    spans: dict[tuple[str, str], _OutOfSight] = {}
    for place, of_place in commits.items():
        of_place.sort()
        ends = [until_ms for _, until_ms, _ in of_place if until_ms is not None]
        spans[place] = _OutOfSight([
            (from_ms, next((end for end in ends if end > from_ms), 2**62) if until_ms is None else until_ms, offset)
            for from_ms, until_ms, offset in of_place
        ])  # fmt: skip
    return spans


def _score_generations(result: Scores, name: str, sources: Sources) -> None:
    """Hold owners of each generation against those that lie in the offsets log: a static member that is back writes the
    same generation again, and a group may be born twice."""
    told = _assignments(name, sources)
    for generation, stored in _assignments(name, frozenset({DUMP})).items():
        if generation in _stored_generations(name):
            result.generations_checked += 1
            result.generations_wrong += not any(owners in told.get(generation, ()) for owners in stored)


@cache
def _assignments(name: str, sources: Sources) -> dict[tuple[str, int], list[object]]:
    """Group and generation -> what its members got, each time that there was one of the number. A group that becomes
    classic keeps what its members own: nobody assigns it."""
    told: dict[tuple[str, int], list[object]] = {}
    owned = [row for row in _rows(name, sources) if isinstance(row, Ownership)]
    for record in history(name, sources):
        owners: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        if isinstance(record, AssignmentReceived):
            for each in record.assignments:
                for topic in each.topics or ():
                    owners[each.member_id] |= {(topic.topic, partition) for partition in topic.partitions}
        elif isinstance(record, GroupConverted) and record.to_protocol == "classic":
            at_ms = record.timestamp_ms
            for row in owned:
                is_there = row.from_ms <= at_ms and (row.to_ms is None or row.to_ms > at_ms)
                if row.group_id == record.group_id and is_there:
                    owners[row.member_id].add((row.topic, row.partition))
        else:
            continue
        told.setdefault((record.group_id, record.generation_id), []).append(dict(owners))
    return told


@cache
def _stored_generations(name: str) -> frozenset[tuple[str, int]]:
    return frozenset(
        (record.group_id, int(str(record.value["generation"])))
        for record in entries(name)
        if isinstance(record, LogRecord) and record.name == "GroupMetadata" and record.value and record.value["members"]
    )


# ---------------------------------------------------------------------------------------------------------- ownership


def _score_ownership(result: Scores, name: str, rows: Sequence[AnyRow]) -> None:
    """Compare the table of ownership with what members said of themselves, where they could know it."""
    end_ms = truth(name)[-1]["at_ms"]
    clients = {row.member_id: row.client_id or "" for row in rows if isinstance(row, Member)}
    members = (member for poll in polls(name) for member in poll.group.get("members", ()))
    clients |= {member["member_id"]: member["client_id"] for member in members}
    told: Spans = defaultdict(list)
    for row in rows:
        if isinstance(row, Ownership):
            client_id = driver_s_name(row.client_id or clients.get(row.member_id, ""))
            until_ms = end_ms if row.to_ms is None else min(row.to_ms, end_ms)
            told[row.group_id, client_id, f"{row.topic}-{row.partition}"].append((row.from_ms, until_ms))
    said, known = said_ownership(name, end_ms)
    for group_id, client_id, place in told.keys() | said.keys():
        spans_known = known.get((group_id, client_id), [])
        ours = overlap(told.get((group_id, client_id, place), []), spans_known)
        theirs = overlap(said.get((group_id, client_id, place), []), spans_known)
        both_ms = length_ms(overlap(ours, theirs))
        result.claimed_ms += length_ms(ours) - both_ms
        result.missing_ms += length_ms(theirs) - both_ms


# ------------------------------------------------------------------------------------------------------------- causes

Departure = tuple[str, str]
"""Group and member id."""


def _score_departures(result: Scores, name: str, sources: Sources) -> None:
    """Compare departures with the lines of the brokers' logs. A member departs once for each line."""
    expected = _told_by_brokers(name)
    for record in history(name, sources):
        if not isinstance(record, MemberLeft | MemberExpired | MemberGone):
            continue
        of_member = expected.get((record.group_id, record.member.member_id), [])
        kind = "left" if isinstance(record, MemberLeft) else "expired"
        is_known = not isinstance(record, MemberGone) and record.cause.certainty != "not_known"
        near = sorted(
            (abs(record.timestamp_ms - time_ms), time_ms, its_kind)
            for time_ms, its_kind in of_member
            if (its_kind == kind or not is_known) and abs(record.timestamp_ms - time_ms) <= NEAR_MS
        )
        if near:
            of_member.remove(near[0][1:])
            result.departures += 1
            result.not_known += not is_known
            result.early_or_late_ms += near[0][0]
        elif is_known:
            result.invented += 1
    left_over = sum(
        not is_undone(name, *departure, time_ms) for departure, lines_of in expected.items() for time_ms, _ in lines_of
    )
    result.departures += left_over
    result.missed += left_over


def _told_by_brokers(name: str) -> dict[Departure, list[tuple[int, str]]]:
    told: dict[Departure, list[tuple[int, str]]] = {}
    for line in lines(name):
        match line.event:
            case (MemberDeparted() | MemberFailed() | MemberFencedOut()) as event:
                if not isinstance(event, MemberFencedOut) or event.is_expiry:
                    kind = "left" if isinstance(event, MemberDeparted) else "expired"
                    told.setdefault((event.group_id, event.member_id), []).append((line.time_ms, kind))
            case _:
                pass
    return told


# ------------------------------------------------------------------------------------------------------------ printing


def _table(names: Sequence[str]) -> Iterator[str]:
    columns = list(Scores.__struct_fields__)
    yield f"{'recording':<20}{'sources':<20}" + "".join(f"{column[:13]:>14}" for column in columns)
    for name in names:
        for sources in ALL_SOURCES:
            label = "+".join(source for source in (REQUESTS, DUMP, LOGS) if source in sources)
            try:
                values = asdict(scores(name, sources)).values()
            except KeyError as problem:
                yield f"{name:<20}{label:<20} {problem!r}"
                continue
            yield f"{name:<20}{label:<20}" + "".join(f"{value:>14,}" for value in values)


if __name__ == "__main__":
    for text in _table(sys.argv[1:] or NAMES):
        print(text, flush=True)
