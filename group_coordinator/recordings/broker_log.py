"""Lines of brokers' logs, read: of any version, behind any prefix, as JSON, plain or gzip, rotated or whole.

A line that says nothing of a group is passed over, and so are the further lines of an entry, which have no time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from group_coordinator.recordings.broker_lines import BrokerLine, LineEvent, LogSilent, MemberFailed, MemberFencedOut
from group_coordinator.recordings.broker_patterns import HINT, NO_GROUP, PATTERNS
from group_coordinator.recordings.line_times import LineError, line_time
from group_coordinator.recordings.text_files import lines_of

_BROKER = re.compile(
    rb"\[(?:GroupCoordinator|GroupMetadataManager|TransactionCoordinator|KafkaServer|ReplicaManager|BrokerServer)"
    rb" (?:id=|broker=|brokerId=)?(\d+)"
)
_PARTITION = re.compile(r"topic=__consumer_offsets partition=(\d+)|\(__consumer_offsets-(\d+)\)")
_SETTING = re.compile(rb"\s+((?:group|offsets?)\.[a-z.]{1,100}) = ([^\r\n]{1,300})")
"""One line of `KafkaConfig values:`."""
_LOGGER = re.compile(r" ?\([\w.$]*kafka[\w.$]*\)\s*$")
"""What the default layout ends with."""
_MESSAGE_FIELDS = (
    "message",
    "msg",
    "log",
    "MESSAGE",
    "event",
    "text",
    "line",
    "original",
    "body",
    "_raw",
    "textPayload",
)
_TIME_FIELDS = (
    "timeMillis",
    "@timestamp",
    "timestamp",
    "time",
    "ts",
    "date",
    "datetime",
    "asctime",
    "_SOURCE_REALTIME_TIMESTAMP",
)
_MICROSECONDS_FROM = 10**14
_SECONDS_UP_TO = 10**11
_JSON_DEPTH_MAX = 4
_PREFIX_BYTES = 120
"""A line has its time within them."""
_SILENCE_MS = 2_000
"""A log that is silent for so long may be of a broker that stands still ..."""
_SILENCE_ENDS_MS = 1_000
"""... if members expire so soon after that."""
_LAST_LINES = 60
"""Among so many at the end of a piece there is one with a time: further lines of an entry have none."""


class FileRead(Struct, frozen=True, kw_only=True):
    """How far a file was read."""

    name: str
    broker: int | None
    """Whose log it is; None: it does not say."""
    lines: int
    last_ms: int | None
    """When its last line was written; None: no time can be read."""


class BrokerLog(Struct):
    """The lines of any number of files that say something of groups."""

    time_zone: tzinfo
    """Of times that do not say theirs."""
    lines: list[BrokerLine] = field(default_factory=list)
    read: int = 0
    """How many lines there were in all."""
    left_out: int = 0
    """Lines that tell of a group, and have no time that can be read, or can be read in several ways."""
    files: list[FileRead] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of groups and offsets by Kafka's names: a broker tells them when it starts. The last ones count."""

    def read_file(self, path: Path) -> None:
        """Take a whole file. Raises ValueError for a gzip file that breaks off, OSError."""
        reader = LineReader(str(path.name), self.time_zone)
        number = 0
        last: deque[bytes] = deque(maxlen=_LAST_LINES)
        for number, line, _ in lines_of(path):
            last.append(line)
            if (setting := _SETTING.match(line)) is not None:
                self.settings[setting[1].decode()] = setting[2].decode(errors="replace")
            try:
                self.lines.extend(reader.read(number, line))
            except LineError:
                self.left_out += 1
        self.read += number
        self.files.append(
            FileRead(name=path.name, broker=reader.broker, lines=number, last_ms=reader.last_time_ms(last))
        )


class LineReader:
    """Reads one file, line by line: a line that does not name its broker is of the one that the last lines named."""

    def __init__(self, file: str, time_zone: tzinfo) -> None:
        self._file = file
        self._time_zone = time_zone
        self.broker: int | None = None
        """Whose log it is, as far as lines have said."""
        self._last_us = 0
        self._before: deque[bytes] = deque(maxlen=_LAST_LINES)
        """The beginnings of the last lines, whatever they tell."""

    def last_time_ms(self, lines: Sequence[bytes]) -> int | None:
        """When the last of these lines that has a time was written."""
        for line in list(lines)[-_LAST_LINES:][::-1]:
            try:
                return line_time(line[:_PREFIX_BYTES], self._time_zone, self._last_us).us // 1000
            except LineError:
                continue
        return None

    def read(self, number: int, line: bytes) -> Iterator[BrokerLine]:
        """Yield what the line tells of groups. Raises `LineError` for a line that is to be left out."""
        broker_match = _BROKER.search(line)
        if broker_match is not None:
            self.broker = int(broker_match[1])
        if HINT.search(line) is not None:
            yield from self._lines_of_groups(number, line)
        self._before.append(line[:_PREFIX_BYTES])

    def _lines_of_groups(self, number: int, line: bytes) -> Iterator[BrokerLine]:
        text, time_us = self._message(line)
        for pattern, make in PATTERNS:
            match = pattern.search(text)
            if match is not None:
                if time_us is None:
                    prefix = text[: match.start()].encode()
                    time_us = line_time(prefix, self._time_zone, self._last_us).us
                self._last_us = max(self._last_us, time_us)
                for event in make(match):
                    if isinstance(event, MemberFailed | MemberFencedOut):
                        yield from self._silence(number, time_us)
                    yield self._line(number, time_us, text, event)
                return

    def _silence(self, number: int, time_us: int) -> Iterator[BrokerLine]:
        """Yield the silence of the log just before a line."""
        later_ms = time_us // 1000
        for before in reversed(self._before):
            try:
                at_ms = line_time(before, self._time_zone, self._last_us).us // 1000
            except LineError:
                continue  # a further line of an entry
            if later_ms - at_ms >= _SILENCE_MS:
                event = LogSilent(group_id=NO_GROUP, since_ms=at_ms, until_ms=later_ms)
                yield self._line(number, later_ms * 1000, "", event)
                return
            if time_us // 1000 - at_ms > _SILENCE_ENDS_MS:
                return
            later_ms = at_ms

    def _line(self, number: int, time_us: int, text: str, event: LineEvent) -> BrokerLine:
        partition = _PARTITION.search(text)
        return BrokerLine(
            time_ms=time_us // 1000,
            broker=self.broker,
            partition=None if partition is None else int(partition[1] or partition[2]),
            file=self._file,
            number=number,
            event=event,
        )

    def _message(self, line: bytes) -> tuple[str, int | None]:
        """The text of a line without the logger behind it; where the line is JSON, its message and its time."""
        text = line.decode(errors="replace").rstrip("\r\n")
        start = text.find("{")
        if start >= 0 and text.endswith("}"):
            try:
                fields = msgspec.json.decode(text[start:].encode())
            except msgspec.DecodeError:
                fields = None
            message = _find_message(fields, _JSON_DEPTH_MAX)
            if message is not None:
                return _LOGGER.sub("", message.rstrip()), self._time_of_message(message, fields, text[:start])
        return _LOGGER.sub("", text), None

    def _time_of_message(self, message: str, fields: dict[str, Any], prefix: str) -> int | None:
        """None: the message begins with the broker's own time, which is nearer to what happened."""
        if re.match(r"\[?\d{4}-\d\d-\d\d[ T]\d\d:", message):
            return None
        instant = fields.get("instant")
        if isinstance(instant, dict) and "epochSecond" in instant:
            return int(instant["epochSecond"]) * 1_000_000 + int(instant.get("nanoOfSecond", 0)) // 1000
        for name in _TIME_FIELDS:
            if isinstance(value := fields.get(name), (int, float)):
                return _us_of_number(value)
            if isinstance(value, str):
                return (
                    _us_of_number(float(value))
                    if value.isdigit()
                    else line_time(value.encode(), self._time_zone, self._last_us).us
                )
        return line_time(prefix.encode(), self._time_zone, self._last_us).us


def _us_of_number(value: float) -> int:
    """Seconds, milliseconds or microseconds since 1970, whichever it can be."""
    if value < _SECONDS_UP_TO:
        return int(value * 1_000_000)
    return int(value) if value >= _MICROSECONDS_FROM else int(value * 1000)


def _find_message(fields: object, depth: int) -> str | None:
    """The text in a JSON object that a broker wrote, wherever a log collector put it."""
    if not isinstance(fields, dict) or depth == 0:
        return None
    for name in _MESSAGE_FIELDS:
        value = fields.get(name)
        if isinstance(value, str) and HINT.search(value.encode()):
            return value
    inner = (_find_message(value, depth - 1) for value in fields.values())
    return next((message for message in inner if message is not None), None)
