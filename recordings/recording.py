"""`verify recording`: a broker's request log replayed, and every answer compared with the one that the broker gave.

With the broker's records of `__consumer_offsets` every record is compared too, with the log of its group coordinator
every rebalance, its cause and its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from recordings.begun_before import Beginning, beginning_of, begun_before
from recordings.broker_settings import BrokerSettings, parse_settings, settings_of
from recordings.coordinator_log import LogEntry, read_coordinator_log
from recordings.expectations import PUNCTUAL_MS, Disagreement, Step
from recordings.group_replay import START
from recordings.group_requests import GroupRequest
from recordings.kafka_request_log import DeadLetter, LogCounts, RequestLog
from recordings.offsets_log import LoggedRecord, OffsetsLog, read_offsets_log, topic_ids_of
from recordings.order_search import GroupResult, OrderSearch
from recordings.recorded_groups import expected_of, steps_of
from schemas.java_hash import group_partition

LETTERS_SHOWN = 10
EDGE_MS = 100
"""What the broker wrote up to this much before the first line, or after the last, may belong to the log."""
_WHAT = {"answer": "answer", "time": "time of an answer", "record": "offsets log", "log": "coordinator log"}

_Timed = TypeVar("_Timed", LoggedRecord, LogEntry)


class RecordingDifference(Struct, frozen=True, kw_only=True):
    """One thing that the broker had otherwise."""

    group_id: str
    what: str
    where: str
    broker: str
    here: str

    def lines(self) -> Iterator[str]:
        """For people: where, and both sides."""
        yield f"group {self.group_id}: {self.what}, {self.where}"
        yield f"  broker: {self.broker}"
        yield f"  here:   {self.here}"


class Compared(Struct):
    """How many things of one kind were compared."""

    total: int = 0
    differ: int = 0

    @property
    def equal(self) -> int:
        return self.total - self.differ


class RecordingReport(Struct, kw_only=True):
    """What a verification found. `lines` is all of it for people, the summary last."""

    counts: LogCounts
    groups: int = 0
    requests: Compared = field(default_factory=Compared)
    """Those that could be compared."""
    not_compared: dict[str, int] = field(default_factory=dict)
    """Why -> how many requests."""
    records: Compared | None = None
    log_entries: Compared | None = None
    differences: list[RecordingDifference] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Everything else that a reader must know: orders that were searched, requests that were inferred."""
    dead_letters: list[DeadLetter] = field(default_factory=list)
    """The first lines that cannot be read."""
    doubts: tuple[str, ...] = ()
    """Why the log may not tell what happened."""

    @property
    def agrees(self) -> bool:
        """Whether nothing differs, of what was to be verified."""
        return not self.differences and self.nothing_verified is None

    @property
    def nothing_verified(self) -> str | None:
        """What was to be verified and has nothing that could be compared; None if all has."""
        if not self.requests.total:
            if self.not_compared:
                return f"Nothing was verified: none of {sum(self.not_compared.values())} requests can be compared."
            lines, damaged = self.counts.lines, self.counts.damaged_lines
            what = f"no group requests in {lines} lines, {damaged} of which cannot be read"
            return f"Nothing was verified: {what}. Is it a broker's request log (kafka.request.logger) at DEBUG?"
        for side, compared in (("offsets log has records", self.records), ("coordinator log has entries", self.log_entries)):
            if compared is not None and not compared.total:
                return f"Nothing of it was verified: the {side} of none of these groups in the time of the request log. Is it of another time zone?"
        return None

    def summary(self) -> str:
        """`N requests, N equal, N differ, N cannot be compared (why)`."""
        aside = sum(self.not_compared.values())
        why = "; ".join(f"{count} {reason}" for reason, count in self.not_compared.items())
        return (
            f"{self.requests.total + aside} requests, {self.requests.equal} equal, {self.requests.differ} differ, "
            f"{aside} cannot be compared" + (f" ({why})" if why else "")
        )

    def lines(self) -> Iterator[str]:
        """For people."""
        counts = self.counts
        yield from (f"doubtful: {doubt}" for doubt in self.doubts)
        yield (
            f"{counts.lines} lines: {counts.group_requests} requests of the group protocol, {counts.other_requests} others, "
            f"{counts.other_lines} that are no requests, {counts.damaged_lines} that cannot be read; {self.groups} groups"
        )
        for letter in self.dead_letters[:LETTERS_SHOWN]:
            yield f"  {letter.file}, line {letter.line_number}: {letter.detail}"
        if counts.damaged_lines > LETTERS_SHOWN:
            yield f"  and {counts.damaged_lines - LETTERS_SHOWN} more"
        yield "broker settings:"
        yield from (f"  {setting}" for setting in self.settings)
        yield from self.notes
        for difference in self.differences:
            yield from difference.lines()
        if self.records is not None:
            yield f"offsets log: {self.records.total} records, {self.records.equal} equal, {self.records.differ} differ"
        if self.log_entries is not None:
            entries = self.log_entries
            yield f"coordinator log: {entries.total} entries, {entries.equal} equal, {entries.differ} differ"
        yield self.summary()


def verify_recording(
    path: Path | Sequence[Path],
    offsets: Path | None = None,
    coordinator_log: Path | None = None,
    config: Mapping[str, str] | None = None,
    time_zone: tzinfo = UTC,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RecordingReport:
    """Replay a request log (one file or several, plain or gzip) and compare.

    `offsets`: the broker's records of `__consumer_offsets`, as JSON lines. `coordinator_log`: what its group coordinator
    logged. `config`: settings of the broker by Kafka's names; what is not given is inferred or Kafka's default.
    `time_zone`: that of the logs. `progress` gets the bytes read so far and in all.

    Raises ValueError for settings or an offsets file that make no sense, OSError for files that cannot be read.
    """
    given = parse_settings(config or {})
    letters: list[DeadLetter] = []
    log = RequestLog(
        [path] if isinstance(path, Path) else path,
        time_zone=time_zone,
        dead_letter=lambda letter: letters.append(letter) if len(letters) < LETTERS_SHOWN else None,
        progress=progress,
    )
    log.read()
    records = read_offsets_log(offsets) if offsets is not None else None
    entries = read_coordinator_log(coordinator_log, time_zone) if coordinator_log is not None else None
    report = RecordingReport(counts=log.counts, dead_letters=letters)
    return _Verification(report, log, records, entries, given).run()


class _Verification:
    """One verification: from the requests to the report."""

    def __init__(
        self,
        report: RecordingReport,
        log: RequestLog,
        offsets: OffsetsLog | None,
        entries: dict[str, list[LogEntry]] | None,
        given: Mapping[str, int],
    ) -> None:
        self.report = report
        self.log = log
        self.offsets = offsets
        self.records = None if offsets is None else offsets.by_group
        self.entries = entries
        self.given = given

    def run(self) -> RecordingReport:
        topic_ids = dict(self.log.topic_ids)
        for of_group in (self.records or {}).values():
            topic_ids |= topic_ids_of(of_group)
        groups = self._groups(topic_ids)
        self.report.doubts = (*self.log.doubts(), *(() if self.offsets is None else self.offsets.doubts()))
        settings = settings_of(self.given, groups, self.records or {})
        self.report.settings += settings.notes
        self.report.groups = len(groups)
        if self.records is not None:
            self.report.records = Compared()
        if self.entries is not None:
            self.report.log_entries = Compared()
        for group_id, requests in groups.items():
            self._verify_group(group_id, requests, settings)
        return self.report

    def _groups(self, topic_ids: Mapping[str, str]) -> dict[str, list[GroupRequest]]:
        """The requests of each group that reached it, in the order of arrival."""
        groups: dict[str, list[GroupRequest]] = {}
        refused_before = self.log.counts.damaged_lines
        for request in self.log.group_requests(topic_ids):
            if request.set_aside is None:
                groups.setdefault(request.group_id, []).append(request)
            else:
                self._set_aside(request.set_aside)
        if refused := self.log.counts.damaged_lines - refused_before:
            self.report.not_compared["cannot be understood, see above"] = refused
        return groups

    def _set_aside(self, why: str) -> None:
        self.report.not_compared[why] = self.report.not_compared.get(why, 0) + 1

    def _verify_group(self, group_id: str, requests: list[GroupRequest], settings: BrokerSettings) -> None:
        report = self.report
        from_us, start, generation = (self.log.start_us or 0) - EDGE_MS * 1000, START, None
        if begun_before(requests):
            beginning = beginning_of(group_id, settings.config, requests, (self.records or {}).get(group_id, ()))
            requests = self._known_from(group_id, requests, beginning)
            if beginning is None:
                return
            from_us, start, generation = beginning.from_us, beginning.state, beginning.generation
        entries = self._since(from_us, (self.entries or {}).get(group_id))
        if generation is not None:
            entries = _after_join_phase(entries, generation)
        records = self._since(from_us, (self.records or {}).get(group_id))
        expected = expected_of(requests, records, entries)
        end_ms = (self.log.end_us or 0) // 1000
        result = OrderSearch(group_id, settings.config, expected, steps_of(requests), end_ms, start).run()
        report.requests.total += len(requests)
        report.requests.differ += len({found.about for found in result.disagreements if found.kind in ("answer", "time")})
        if report.records is not None:
            report.records.total += len(expected.records or ())
            report.records.differ += sum(found.kind == "record" for found in result.disagreements)
        if report.log_entries is not None:
            report.log_entries.total += len(expected.entries or ())
            report.log_entries.differ += sum(found.kind == "log" for found in result.disagreements)
        report.differences += (_difference(group_id, found) for found in result.disagreements)
        report.notes += _notes(result)
        self._check_partition(group_id, requests, settings.partitions)

    def _check_partition(self, group_id: str, requests: list[GroupRequest], partitions: int | None) -> None:
        """FindCoordinator, by the partition alone: the group's records must lie where our hash puts the group."""
        lookups = sum(request.logged.api == "FindCoordinator" for request in requests)
        found = {record.partition for record in (self.records or {}).get(group_id, ())}
        if partitions is None or not found or found == {group_partition(group_id, partitions)}:
            return
        self.report.requests.differ += lookups
        self.report.differences.append(
            RecordingDifference(
                group_id=group_id,
                what="FindCoordinator",
                where=f"{lookups} requests",
                broker=f"the group's records lie in partition {', '.join(map(str, sorted(found)))}",
                here=f"partition {group_partition(group_id, partitions)} of {partitions}",
            )
        )

    def _known_from(
        self, group_id: str, requests: list[GroupRequest], beginning: Beginning | None
    ) -> list[GroupRequest]:
        """The requests of a group that lived before the log, from where it is known on; the others are set aside."""
        known = [] if beginning is None else [each for each in requests if each.logged.handled_us >= beginning.from_us]
        for _ in range(len(requests) - len(known)):
            self._set_aside("of groups that lived before the log began, before a join phase told all their members")
        since = "no join phase tells all its members" if beginning is None else f"replayed from generation {beginning.generation} on"
        self.report.notes.append(f"group {group_id}: it lived before the log began; {since}")
        return known

    def _since(self, from_us: int, told: list[_Timed] | None) -> list[_Timed] | None:
        """What the broker wrote from a time on until the last line of the request log."""
        if told is None:
            return None
        first_ms, last_ms = from_us // 1000, (self.log.end_us or 0) // 1000 + EDGE_MS
        return [each for each in told if first_ms <= _time_ms(each) <= last_ms]


def _after_join_phase(entries: list[LogEntry] | None, generation: int) -> list[LogEntry] | None:
    """The entries after the end of the join phase with which a replay begins."""
    ends = [place for place, entry in enumerate(entries or ()) if (entry.kind, entry.generation) == ("join phase ends", generation)]
    return entries[ends[0] + 1 :] if entries is not None and ends else entries


def _time_ms(each: LoggedRecord | LogEntry) -> int:
    return each.timestamp_ms if isinstance(each, LoggedRecord) else each.time_ms


def _difference(group_id: str, found: Disagreement) -> RecordingDifference:
    return RecordingDifference(
        group_id=group_id, what=_WHAT[found.kind], where=found.where, broker=found.broker, here=found.here
    )


def _notes(result: GroupResult) -> Iterator[str]:
    close = _close_neighbours(result.steps)
    if result.places:
        yield (
            f"group {result.group_id}: {close} of {len(result.steps)} requests lie within a millisecond of a neighbour, where the "
            f"log tells no order; at {result.places} places the likely order was changed for one that gives the broker's side"
        )
    if result.elections:
        yield (
            f"group {result.group_id}: {len(result.elections)} leaders that Kafka elected by the order of a hash map are taken "
            f"from the recording (generations {', '.join(map(str, sorted(result.elections)))})"
        )
    if result.latest_ms > PUNCTUAL_MS:
        yield f"group {result.group_id}: the broker fired timers up to {result.latest_ms} ms late"
    for step in result.steps:
        if step.inferred is not None:
            yield (
                f"group {result.group_id}: a request that is not in the log is inferred, as nothing else explains what follows: "
                f"{step.inferred}, taken to be at {step.effect_us // 1000}"
            )
    for index in result.late_lines:
        step = result.steps[index]
        logged = step.request.logged
        late_ms = (logged.handled_us - step.effect_us) / 1000
        yield (
            f"group {result.group_id}: line {logged.line_number} ({logged.api} of {logged.client_id}) was written late: by the "
            f"broker's other logs the request was handled {late_ms:.0f} ms before the line says"
        )


def _close_neighbours(steps: Sequence[Step]) -> int:
    arrivals = sorted(step.request.logged.arrival_us for step in steps)
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    return sum(min(before, after) <= 1_000 for before, after in zip([10**9, *gaps], [*gaps, 10**9], strict=True))
