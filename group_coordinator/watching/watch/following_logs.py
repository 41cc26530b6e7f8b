"""Brokers' logs, read as they grow: by name or pattern, through rotations, plain or gzip."""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import IO, Protocol

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.broker_logs.broker_log import FileRead, LineReader
from group_coordinator.watching.broker_logs.cluster_ids import is_foreign, left_out
from group_coordinator.watching.broker_logs.line_times import LineError
from group_coordinator.watching.broker_logs.text_files import (
    GZIP_ERRORS,
    INPUT_NAME,
    STANDARD_INPUT,
    named_files,
    unpacked,
)
from schemas.bounded_lines import LINE_MAX_BYTES

_ROTATED = re.compile(r"(?<=\.log)[.\-_].*$|(\.\d+)?(\.gz)?$")
"""What rotation adds to a name."""
_PIECE_BYTES = 4 * 1024 * 1024

FileId = tuple[int, int]
"""Device and inode: a file that is renamed stays what it is."""
_INPUT: FileId = (-1, -1)


class FollowedLogs:
    """All files of some names, patterns and directories, and standard input."""

    def __init__(self, patterns: Sequence[str], time_zone: tzinfo) -> None:
        """`time_zone`: of times that do not say theirs."""
        self._patterns = [pattern for pattern in patterns if pattern != STANDARD_INPUT]
        self._matched: set[str] = set()
        """Patterns for which there was a file."""
        self._time_zone = time_zone
        self._files: dict[FileId, _Log] = {}
        if STANDARD_INPUT in patterns:
            self._files[_INPUT] = _Log(INPUT_NAME, Path(STANDARD_INPUT), time_zone, _Waiting(sys.stdin.fileno()))
        self.left_out = 0
        """Lines that tell of a group, and have no time that can be read, or can be read in several ways."""
        self.are_read = False
        """Whether all that was in the files when they were found has been read."""
        self.problems: dict[str, str] = {}
        """File -> why it is not read."""
        self.of_cluster: str | None = None
        """The cluster that is watched; None: it has not said its id yet."""
        self.foreign: dict[str, str] = {}
        """File of another cluster -> what is said of it."""

    def files(self) -> list[FileRead]:
        """Return the files that are read, and how far each is."""
        return [file.read_so_far() for file in self._files.values()]

    def topic_names(self) -> dict[str, str]:
        """Return the names of topics that lines have told, by id in hexadecimal digits."""
        return {topic_id: name for file in self._files.values() for topic_id, name in file.reader.topic_names.items()}

    def look(self) -> list[BrokerLine]:
        """Return what has come in all files, a piece of each. New files are taken up."""
        self._find()
        found: list[tuple[_Log, list[BrokerLine]]] = []
        for file in self._files.values():
            try:
                found.append((file, list(file.look())))
            except (OSError, *GZIP_ERRORS) as problem:
                self.problems[file.name] = str(problem)
                file.is_read = True
        self.are_read = all(file.is_read for file in self._files.values())
        self.left_out = sum(file.left_out for file in self._files.values())
        foreign = self._foreign_logs()
        return [line for file, lines in found if file.log not in foreign for line in lines]

    def _foreign_logs(self) -> set[Path]:
        """Return the logs of other clusters. One part of a log names the cluster for all: the broker says it when it
        starts, and parts that were begun later do not."""
        named: dict[Path, set[str]] = {}
        for file in self._files.values():
            named.setdefault(file.log, set()).update(file.reader.cluster_ids)
        foreign = {log for log, cluster_ids in named.items() if is_foreign(cluster_ids, self.of_cluster)}
        for file in self._files.values():
            if file.log in foreign:
                self.foreign[file.name] = left_out(file.name, named[file.log], self.of_cluster or "")
        return foreign

    def _find(self) -> None:
        for pattern in self._patterns:
            names = named_files(pattern)
            if names:
                self._matched.add(pattern)
                self.problems.pop(pattern, None)
            elif pattern not in self._matched:
                self.problems[pattern] = "there is no such file"
            for name in names:
                path = Path(name)
                try:
                    status = path.stat()
                    if (status.st_dev, status.st_ino) not in self._files:
                        self._files[status.st_dev, status.st_ino] = _File(path, self._time_zone)
                except OSError as problem:
                    self.problems[name] = str(problem)


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes:
        """Return up to so many bytes; none at the end."""


class _Waiting:
    """A stream of which what is there is read; nobody waits for more."""

    def __init__(self, number: int) -> None:
        """`number`: the file descriptor."""
        self._number = number

    def read(self, size: int = -1, /) -> bytes:
        parts: list[bytes] = []
        while size > 0 and select.select([self._number], [], [], 0)[0] and (part := os.read(self._number, size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class _Log:
    """One stream of lines, read piece by piece."""

    def __init__(self, name: str, log: Path, time_zone: tzinfo, stream: _Readable) -> None:
        self.name = name
        self.is_read = False
        """Whether all that was there at first has been read."""
        self.left_out = 0
        """Lines that tell of a group, and have no time that can be read, or can be read in several ways."""
        self.log = log
        """The log that the file is, or was, a part of."""
        self.reader = LineReader(log.name if name != INPUT_NAME else name, time_zone)
        self._stream = stream
        self._number = 0
        self._last_ms: int | None = None
        self._rest = b""
        """It is the beginning of a line that is not whole yet."""

    def read_so_far(self) -> FileRead:
        return FileRead(name=self.name, broker=self.reader.broker, lines=self._number, last_ms=self._last_ms)

    def look(self) -> Iterator[BrokerLine]:
        """Yield the lines of the next piece."""
        data = self._piece()
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_MAX_BYTES:
            self._rest = b""
        self._last_ms = self.reader.last_time_ms(lines) or self._last_ms
        for line in lines:
            self._number += 1
            try:
                yield from self.reader.read(self._number, line)
            except LineError:
                self.left_out += 1

    def _piece(self) -> bytes:
        data = self._stream.read(_PIECE_BYTES)
        self.is_read = not data
        return data


class _File(_Log):
    """One file, held open: it is read to its end even after it was renamed.

    Its lines belong to the log whose name it had before it was rotated, whenever it was found.
    """

    def __init__(self, path: Path, time_zone: tzinfo) -> None:
        self._raw: IO[bytes] = path.open("rb")
        self._size = _size(self._raw)
        """At first."""
        log = path.with_name(_ROTATED.sub("", path.name, count=1))
        super().__init__(str(path), log, time_zone, unpacked(self._raw))

    def _piece(self) -> bytes:
        if self._stream is self._raw and self._raw.tell() > _size(self._raw):
            self._raw.seek(0)  # it was emptied, and is written anew
            self._rest, self._number = b"", 0
            self.reader.begin_anew()
        data = super()._piece()
        self.is_read = not data or (self._stream is self._raw and self._raw.tell() >= self._size)
        return data


def _size(file: IO[bytes]) -> int:
    position = file.tell()
    end = file.seek(0, 2)
    file.seek(position)
    return end
