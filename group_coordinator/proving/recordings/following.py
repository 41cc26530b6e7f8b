"""The log of one broker is replayed group by group: the inputs of each group, and how far they are known.

This is what `verify` compares, and what an import writes as events: one way for both. Where a replay has lost what a
group is, it goes on at the next join phase that the log tells completely; what lies between is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from group_coordinator.proving.recordings.begun_before import Beginning, beginning_after, begun_before
from group_coordinator.proving.recordings.broker_settings import BrokerSettings, Setting, settings_of
from group_coordinator.proving.recordings.broker_versions import shown_version
from group_coordinator.proving.recordings.consumer_group_settings import Interruptions
from group_coordinator.proving.recordings.coordinator_log import CoordinatorLogs, LogEntry
from group_coordinator.proving.recordings.coverage import covered_of, ends_of, whole_records
from group_coordinator.proving.recordings.expectations import Covered, Disagreement, Expected, Fact, Load
from group_coordinator.proving.recordings.group_facts import facts_between, facts_of, with_starts
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.loads import Places, loads_of, waited_for_move, with_restarts, without_stale
from group_coordinator.proving.recordings.never_stored import (
    NEVER_STORED,
    is_undone,
    kept_entries,
    with_undone,
    with_unstored,
)
from group_coordinator.proving.recordings.offsets_log import LoggedRecord, OffsetsLog, topic_ids_of
from group_coordinator.proving.recordings.order_search import GroupResult, OrderSearch
from group_coordinator.proving.recordings.recorded_groups import expected_of, steps_of
from group_coordinator.proving.recordings.replay_state import START, GroupInput
from group_coordinator.proving.recordings.transaction_ends import TransactionEnd, ends_for, with_markers
from group_coordinator.watching.observed.offsets_log import TransactionMarker
from schemas.recorded import RecordingGap

EDGE_MS = 100
"""What the broker wrote up to this much before the first line, or after the last, may belong to the log."""
NOT_UNDERSTOOD = "cannot be understood, see above"
BEFORE = "of groups that lived before the log began, before a join phase told all their members"
LOST = "of groups that could not be followed any more, until a join phase told all their members"
OLDER = "the group is older than the recording"
ANOTHER = "the recording says what cannot follow from what it said before"

_Timed = TypeVar("_Timed", LoggedRecord, LogEntry)


class Part(Struct, kw_only=True):
    """A part of a group's log that can be followed from its beginning to its end."""

    beginning: Beginning | None
    """None: the group was born in it."""
    expected: Expected
    result: GroupResult
    inputs: list[GroupInput]
    gap: RecordingGap | None = None
    """What follows is not known."""
    gap_from_ms: int = 0


class FollowedGroup(Struct, kw_only=True):
    """One group."""

    group_id: str
    requests: Sequence[GroupRequest]
    """All that reached it, in the order of arrival."""
    parts: list[Part] = field(default_factory=list)
    """None: nothing of its membership is known."""
    not_compared: dict[str, int] = field(default_factory=dict)
    """Why -> how many requests."""
    from_ms: int = 0
    """When the log begins."""

    def inputs(self) -> Iterator[GroupInput]:
        """Yield all inputs of the group, in order. With these it does the same wherever it is replayed."""
        if not self.parts or self.parts[0].beginning is not None:
            yield GroupInput(self.from_ms, RecordingGap(reason=OLDER))
        for part in self.parts:
            yield from part.inputs
            if part.gap is not None:
                yield GroupInput(part.gap_from_ms, part.gap)

    @property
    def compared(self) -> int:
        """The number of requests that were compared."""
        return len(self.requests) - sum(self.not_compared.values())

    @property
    def differing(self) -> list[Disagreement]:
        """The answers that differ, each once."""
        disagreements = (
            disagreement
            for part in self.parts
            for disagreement in part.result.disagreements
            if disagreement.kind in ("answer", "time")
        )
        return list({difference.about: difference for difference in disagreements}.values())


class Following(Struct, kw_only=True):
    """A log that was followed."""

    settings: BrokerSettings
    groups: list[FollowedGroup]
    set_aside: dict[str, int]
    """Requests that no group ever saw: why -> how many."""
    end_ms: int | None = None
    """When the log ends; None: there is nothing in it."""
    covered: Covered = Covered()
    """Of which time the other sources tell."""

    @property
    def is_anything_known(self) -> bool:
        """True if at least one group is known."""
        return any(group.parts for group in self.groups)


def follow(
    log: RequestLog,
    given_settings: Mapping[str, Setting],
    records: Mapping[str, list[LoggedRecord]] | None = None,
    logs: CoordinatorLogs | None = None,
    markers: Sequence[TransactionMarker] = (),
    compacted_until_ms: Mapping[int, int] | None = None,
) -> Following:
    """Follow a log that was read. `given_settings`: of the brokers, by our names; the others are inferred.

    `records` of the offsets log, by group, and what the brokers' `logs` tell are compared too. `markers`: the ends of
    transactions in the offsets log. `compacted_until_ms`: until when its partitions have not all records. Raises
    ValueError.
    """
    log.contents.has_transaction_ends = log.contents.has_transaction_ends or bool(markers)
    set_aside: dict[str, int] = {}
    shown = shown_version(None if logs is None else logs.version, log.contents.version, records or {})
    all_requests = _groups(log, records or {}, set_aside, shown is None or shown[0].names_topic_ids)
    places = Places([request for requests in all_requests.values() for request in requests])
    all_requests = without_stale(all_requests, places)
    loads = log.contents.loads = _loads(all_requests, logs, _standstills_ms(log))
    groups = {
        group_id: group_requests
        for group_id, requests in all_requests.items()
        if (group_requests := _reached(requests, loads[group_id], set_aside))
    }
    told_settings = None if logs is None else logs.settings
    interruptions = Interruptions(loads, _standstills_ms(log))
    settings = settings_of(given_settings, groups, dict(records or {}), told_settings, shown, interruptions)
    entries = None if logs is None else logs.entries
    covered = covered_of(groups, records or {}, logs)
    follower = _Follower(log, settings, records, entries, loads, covered)
    follower.ends_ms = ends_of(log, groups, logs)
    follower.ends, follower.compacted_until_ms = with_markers(follower.ends, markers), compacted_until_ms or {}
    return Following(
        settings=settings,
        groups=[follower.follow(group_id, requests) for group_id, requests in groups.items()],
        set_aside=set_aside,
        end_ms=None if log.end_us is None else log.end_us // 1000,
        covered=covered,
    )


def moments_us(offsets: OffsetsLog | None, logs: CoordinatorLogs | None) -> list[int]:
    """Return when something happened by what lies beside request logs, in order."""
    records = () if offsets is None else offsets.by_group.values()
    entries = () if logs is None else logs.entries.values()
    moments_ms = {record.timestamp_ms for of_group in records for record in of_group}
    moments_ms |= {entry.time_ms for of_group in entries for entry in of_group}
    return sorted(moment_ms * 1000 for moment_ms in moments_ms)


def _groups(
    log: RequestLog, records: Mapping[str, list[LoggedRecord]], set_aside: dict[str, int], of_names: bool
) -> dict[str, list[GroupRequest]]:
    """The requests of each group, in the order of arrival."""
    topic_ids: dict[str, str] = {}
    for of_group in records.values():
        topic_ids |= topic_ids_of(of_group)
    groups: dict[str, list[GroupRequest]] = {}
    refused_before = log.counts.damaged_lines
    for request in log.group_requests(log.topic_ids(topic_ids, of_names=of_names)):
        groups.setdefault(request.group_id, []).append(request)
    if refused := log.counts.damaged_lines - refused_before:
        set_aside[NOT_UNDERSTOOD] = refused
    return groups


def _loads(
    groups: Mapping[str, list[GroupRequest]], logs: CoordinatorLogs | None, standstills_ms: Sequence[tuple[int, int]]
) -> dict[str, list[Load]]:
    places = Places([request for requests in groups.values() for request in requests])
    moves = {} if logs is None else logs.moves
    loads = {group_id: loads_of(requests, moves.get(group_id, ()), places) for group_id, requests in groups.items()}
    loads = with_restarts(groups, loads, places)
    loads = with_undone(groups, loads, {} if logs is None else logs.entries, standstills_ms, places)
    return with_unstored(groups, loads)


def _reached(requests: Sequence[GroupRequest], loads: Sequence[Load], set_aside: dict[str, int]) -> list[GroupRequest]:
    """Those that reached the group; the others are counted."""
    requests_reached = []
    for request in requests:
        reason = request.set_aside
        if reason is not None and waited_for_move(request, loads):
            reason = None
        elif reason is None and is_undone(request, loads):
            reason = NEVER_STORED
        if reason is None:
            requests_reached.append(request)
        else:
            set_aside[reason] = set_aside.get(reason, 0) + 1
    return requests_reached


def _standstills_ms(log: RequestLog) -> list[tuple[int, int]]:
    return [
        (standstill.from_us // 1000, standstill.until_us // 1000)
        for clock in log.clocks
        for standstill in clock.standstills
    ]


class _Follower:
    """Follows the groups of one log."""

    def __init__(
        self,
        log: RequestLog,
        settings: BrokerSettings,
        records: Mapping[str, list[LoggedRecord]] | None,
        entries: Mapping[str, list[LogEntry]] | None,
        loads: Mapping[str, list[Load]],
        covered: Covered,
    ) -> None:
        self._covered = covered
        self.compacted_until_ms: Mapping[int, int] = {}
        self._loads, self._protocols = loads, log.contents.protocols
        self._config, self._partitions = settings.config, settings.partitions
        self.ends, self._cluster = log.transaction_ends(), log.cluster
        self._records, self._entries = records, entries
        self._standstills_ms = _standstills_ms(log)
        self._is_session_timeout_known = settings.is_session_timeout_known
        self._start_us, self._end_ms = log.start_us or 0, (log.end_us or 0) // 1000
        self.ends_ms: Mapping[str, tuple[int, str]] = {}

    def follow(self, group_id: str, requests: list[GroupRequest]) -> FollowedGroup:
        """Follow one group, part after part."""
        began_us = min(self._start_us, requests[0].logged.arrival_us)
        followed = FollowedGroup(group_id=group_id, requests=requests, from_ms=began_us // 1000)
        after_us, reason = 0, BEFORE
        end_ms, ended = self.ends_ms.get(group_id, (self._end_ms, ""))
        for stretch in (*self._protocols.stretches(group_id), None):
            until_us = end_ms * 1000 if stretch is None else stretch.from_us
            stretch_requests = [
                request
                for request in requests
                if after_us <= request.logged.handled_us
                and (request.logged.handled_us < until_us or (stretch is None and not ended))
            ]
            self._follow_classic(followed, stretch_requests, after_us, until_us // 1000, reason)
            if stretch is not None:
                if followed.parts and followed.parts[-1].gap is None:
                    followed.parts[-1].gap = RecordingGap(
                        reason=f"the group is a {stretch.kind}, which is not decided here"
                    )
                    followed.parts[-1].gap_from_ms = until_us // 1000
                after_us, reason = stretch.until_us, stretch.why
        if ended and followed.parts and followed.parts[-1].gap is None:
            followed.parts[-1].gap, followed.parts[-1].gap_from_ms = RecordingGap(reason=ended), end_ms
        return followed

    def _follow_classic(
        self, followed: FollowedGroup, requests: list[GroupRequest], after_us: int, until_ms: int, reason: str
    ) -> None:
        """Follow a group while it is classic. `after_us`: 0, or since when it may be so again, after `reason`."""
        records, beginning = (self._records or {}).get(followed.group_id, ()), None
        requests_left, gave_up = requests, 0
        if not requests:
            return
        if after_us or begun_before(requests, self._config.kafka_version.first_epoch + 1):
            beginning = beginning_after(after_us, requests, records)
            requests_left = _known_from(beginning, requests, followed, reason)
            if beginning is None:
                return
        while True:
            part, requests_left = self._part(followed, beginning, requests_left, until_ms, gave_up)
            followed.parts.append(part)
            if part.gap is None:
                return
            gave_up = part.result.gave_up
            after_us = part.gap_from_ms * 1000 if beginning is None else max(part.gap_from_ms * 1000, beginning.from_us)
            beginning = beginning_after(after_us, requests, records)
            requests_left = _known_from(beginning, requests_left, followed, LOST)
            if beginning is None:
                return

    def _part(
        self,
        followed: FollowedGroup,
        beginning: Beginning | None,
        requests: Sequence[GroupRequest],
        until_ms: int,
        gave_up: int,
    ) -> tuple[Part, list[GroupRequest]]:
        """One part, and the requests that came after it was lost."""
        group_id, start, from_us = followed.group_id, START, self._start_us - EDGE_MS * 1000
        if beginning is not None:
            start, from_us = beginning.state(group_id, self._config), beginning.from_us
        entries = self._since(from_us, None if self._entries is None else self._entries.get(group_id), until_ms)
        if entries is not None:
            entries = kept_entries(entries, self._loads[group_id])
        if beginning is not None:
            entries = _after_join_phase(entries, beginning.group.generation_id)
        records = self._since(from_us, None if self._records is None else self._records.get(group_id), until_ms)
        compacted_ms = self.compacted_until_ms.get(records[0].partition, 0) if records else 0
        records, since_ms = (records, 0) if not compacted_ms else whole_records(records or [], compacted_ms)
        loads = [load for load in self._loads[group_id] if from_us < load.from_us <= until_ms * 1000]
        ends = ends_for(followed.requests, self.ends, group_id, self._partitions)
        all_facts = with_starts(self._facts(followed, ends), followed.requests, self._loads[group_id])
        facts = facts_between(all_facts, from_us, until_ms * 1000)
        covered = replace(self._covered, records_since_ms=since_ms)
        expected = expected_of(requests, records, entries, loads, facts, self._standstills_ms, covered)
        expected.is_session_timeout_known = self._is_session_timeout_known
        search = OrderSearch(group_id, self._config, expected, steps_of(requests, entries), until_ms, start, gave_up)
        result, expected = search.run(), search.expected
        doubt = result.track.doubt
        inputs = result.inputs
        if beginning is not None:
            inputs.insert(0, GroupInput(from_us // 1000, beginning.group))
        part = Part(beginning=beginning, expected=expected, result=result, inputs=inputs)
        if doubt is not None:
            part.gap = RecordingGap(reason=f"{ANOTHER} ({doubt[1].where})")
            part.gap_from_ms = max(doubt[0].time_ms, inputs[-1].clock_ms if inputs else followed.from_ms)
        taken_indexes = set(result.order)
        return part, [
            step.request for step in result.steps if step.index not in taken_indexes and step.inferred is None
        ]

    def _facts(self, followed: FollowedGroup, ends: Iterable[TransactionEnd]) -> list[Fact]:
        interval_ms = self._config.group_consumer_heartbeat_interval_ms
        return facts_of(followed.requests, self._cluster, ends, interval_ms)

    def _since(self, from_us: int, lines: list[_Timed] | None, until_ms: int) -> list[_Timed] | None:
        """Return what the broker wrote from a time on until another, or until the last line of the request log."""
        if lines is None:
            return None
        first_ms, last_ms = from_us // 1000, until_ms + (EDGE_MS if until_ms == self._end_ms else 0)
        return [line for line in lines if first_ms <= _time_ms(line) <= last_ms]


def _known_from(
    beginning: Beginning | None, requests: Sequence[GroupRequest], followed: FollowedGroup, reason: str
) -> list[GroupRequest]:
    """The requests from where the group is known on; the others are set aside, but for those that are known to
    differ."""
    known_requests = (
        [] if beginning is None else [request for request in requests if request.logged.handled_us >= beginning.from_us]
    )
    ids, differing = (
        {request.request_id for request in known_requests},
        {request.about for request in followed.differing},
    )
    set_aside_count = sum(
        request.request_id not in ids and f"answer:{request.request_id}" not in differing for request in requests
    )
    if set_aside_count:
        followed.not_compared[reason] = followed.not_compared.get(reason, 0) + set_aside_count
    return known_requests


def _after_join_phase(entries: list[LogEntry] | None, generation: int) -> list[LogEntry] | None:
    """The entries after the end of the join phase with which a replay begins."""
    ends = [
        place
        for place, entry in enumerate(entries or ())
        if (entry.kind, entry.generation) == ("join phase ends", generation)
    ]
    return entries[ends[0] + 1 :] if entries is not None and ends else entries


def _time_ms(entry: LoggedRecord | LogEntry) -> int:
    return entry.timestamp_ms if isinstance(entry, LoggedRecord) else entry.time_ms
