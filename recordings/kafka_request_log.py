"""A Kafka broker's request log, read: the requests of the group protocol, in the order of their arrival.

Lines are in the order in which answers were sent, and a JoinGroup may have waited for minutes, so the requests are
sorted: in memory as far as they fit, beyond that in runs on disk that are merged (`SORT_MEMORY_BYTES`). Requests of one
connection keep the order of their lines, which is that of their correlation ids: a broker reads the next request of a
connection when the last one is answered.
"""

from __future__ import annotations

import gzip
import heapq
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, tzinfo
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from recordings.kafka_json import KafkaJsonError, topic_id_from_kafka
from recordings.request_lines import LineError, LoggedRequest, read_line
from schemas.events import EventProblem

SORT_MEMORY_BYTES = 64 * 1024 * 1024
"""Of requests that are kept in memory while they are sorted; more go to temporary files."""
_GZIP_MAGIC = b"\x1f\x8b"
_PROGRESS_EVERY_LINES = 5_000
_LENGTH_BYTES = 4
_FIRST_LINES = 10_000


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A line that should be a request and could not be read, or not be turned into an event."""

    reason: EventProblem
    detail: str
    file: str
    line_number: int
    text: str
    """The line itself; bytes that are not UTF-8 are replaced."""


class LogCounts(Struct):
    """What the files held."""

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
    ) -> None:
        """`time_zone`: that of lines which do not name theirs. `progress` gets the bytes read so far and in all."""
        self.paths = tuple(sorted(paths, key=lambda path: _first_time_us(path, time_zone)))
        """The files, the oldest first: rotated logs come in any order."""
        self.counts = LogCounts()
        self.topic_ids: dict[str, str] = {}
        """Topic name -> id, as the answers to Metadata requests told it."""
        self.start_us: int | None = None
        self.end_us: int | None = None
        """The times of the first and the last completed request."""
        self._time_zone = time_zone
        self._dead_letter = dead_letter
        self._progress = progress
        self._connections: dict[str, int] = {}
        self._sorter = _Sorter(sort_memory_bytes)

    def read(self) -> None:
        """Read all files. Raises `OSError` for one that cannot be opened."""
        total = sum(path.stat().st_size for path in self.paths)
        done = 0
        for file_index, path in enumerate(self.paths):
            with path.open("rb") as raw:
                for line_number, line in enumerate(self._lines(path, raw), 1):
                    self._take(file_index, line_number, line)
                    if not line_number % _PROGRESS_EVERY_LINES:
                        self._progress(done + raw.tell(), total)
            done += path.stat().st_size
            self._progress(done, total)

    def requests(self) -> Iterator[LoggedRequest]:
        """The group requests in the order of arrival. Once."""
        return self._sorter.take_sorted()

    def file_name(self, request: LoggedRequest) -> str:
        return self.paths[request.file_index].name

    def refuse(self, request: LoggedRequest, reason: EventProblem, detail: str) -> None:
        """A request that could be read and is of no use after all becomes a dead letter too."""
        text = f"{request.api} v{request.api_version} {request.request.decode(errors='replace')}"
        self._refuse(request.file_index, request.line_number, text, reason, detail)

    def _refuse(self, file_index: int, line_number: int, text: str, reason: EventProblem, detail: str) -> None:
        self.counts.damaged_lines += 1
        file = self.paths[file_index].name
        self._dead_letter(DeadLetter(reason=reason, detail=detail, file=file, line_number=line_number, text=text))

    def _lines(self, path: Path, raw: IO[bytes]) -> Iterator[bytes]:
        """The lines of a file; a gzip file that breaks off gives what it has."""
        count = 0
        try:
            for line in _plain(raw):
                count += 1
                yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            detail = f"the file breaks off after line {count}: {error}"
            self._refuse(self.paths.index(path), count + 1, "", EventProblem.DAMAGED_LOG_LINE, detail)

    def _take(self, file_index: int, line_number: int, line: bytes) -> None:
        self.counts.lines += 1
        try:
            read = read_line(line, file_index, line_number, self._time_zone)
        except LineError as error:
            text = line.decode(errors="replace").rstrip("\n")
            self._refuse(file_index, line_number, text, EventProblem.DAMAGED_LOG_LINE, str(error))
            return
        if read is None:
            self.counts.other_lines += 1
            return
        self.start_us = read.logged_us if self.start_us is None else min(self.start_us, read.logged_us)
        self.end_us = read.logged_us if self.end_us is None else max(self.end_us, read.logged_us)
        for name, topic_id in read.topics:
            self._learn_topic(name, topic_id)
        if read.request is None:
            self.counts.other_requests += 1
        else:
            self.counts.group_requests += 1
            self._sorter.add(self._in_order_of_its_connection(read.request))

    def _learn_topic(self, name: str, topic_id: str) -> None:
        try:
            ours = topic_id_from_kafka(topic_id)
        except KafkaJsonError:
            return
        if ours is not None:
            self.topic_ids[name] = ours

    def _in_order_of_its_connection(self, request: LoggedRequest) -> LoggedRequest:
        """A broker reads the next request of a connection when the last is answered; times rounded down can deny it."""
        answered_us = self._connections.get(request.connection, request.arrival_us)
        if request.arrival_us < answered_us:
            handled_us = max(request.handled_us, answered_us)
            request = replace(request, arrival_us=answered_us, handled_us=handled_us)
        self._connections[request.connection] = request.ready_us
        return request


def _plain(raw: IO[bytes]) -> IO[bytes]:
    """A plain or gzip file, to be read as plain."""
    compressed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    raw.seek(0)
    return gzip.GzipFile(fileobj=raw) if compressed else raw  # type: ignore[return-value]


def _first_time_us(path: Path, time_zone: tzinfo) -> int:
    """The time of the first request in a file."""
    with path.open("rb") as raw:
        try:
            for line in islice(_plain(raw), _FIRST_LINES):
                with suppress(LineError):
                    if (read := read_line(line, 0, 0, time_zone)) is not None:
                        return read.logged_us
        except (EOFError, zlib.error, gzip.BadGzipFile):
            pass
    return 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LoggedRequest).decode
_by_arrival = attrgetter("arrival_us", "file_index", "line_number")


class _Sorter:
    """Sorts more requests than fit into memory: sorted runs in temporary files, merged at the end."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._held: list[LoggedRequest] = []
        self._held_bytes = 0
        self._runs: list[IO[bytes]] = []

    def add(self, request: LoggedRequest) -> None:
        self._held.append(request)
        self._held_bytes += len(request.request) + len(request.response) + 1_000
        if self._held_bytes > self._memory_bytes:
            self._spill()

    def take_sorted(self) -> Iterator[LoggedRequest]:
        self._held.sort(key=_by_arrival)
        try:
            yield from heapq.merge(*map(_read_run, self._runs), self._held, key=_by_arrival)
        finally:
            for run in self._runs:
                run.close()

    def _spill(self) -> None:
        self._held.sort(key=_by_arrival)
        run = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the merge ends
        for request in self._held:
            encoded = _encode(request)
            run.write(len(encoded).to_bytes(_LENGTH_BYTES) + encoded)
        run.seek(0)
        self._runs.append(run)
        self._held, self._held_bytes = [], 0


def _read_run(run: IO[bytes]) -> Iterator[LoggedRequest]:
    while length := run.read(_LENGTH_BYTES):
        yield _decode(run.read(int.from_bytes(length)))
