"""A Kafka broker's request log, read: the requests of the group protocol, in the order of their arrival.

Lines are in the order in which answers were sent, and a JoinGroup may have waited for minutes, so the requests are
sorted (`request_order`), by times that are put right where the broker's clock was set (`log_clock`). What cannot be
read, or is not understood, is counted, and `log_doubts` says so in sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, tzinfo
from itertools import islice
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.proving.recordings.cluster_topics import ClusterLog, LoggedTopics, TopicIds, cluster_topics
from group_coordinator.proving.recordings.group_requests import GroupRequest, group_requests
from group_coordinator.proving.recordings.kafka_json import KafkaJsonError
from group_coordinator.proving.recordings.log_clock import FileClock, FileStep, link_files
from group_coordinator.proving.recordings.log_contents import LogContents
from group_coordinator.proving.recordings.request_lines import (
    MARK,
    WRITE_TXN_MARKERS_KEY,
    LoggedRequest,
    ReadLine,
    read_line,
)
from group_coordinator.proving.recordings.request_order import ConnectionOrder, RequestSorter
from group_coordinator.proving.recordings.transaction_ends import TransactionEnd, asked_ends, transaction_ends
from group_coordinator.watching.broker_logs.line_times import LineError
from group_coordinator.watching.broker_logs.text_files import BUFFER_BYTES, GZIP_ERRORS, unpacked
from schemas.bounded_lines import bounded_lines, too_long
from schemas.events import EventProblem

SORT_MEMORY_BYTES = 64 * 1024 * 1024
"""Of requests that are kept in memory while they are sorted; more go to temporary files."""
_PROGRESS_EVERY_LINES = 5_000
_FIRST_LINES = 10_000
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A line that should be a request and could not be read, or not be turned into an event."""

    reason: EventProblem
    detail: str
    file: str
    line_number: int
    text: str
    """The line itself, of one that is too long its beginning; bytes that are not UTF-8 are replaced."""


class LogCounts(Struct):
    """The counts of the files' lines."""

    lines: int = 0
    group_requests: int = 0
    other_requests: int = 0
    """Completed requests of other kinds: Fetch, Metadata and so on."""
    other_lines: int = 0
    damaged_lines: int = 0


class RequestLog:
    """The files of one broker's request log; `read` them, then take `requests`."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        time_zone: tzinfo = UTC,
        dead_letter: Callable[[DeadLetter], None] = lambda letter: None,
        progress: Callable[[int, int], None] = lambda done, total: None,
        sort_memory_bytes: int = SORT_MEMORY_BYTES,
        moments_us: Sequence[int] = (),
    ) -> None:
        """`time_zone`: that of lines which do not name theirs. `progress` gets the bytes read so far and in all.

        `moments_us`: when something happened in the cluster by other sources, in order.
        """
        self.paths = tuple(
            paths if len(paths) == 1 else sorted(paths, key=lambda path: _first_time_us(path, time_zone))
        )
        """The files, the oldest first: rotated logs come in any order."""
        names = Counter(path.name for path in self.paths)
        self._names = tuple(path.name if names[path.name] == 1 else str(path) for path in self.paths)
        """Of the files: requests are named by them, so logs of several brokers that are called alike need their
        folders, too."""
        self.counts = LogCounts()
        self.start_us: int | None = None
        self.end_us: int | None = None
        """The times of the first and the last completed request."""
        self.clocks: list[FileClock] = []
        """Of each file."""
        self.file_steps: list[FileStep] = []
        self.contents = LogContents()
        self.order = ConnectionOrder(0)
        self.time_zone = time_zone
        """Of times that do not name theirs."""
        self.cluster = LoggedTopics()
        """The topics of which the log tells, when it was read."""
        self._cluster_log = ClusterLog()
        self._transaction_ends: list[TransactionEnd] = []
        self._asked_ends: list[TransactionEnd] = []
        self._dead_letter = dead_letter
        self._moments_us = moments_us
        self._progress = progress
        self._sorter = RequestSorter(sort_memory_bytes)

    def read(self) -> None:
        """Read all files. Raises `OSError` for one that cannot be opened."""
        total = sum(path.stat().st_size for path in self.paths)
        bytes_done = 0
        for file_index, path in enumerate(self.paths):
            self.clocks.append(FileClock(self._moments_us))
            with path.open("rb", BUFFER_BYTES) as raw:
                for line_number, (line, length) in enumerate(self._lines(file_index, raw), 1):
                    self._take(file_index, line_number, line, length)
                    if not line_number % _PROGRESS_EVERY_LINES:
                        self._progress(bytes_done + raw.tell(), total)
            bytes_done += path.stat().st_size
            self._progress(bytes_done, total)
        for clock in self.clocks:
            clock.settle()
        self.file_steps = link_files(self.clocks)
        spans = [span for clock in self.clocks if (span := clock.span()) is not None]
        self.start_us = min((start for start, _ in spans), default=None)
        self.end_us = max((end for _, end in spans), default=None)
        self.cluster = cluster_topics(self._cluster_log, lambda file, line: self.clocks[file].offset_us(line))

    def requests(self) -> Iterator[LoggedRequest]:
        """Return the group requests in the order of arrival, once."""
        self.order = ConnectionOrder(self.contents.resolution_us)
        was_set = any(clock.base_us or clock.end_offset_us or list(clock.steps()) for clock in self.clocks)
        return self.order.arrange(self._sorter.take_sorted(self._shift if was_set else None))

    def topic_ids(self, others: Mapping[str, str] | None = None, *, of_names: bool = True) -> TopicIds:
        """Return the ids that the log tells. `others`: name -> id, where more is known. `of_names`: commits that name
        their topics get ids."""
        return TopicIds(self.cluster.changes, others, of_names=of_names)

    def group_requests(self, topic_ids: TopicIds | None = None) -> Iterator[GroupRequest]:
        """Yields the requests as they came to each group; those that cannot be understood are refused. Once.

        `topic_ids`: where more is known than the log tells.
        """
        known_ids = self.topic_ids() if topic_ids is None else topic_ids
        for logged in self.requests():
            try:
                requests = group_requests(logged, self.file_name(logged), known_ids)
            except (KafkaJsonError, ValueError) as error:
                self.refuse(logged, EventProblem.BAD_BODY, str(error))
                continue
            for request in requests:
                if request.set_aside is None and (reason := self.contents.why_not_understood(request)):
                    request = replace(request, set_aside=reason)
                self.contents.note_request(request)
                yield request

    def transaction_ends(self) -> list[TransactionEnd]:
        """Return the ends of transactions that reached `__consumer_offsets`, in the order of time; where nothing tells
        them, those that producers asked for."""
        ends = []
        for end in self._transaction_ends if self.contents.has_transaction_ends else self._asked_ends:
            offset_us = self.clocks[end.file_index].offset_us(end.line_number)
            ends.append(replace(end, earliest_us=end.earliest_us + offset_us, at_us=end.at_us + offset_us))
        return sorted(ends, key=lambda end: end.at_us)

    def file_name(self, request: LoggedRequest) -> str:
        return self._names[request.file_index]

    def refuse(self, request: LoggedRequest, reason: EventProblem, detail: str) -> None:
        """Make a dead letter of a request that could be read and cannot be used."""
        text = f"{request.api} v{request.api_version} {request.request.decode(errors='replace')}"
        self._refuse(request.file_index, request.line_number, text, reason, detail)

    def _shift(self, request: LoggedRequest) -> int:
        return self.clocks[request.file_index].offset_us(request.line_number)

    def _refuse(self, file_index: int, line_number: int, text: str, reason: EventProblem, detail: str) -> None:
        self.counts.damaged_lines += 1
        self.contents.note_damage(detail)
        file = self._names[file_index]
        self._dead_letter(DeadLetter(reason=reason, detail=detail, file=file, line_number=line_number, text=text))

    def _lines(self, file_index: int, raw: IO[bytes]) -> Iterator[tuple[bytes, int]]:
        """The lines of a file; a gzip file that breaks off gives what it has."""
        count = 0
        try:
            for line, length in bounded_lines(unpacked(raw)):
                count += 1
                yield line, length
        except GZIP_ERRORS as error:
            detail = f"the file breaks off after line {count}: {error}"
            self.counts.lines += 1  # the one that is not whole
            self._refuse(file_index, count + 1, "", EventProblem.DAMAGED_LOG_LINE, detail)

    def _take(self, file_index: int, line_number: int, line: bytes, length: int) -> None:
        self.counts.lines += 1
        clock = self.clocks[file_index]
        try:
            if length:
                raise LineError(too_long(length))
            if MARK not in line and line.strip() and not line.endswith(b"\n"):
                raise LineError("the file ends in the middle of a line")
            if line_number == 1 and line.startswith(_UTF_16_MARKS):
                raise LineError("the file is UTF-16; turn it into UTF-8 first (iconv -f UTF-16 -t UTF-8)")
            parsed = read_line(line, file_index, line_number, self.time_zone, clock.last_us)
        except LineError as error:
            text = line.decode(errors="replace").rstrip("\r\n")
            self._refuse(file_index, line_number, text, EventProblem.DAMAGED_LOG_LINE, str(error))
            return
        if parsed is None:
            self.counts.other_lines += 1
            return
        if parsed.foreign is not None:
            self._refuse(
                file_index, line_number, "", EventProblem.DAMAGED_LOG_LINE, f"{parsed.foreign}, around a request"
            )
        self._take_request(clock, line_number, parsed)

    def _take_request(self, clock: FileClock, line_number: int, parsed: ReadLine) -> None:
        clock.add(line_number, parsed)
        self.contents.note_line(parsed)
        if parsed.ends_transactions is not None:
            place = len(self.clocks) - 1, line_number
            if parsed.api_key == WRITE_TXN_MARKERS_KEY:
                self._transaction_ends += transaction_ends(*parsed.ends_transactions, *place)
                self.contents.has_transaction_ends = True
            else:
                self._asked_ends += asked_ends(*parsed.ends_transactions, *place)
        if parsed.cluster is not None:
            self._cluster_log.take(parsed.cluster, len(self.clocks) - 1, line_number)
        if parsed.request is None:
            self.counts.other_requests += 1
        else:
            self.counts.group_requests += 1
            self._sorter.add(parsed.request)


def _first_time_us(path: Path, time_zone: tzinfo) -> int:
    """The time of the first request in a file."""
    with path.open("rb", BUFFER_BYTES) as raw:
        try:
            for line, length in islice(bounded_lines(unpacked(raw)), _FIRST_LINES):
                with suppress(LineError):
                    if not length and (parsed := read_line(line, 0, 0, time_zone)) is not None:
                        return parsed.logged_us
        except GZIP_ERRORS:
            pass
    return 0
