"""One line of a Kafka broker's request log: `DEBUG Completed request:{...}` (KIP-673, Kafka 2.8 and later).

A line is written when the answer has been sent; it carries request, answer and where the time went. The request
arrived `totalTimeMs` before the time of its line.
"""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

import msgspec
from msgspec import Raw, Struct

from schemas.messages import APIS

MARK = b"Completed request:"
_API_NAMES = {int(api.key): name for name, api in APIS.items()}
_METADATA_KEY = 3
_DURATION_MAX_MS = 1e12

_TIMESTAMP = re.compile(
    rb"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>Z| ?[+-]\d\d:?\d\d)?"
)
_DAY_FIRST = re.compile(rb"(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) (\d\d:\d\d:\d\d),(\d{3})")
_EPOCH_MS = re.compile(rb"(?<!\d)(1\d{12})(?!\d)")
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")


class LineError(ValueError):
    """A line that should be a completed request and cannot be read."""


class LoggedRequest(Struct, frozen=True, array_like=True):
    """One completed request of the group protocol. Times are microseconds since 1970, from the broker's clock."""

    arrival_us: int
    """The time of the line minus `totalTimeMs`; never before the last answer on the same connection."""
    file_index: int
    line_number: int
    handled_us: int
    """When a handler took it up: its arrival plus the time in the request queue."""
    local_us: int
    """How long the handler worked on it; the coordinator's own thread may go on later."""
    ready_us: int
    """When its answer was ready: before the response queue and the sending."""
    logged_us: int
    """The time of its line: when the answer had been sent."""
    api: str
    """As in `schemas.messages.APIS`."""
    api_version: int
    correlation_id: int
    client_id: str
    client_host: str
    connection: str
    request: bytes
    """JSON, in Kafka's field names of this version."""
    response: bytes


class ReadLine(Struct):
    """What one line holds."""

    logged_us: int
    request: LoggedRequest | None
    """None: a request of another kind."""
    topics: tuple[tuple[str, str], ...] = ()
    """Names and ids (as Kafka prints them) that an answer to Metadata tells."""


class _Header(Struct):
    requestApiKey: int
    requestApiVersion: int
    correlationId: int
    clientId: str | None = None


class _Line(Struct):
    requestHeader: _Header
    request: Raw
    response: Raw
    connection: str
    totalTimeMs: float
    requestQueueTimeMs: float = 0.0
    localTimeMs: float = 0.0
    responseQueueTimeMs: float = 0.0
    sendTimeMs: float = 0.0


class _MetadataTopic(Struct):
    name: str | None = None
    topicId: str | None = None


class _MetadataResponse(Struct):
    topics: tuple[_MetadataTopic, ...] = ()


_decode = msgspec.json.Decoder(_Line).decode
_decode_metadata = msgspec.json.Decoder(_MetadataResponse).decode


def read_line(line: bytes, file_index: int, line_number: int, time_zone: tzinfo) -> ReadLine | None:
    """Read one line of a log; None if it is no completed request. Raises `LineError` if it is a damaged one."""
    start = line.find(MARK)
    if start < 0:
        return None
    logged_us = time_us(line[:start], time_zone)
    try:
        read = _decode(line[start + len(MARK) : line.rindex(b"}") + 1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LineError(f"the request is not the JSON that Kafka 2.8 and later print: {error}") from None
    except ValueError:
        raise LineError("the line ends before the request does") from None
    header = read.requestHeader
    api = _API_NAMES.get(header.requestApiKey)
    if api is None:
        return ReadLine(logged_us, None, _topics(read) if header.requestApiKey == _METADATA_KEY else ())
    arrival_us = logged_us - _us(read.totalTimeMs)
    return ReadLine(
        logged_us,
        LoggedRequest(
            arrival_us=arrival_us,
            file_index=file_index,
            line_number=line_number,
            handled_us=arrival_us + _us(read.requestQueueTimeMs),
            local_us=_us(read.localTimeMs),
            ready_us=logged_us - _us(read.sendTimeMs) - _us(read.responseQueueTimeMs),
            logged_us=logged_us,
            api=api,
            api_version=header.requestApiVersion,
            correlation_id=header.correlationId,
            client_id=header.clientId or "",
            client_host=_client_host(read.connection),
            connection=read.connection,
            request=bytes(read.request),
            response=bytes(read.response),
        ),
    )


def _us(milliseconds: float) -> int:
    if not abs(milliseconds) <= _DURATION_MAX_MS:
        raise LineError(f"no request takes {milliseconds:g} ms")
    return round(milliseconds * 1000)


def _client_host(connection: str) -> str:
    """`local:port-remote:port-processor-number` -> the remote address as Java prints it, with a leading slash."""
    parts = connection.split("-")
    if len(parts) < 2 or ":" not in parts[1]:
        raise LineError(f"the connection {connection[:200]!r} names no client address")
    return "/" + parts[1].rsplit(":", 1)[0]


def _topics(read: _Line) -> tuple[tuple[str, str], ...]:
    try:
        topics = _decode_metadata(read.response).topics
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    return tuple((topic.name, topic.topicId) for topic in topics if topic.name and topic.topicId)


def time_us(prefix: bytes, time_zone: tzinfo) -> int:
    """The last time in what stands before the request: log collectors put theirs in front of the broker's own."""
    try:
        if iso := list(_TIMESTAMP.finditer(prefix)):
            return _iso_us(iso[-1], time_zone)
        if day_first := _DAY_FIRST.search(prefix):
            day, month, year, time, milliseconds = day_first.groups()
            date = b"%s-%02d-%02d" % (year, _MONTHS.index(month) + 1, int(day))
            return _wall_clock_us(date + b" " + time, int(milliseconds) * 1000, time_zone)
        if epoch := _EPOCH_MS.search(prefix):
            return int(epoch[1]) * 1000
    except ValueError as error:
        raise LineError(f"the time of the line cannot be read: {error}") from None
    raise LineError("the line does not begin with a date and a time")


def _iso_us(found: re.Match[bytes], time_zone: tzinfo) -> int:
    fraction_us = int(((found["fraction"] or b"") + b"000000")[:6])
    wall_clock = found["date"] + b" " + found["time"]
    zone = (found["zone"] or b"").strip()
    if not zone:
        return _wall_clock_us(wall_clock, fraction_us, time_zone)
    with_zone = datetime.fromisoformat((wall_clock + zone).decode())
    return round(with_zone.timestamp()) * 1_000_000 + fraction_us


def _wall_clock_us(wall_clock: bytes, fraction_us: int, time_zone: tzinfo) -> int:
    local = datetime.fromisoformat(wall_clock.decode()).replace(tzinfo=time_zone)
    return round(local.timestamp()) * 1_000_000 + fraction_us
