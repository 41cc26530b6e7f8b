"""`verify recording`: a broker's request log replayed, and every answer compared with the one that the broker gave.

With the broker's records of `__consumer_offsets` every record is compared too, with the log of its group coordinator
every rebalance, its cause and its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from itertools import pairwise
from pathlib import Path

from msgspec import Struct, field

from group_coordinator.proving.recordings.broker_settings import parse_settings
from group_coordinator.proving.recordings.coordinator_log import read_coordinator_logs
from group_coordinator.proving.recordings.expectations import NOTHING, PUNCTUAL_MS, Disagreement, Step
from group_coordinator.proving.recordings.following import FollowedGroup, Part, follow, moments_us
from group_coordinator.proving.recordings.kafka_request_log import DeadLetter, LogCounts, RequestLog
from group_coordinator.proving.recordings.log_doubts import count as counted
from group_coordinator.proving.recordings.log_doubts import doubts_of
from group_coordinator.proving.recordings.offsets_log import LoggedRecord, read_offsets_log
from group_coordinator.proving.recordings.order_search import GroupResult
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.java_hash import group_partition

LETTERS_SHOWN = 10
NOT_DECIDED = "not decided here"
_WHAT = {"answer": "answer", "time": "time of an answer", "record": "offsets log", "log": "coordinator log"}


class RecordingDifference(Struct, frozen=True, kw_only=True):
    """One thing that the broker had otherwise."""

    group_id: str
    what: str
    where: str
    broker: str
    here: str

    def lines(self) -> Iterator[str]:
        """Yield the place and both sides, for people."""
        yield f"group {self.group_id}: {self.what}, {self.where}"
        yield f"  broker: {self.broker}"
        yield f"  here:   {self.here}"


class Compared(Struct):
    """The number of compared things of one kind."""

    total: int = 0
    differ: int = 0

    @property
    def equal(self) -> int:
        return max(self.total - self.differ, 0)


class RecordingReport(Struct, kw_only=True):
    """The findings of a verification. `lines` tells them to people, the summary last."""

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
        """True if nothing that was to be verified differs."""
        return not self.differences and self.nothing_verified is None

    @property
    def nothing_verified(self) -> str | None:
        """The thing that was to be verified and has nothing that could be compared; None if there is none."""
        if not self.requests.total:
            if self.not_compared:
                return f"Nothing was verified: none of {sum(self.not_compared.values())} requests can be compared."
            lines, damaged = self.counts.lines, self.counts.damaged_lines
            finding = f"no group requests in {counted(lines, 'line')}, {damaged:,} of which cannot be read"
            return f"Nothing was verified: {finding}. Is it a broker's request log (kafka.request.logger) at DEBUG?"
        for side, compared in (
            ("offsets log has records", self.records),
            ("coordinator log has entries", self.log_entries),
        ):
            if compared is not None and not compared.total:
                if any(NOT_DECIDED in reason for reason in self.not_compared):
                    return f"Nothing of it was verified: the groups of its time are of kinds that are {NOT_DECIDED}."
                return (
                    f"Nothing of it was verified: the {side} of none of these groups in the time of the request log. "
                    "Is it of another time zone?"
                )
        return None

    def summary(self) -> str:
        """Return `N requests, N equal, N differ, N cannot be compared (why)`."""
        not_compared = sum(self.not_compared.values())
        reasons = "; ".join(f"{count} {reason}" for reason, count in self.not_compared.items())
        return (
            f"{self.requests.total + not_compared} requests, {self.requests.equal} equal, "
            f"{self.requests.differ} differ, "
            f"{not_compared} cannot be compared" + (f" ({reasons})" if reasons else "")
        )

    def lines(self) -> Iterator[str]:
        """Yield all findings, for people."""
        counts = self.counts
        yield from (f"doubtful: {doubt}" for doubt in self.doubts)
        yield (
            f"{counts.lines} lines: {counts.group_requests} requests of the group protocol, {counts.other_requests} "
            f"others, {counts.other_lines} that are no requests, {counts.damaged_lines} that cannot be read; "
            f"{self.groups} groups"
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
    broker_logs: Sequence[Path] = (),
    config: Mapping[str, str] | None = None,
    time_zone: tzinfo = UTC,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RecordingReport:
    """Replay the request logs of one broker or several (plain or gzip, in any order) and compare.

    `offsets`: the brokers' records of `__consumer_offsets`, as JSON lines. `broker_logs`: what their group
    coordinators logged. `config`: settings of the broker by Kafka's names; what is not given is inferred or Kafka's
    default. `time_zone`: that of the logs. `progress` gets the bytes read so far and in all.

    Raises ValueError for settings or an offsets file that make no sense, OSError for files that cannot be read.
    """
    given_settings = parse_settings(config or {})
    letters: list[DeadLetter] = []
    records = read_offsets_log(offsets) if offsets is not None else None
    logs = read_coordinator_logs(broker_logs, time_zone) if broker_logs else None
    log = RequestLog(
        [path] if isinstance(path, Path) else path,
        time_zone=time_zone,
        dead_letter=lambda letter: letters.append(letter) if len(letters) < LETTERS_SHOWN else None,
        progress=progress,
        moments_us=moments_us(records, logs),
    )
    log.read()
    by_group = None if records is None else records.by_group
    markers, compacted_ms = ((), {}) if records is None else (records.markers, records.compacted_until_ms)
    following = follow(log, given_settings, by_group, logs, markers, compacted_ms)
    report = RecordingReport(
        counts=log.counts,
        dead_letters=letters,
        doubts=(*doubts_of(log), *(() if records is None else records.doubts())),
        settings=list(following.settings.notes),
        groups=len(following.groups),
        not_compared=dict(following.set_aside),
        records=None if records is None else Compared(),
        log_entries=None if logs is None else Compared(),
    )
    for group in following.groups:
        _compare(report, group)
        _check_partition(report, group, following.settings.partitions, (by_group or {}).get(group.group_id, ()))
    return report


def _compare(report: RecordingReport, group: FollowedGroup) -> None:
    report.requests.total += group.compared
    report.requests.differ += len(group.differing)
    for reason, number in group.not_compared.items():
        report.not_compared[reason] = report.not_compared.get(reason, 0) + number
    for part in group.parts:
        result, is_whole = part.result, part.gap is None
        if report.records is not None:
            broker_count = len(part.expected.records or ()) if is_whole else result.records
            _count(report.records, broker_count, [each for each in result.disagreements if each.kind == "record"])
        if report.log_entries is not None:
            broker_count = len(part.expected.entries or ()) if is_whole else result.entries
            _count(report.log_entries, broker_count, [each for each in result.disagreements if each.kind == "log"])
        report.differences += (
            RecordingDifference(
                group_id=group.group_id, what=_WHAT[each.kind], where=each.where, broker=each.broker, here=each.here
            )
            for each in result.disagreements
        )
    report.notes += notes_of(group)


def _check_partition(
    report: RecordingReport, group: FollowedGroup, partitions: int | None, records: Sequence[LoggedRecord]
) -> None:
    """FindCoordinator, by the partition alone: the group's records must lie where our hash puts the group."""
    lookups = sum(request.logged.api == "FindCoordinator" for request in group.requests)
    record_partitions = {record.partition for record in records}
    if partitions is None or record_partitions <= {group_partition(group.group_id, partitions)}:
        return
    report.requests.differ += lookups
    report.differences.append(
        RecordingDifference(
            group_id=group.group_id,
            what="FindCoordinator",
            where=f"{lookups} requests",
            broker=f"the group's records lie in partition {', '.join(map(str, sorted(record_partitions)))}",
            here=f"partition {group_partition(group.group_id, partitions)} of {partitions}",
        )
    )


def _count(compared: Compared, broker_count: int, disagreements: Sequence[Disagreement]) -> None:
    """`broker_count`: how many the broker wrote. If it wrote any, those that it lacks were compared, too."""
    if broker_count:
        compared.total += broker_count + sum(difference.broker == NOTHING for difference in disagreements)
    compared.differ += len(disagreements)


def notes_of(group: FollowedGroup) -> Iterator[str]:
    """Yield all notes, for those who compare."""
    if not group.parts:
        yield f"group {group.group_id}: it lived before the log began; no join phase tells all its members"
    timed_out = sum(request.write_timed_out for request in group.requests)
    if timed_out:
        yield (
            f"group {group.group_id}: {timed_out} requests were answered with COORDINATOR_NOT_AVAILABLE or "
            "REQUEST_TIMED_OUT after replicas did not follow in time; what they wrote counts"
        )
    for part in group.parts:
        for load in part.expected.loads:
            by = "a broker" if load.broker_id is None else f"broker {load.broker_id}"
            when = f"{'about ' if load.not_after_us else ''}{load.loaded_us // 1000}"
            yield f"group {group.group_id}: {by} loaded it at {when}; sessions begin anew there"
        if part.beginning is not None:
            generation = part.beginning.group.generation_id
            since = "it lived before the log began; replayed" if part is group.parts[0] else "it is replayed again"
            yield f"group {group.group_id}: {since} from generation {generation} on"
        yield from _of_cluster(group.group_id, part)
        yield from _notes(part.result)
        if part.gap is not None:
            yield f"group {group.group_id}: it cannot be followed from {part.gap_from_ms} on: {part.gap.reason}"


def _of_cluster(group_id: str, part: Part) -> Iterator[str]:
    """What the group is told of the cluster: no line of the log tells it so."""
    told = Counter(type(item.value) for item in part.inputs)
    if told[TopicMetadata]:
        yield (
            f"group {group_id}: it is told {told[TopicMetadata]} times of topics that changed, when the log shows them "
            "to have done so"
        )
    if part.result.moved_facts:
        yield (
            f"group {group_id}: {part.result.moved_facts} of these changes had their effect somewhat before or after "
            "their line, as answers show"
        )
    if told[RegexesResolved]:
        source = "as in the offsets log" if part.expected.resolutions else "by the names of the topics that are known"
        yield (
            f"group {group_id}: its regular expressions are resolved {told[RegexesResolved]} times, {source}, right "
            f"after the heartbeats that asked for it ({part.result.late_resolutions} of them later, as answers show); "
            "the version of the cluster's topics in records of them is not compared"
        )
    if told[GroupConfiguration]:
        yield f"group {group_id}: it gets settings of its own {told[GroupConfiguration]} times"


def _notes(result: GroupResult) -> Iterator[str]:
    close = _close_neighbours(result.steps)
    if result.places:
        yield (
            f"group {result.group_id}: {close} of {len(result.steps)} requests lie within a millisecond of a "
            f"neighbour, where the log tells no order; at {result.places} places the likely order was changed for one "
            "that gives the broker's side"
        )
    if result.elections:
        yield (
            f"group {result.group_id}: {len(result.elections)} leaders that Kafka elected by the order of a hash map "
            f"are taken from the recording (generations {', '.join(map(str, sorted(result.elections)))})"
        )
    if result.latest_ms > PUNCTUAL_MS:
        yield f"group {result.group_id}: the broker fired timers up to {result.latest_ms} ms late"
    for step in result.steps:
        if step.inferred is not None:
            yield (
                f"group {result.group_id}: a request that is not in the log is inferred, as nothing else explains what "
                f"follows: {step.inferred}, taken to be at {step.effect_us // 1000}"
            )
    for index in result.late_lines:
        step = result.steps[index]
        logged = step.request.logged
        late_ms = (logged.handled_us - step.effect_us) / 1000
        yield (
            f"group {result.group_id}: line {logged.line_number} ({logged.api} of {logged.client_id}) was written "
            f"late: by the broker's other logs the request was handled {late_ms:.0f} ms before the line says"
        )


def _close_neighbours(steps: Sequence[Step]) -> int:
    arrivals = sorted(step.request.logged.arrival_us for step in steps)
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    return sum(min(before, after) <= 1_000 for before, after in zip([10**9, *gaps], [*gaps, 10**9], strict=True))
