"""Lines of brokers' logs, read: of any version, behind any prefix, as JSON, plain or gzip, rotated or whole.

A line that says nothing of a group is passed over, and so are the further lines of an entry, which have no time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import tzinfo
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from group_coordinator.watching.broker_logs.broker_lines import (
    BrokerLine,
    LineEvent,
    LogSilent,
    MemberFailed,
    MemberFencedOut,
)
from group_coordinator.watching.broker_logs.broker_patterns import HINT, NO_GROUP
from group_coordinator.watching.broker_logs.broker_words import events_at, start_of_words
from group_coordinator.watching.broker_logs.cluster_ids import cluster_id_in, is_foreign, left_out
from group_coordinator.watching.broker_logs.line_times import LineError, line_time
from group_coordinator.watching.broker_logs.log_entries import LogEntries
from group_coordinator.watching.broker_logs.text_files import lines_of
from schemas.kafka.json_form import JsonFormError, uuid_from_json
from schemas.wire import topic_id_text

_ID, _NAME = rb"([\w-]{22})", rb"([\w.-]{1,249})"
_LOADED = re.compile(
    rb"Completed load of Log\(dir=[^,]{1,4096}, topicId=" + _ID + rb", topic=" + _NAME + rb", partition="
)
_FETCHED = re.compile(rb"Error in response for fetch request \(type=FetchRequest, ")
_PARTITION = re.compile(rb"[{ ]" + _NAME + rb"-\d{1,9}=PartitionData\(topicId=" + _ID + rb", fetchOffset=")
_BEFORE = re.compile(rb'(?:^|(?<!\\\\)"|\b(?:TRACE|DEBUG|INFO|WARN|ERROR)\b[^()"]{0,100})$')
_OF_GROUPS = (b"[Group", b"[group")


def topic_names_in(line: bytes) -> dict[str, str]:
    """Return the names of topics that a line tells, by id in hexadecimal digits."""
    if b"topicId=" not in line:
        return {}
    return dict(_named(line))


def _named(line: bytes) -> Iterator[tuple[str, str]]:
    loaded, fetched = _LOADED.search(line), _FETCHED.search(line)
    if loaded is not None and is_own_message(line[: loaded.start()]):
        yield from _pair(loaded[1], loaded[2])
    elif fetched is not None and is_own_message(line[: fetched.start()]):
        for partition in _PARTITION.finditer(line, fetched.end()):
            yield from _pair(partition[2], partition[1])


def is_own_message(before: bytes) -> bool:
    """Return whether the broker began its message behind these bytes."""
    return _BEFORE.search(before) is not None and not any(word in before for word in _OF_GROUPS)


def _pair(topic_id: bytes, name: bytes) -> Iterator[tuple[str, str]]:
    try:
        plain = topic_id_text(uuid_from_json(topic_id.decode()))
    except JsonFormError:
        return
    if plain is not None:
        yield plain.replace("-", ""), name.decode()


_BROKER = re.compile(
    rb"\[(?:GroupCoordinator|GroupMetadataManager|TransactionCoordinator|KafkaServer|ReplicaManager|BrokerServer)"
    rb" (?:id=|broker=|brokerId=)?(\d+)"
)
_OFFSETS_PARTITION = re.compile(r"topic=__consumer_offsets partition=(\d+)")
_SETTING = re.compile(rb"\s+((?:group|offsets?)\.[a-z.]{1,100}) = ([^\r\n]{1,300})")
"""One line of `KafkaConfig values:`."""
_VERSION = re.compile(rb"Kafka version: (\d{1,3}\.\d{1,3})\b")
"""Each broker tells its version when it starts."""
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
    first_ms: int | None = None
    """The same of its first line."""
    cluster_ids: tuple[str, ...] = ()
    """The clusters that it names: one, where it has the broker's start."""


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
    of_cluster: str | None = None
    """The files are to be of this cluster; None: it is not known."""
    foreign: list[FileRead] = field(default_factory=list)
    """Files of another cluster: nothing of them is taken."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of groups and offsets by Kafka's names: a broker tells them when it starts. The last ones count."""
    topic_names: dict[str, str] = field(default_factory=dict)
    """Names of topics, by id in hexadecimal digits, as far as lines have both."""
    version: str | None = None
    """Of the broker that was started last, as in `4.0`; None: no line tells it."""

    def read_file(self, path: Path) -> None:
        """Take a whole file. Raises ValueError for a gzip file that breaks off, OSError."""
        reader = LineReader(str(path.name), self.time_zone)
        number = 0
        first: list[bytes] = []
        last: deque[bytes] = deque(maxlen=_LAST_LINES)
        lines: list[BrokerLine] = []
        settings: dict[str, str] = {}
        unreadable, version = 0, None
        for number, line, _ in lines_of(path):
            last.append(line)
            if len(first) < _LAST_LINES:
                first.append(line)
            try:
                lines.extend(reader.read(number, line))
            except LineError:
                unreadable += 1
            if reader.lists_settings and (setting := _SETTING.match(line)) is not None:
                settings[setting[1].decode()] = setting[2].decode(errors="replace")
            version = _version_in(line) or version
        file = FileRead(
            name=path.name,
            broker=reader.broker,
            lines=number,
            last_ms=reader.last_time_ms(last),
            first_ms=reader.last_time_ms(first[::-1]),
            cluster_ids=tuple(reader.cluster_ids),
        )
        if is_foreign(file.cluster_ids, self.of_cluster):
            self.foreign.append(file)
            return
        self.lines += lines
        self.settings |= settings
        self.topic_names |= reader.topic_names
        self.version = version or self.version
        self.left_out += unreadable + reader.breaks_off
        self.read += number
        self.files.append(file)

    def doubts(self) -> Iterator[str]:
        """Yield what there is to say of clusters, in sentences."""
        for file in self.foreign:
            yield left_out(file.name, file.cluster_ids, self.of_cluster or "")
        named = {cluster_id for file in self.files for cluster_id in file.cluster_ids}
        if len(named) > 1:
            yield (
                f"The brokers' logs are of several clusters ({', '.join(sorted(named))}), and groups of the same name "
                "cannot be told apart: give the logs of one."
            )


def _version_in(line: bytes) -> str | None:
    """Return the version that a broker tells of itself when it starts."""
    version = _VERSION.search(line) if b"Kafka version: " in line else None
    return version[1].decode() if version is not None and is_own_message(line[: version.start()]) else None


class LineReader:
    """Reads one file, line by line: a line that does not name its broker is of the one that the last lines named."""

    def __init__(self, file: str, time_zone: tzinfo) -> None:
        self._file = file
        self._time_zone = time_zone
        self.broker: int | None = None
        """Whose log it is, as far as lines have said."""
        self.cluster_ids: dict[str, None] = {}
        """The clusters that lines have named."""
        self.topic_names: dict[str, str] = {}
        """Names of topics, by id in hexadecimal digits, as far as lines have both."""
        self._last_us = 0
        self._entries = LogEntries()
        self._before: deque[bytes] = deque(maxlen=_LAST_LINES)
        """The beginnings of the last entries, whatever they tell."""

    @property
    def breaks_off(self) -> bool:
        """Whether the last entry is not at its end."""
        return self._entries.is_open

    @property
    def lists_settings(self) -> bool:
        """Whether the last entry is one in which the broker lists its settings."""
        return self._entries.lists_settings

    def begin_anew(self) -> None:
        """Note that the next line is the first one of a file: an entry does not go on in it."""
        self._entries = LogEntries()

    def last_time_ms(self, lines: Sequence[bytes]) -> int | None:
        """When the last of these lines that has a time was written."""
        for line in list(lines)[-_LAST_LINES:][::-1]:
            try:
                return line_time(line[:_PREFIX_BYTES], self._time_zone, self._last_us).us // 1000
            except LineError:
                continue
        return None

    def read(self, number: int, line: bytes) -> Iterator[BrokerLine]:
        """Yield what the entry tells of groups that ends with this line. Raises `LineError` for one that is to be left
        out."""
        entry = self._entries.take(number, line)
        if entry is None:
            return
        number, lines = entry
        if (cluster_id := cluster_id_in(lines[0])) is not None:
            self.cluster_ids[cluster_id] = None
        broker_match = _BROKER.search(lines[0])
        if broker_match is not None:
            self.broker = int(broker_match[1])
        if HINT.search(lines[0]) is not None:
            yield from self._of_groups(number, lines)
        else:
            self.topic_names |= topic_names_in(lines[0])
        self._before.append(lines[0][:_PREFIX_BYTES])

    def _of_groups(self, number: int, lines: Sequence[bytes]) -> Iterator[BrokerLine]:
        message, time_us = self._message(lines[0])
        text = _LOGGER.sub("", "\n".join([message, *map(_text_of, lines[1:])]))
        start = start_of_words(text)
        if start is None:
            return
        events, partition = events_at(text, start)
        context = _OFFSETS_PARTITION.search(text, 0, start)
        if context is not None:
            partition = int(context[1])
        if events and time_us is None:
            time_us = line_time(text[:start].encode(), self._time_zone, self._last_us).us
        for event in events:
            assert time_us is not None
            self._last_us = max(self._last_us, time_us)
            time_ms = time_us // 1000
            silence = self._silence(time_ms) if isinstance(event, MemberFailed | MemberFencedOut) else None
            if silence is not None:
                yield self._line(number, silence.until_ms, None, silence)
            yield self._line(number, time_ms, partition, event)

    def _silence(self, time_ms: int) -> LogSilent | None:
        """Return the silence of the log just before a line of this time."""
        later_ms = time_ms
        for before in reversed(self._before):
            try:
                at_ms = line_time(before, self._time_zone, self._last_us).us // 1000
            except LineError:
                continue  # it has no time
            if later_ms - at_ms >= _SILENCE_MS:
                return LogSilent(group_id=NO_GROUP, since_ms=at_ms, until_ms=later_ms)
            if time_ms - at_ms > _SILENCE_ENDS_MS:
                break
            later_ms = at_ms
        return None

    def _line(self, number: int, time_ms: int, partition: int | None, event: LineEvent) -> BrokerLine:
        return BrokerLine(
            time_ms=time_ms, broker=self.broker, partition=partition, file=self._file, number=number, event=event
        )

    def _message(self, line: bytes) -> tuple[str, int | None]:
        """The text of an entry's first line; where the line is JSON, its message and its time."""
        text = _plain(line)
        fields = _json_of(text)
        message = _find_message(fields, _JSON_DEPTH_MAX, is_meant=lambda value: HINT.search(value.encode()) is not None)
        if message is None:
            return text, None
        assert isinstance(fields, dict)
        return message.rstrip(), self._time_of_message(message, fields, text[: text.find("{")])

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


def _plain(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r\n")


def _json_of(text: str) -> object:
    """The JSON object with which a line ends; None if it has none."""
    start = text.find("{")
    if start >= 0 and text.endswith("}"):
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(text[start:].encode())
    return None


def _text_of(line: bytes) -> str:
    """The text of a further line of an entry."""
    text = _plain(line)
    message = _find_message(_json_of(text), _JSON_DEPTH_MAX, is_meant=lambda _: True)
    return text if message is None else message.rstrip("\r\n")


def _find_message(fields: object, depth: int, is_meant: Callable[[str], bool]) -> str | None:
    """The text in a JSON object that a broker wrote, wherever a log collector put it."""
    if not isinstance(fields, dict) or depth == 0:
        return None
    for name in _MESSAGE_FIELDS:
        value = fields.get(name)
        if isinstance(value, str) and is_meant(value):
            return value
    inner = (_find_message(value, depth - 1, is_meant) for value in fields.values())
    return next((message for message in inner if message is not None), None)
