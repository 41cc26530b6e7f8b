"""One line of a Kafka broker's request log: `DEBUG Completed request:{...}` (KIP-673, Kafka 2.8 and later).

A line is written when the answer has been sent; it carries request, answer and where the time went. The request
arrived `totalTimeMs` before the time of its line.
"""

from __future__ import annotations

import re
from datetime import tzinfo

import msgspec
from msgspec import Raw, Struct

from group_coordinator.proving.recordings.cluster_lines import ClusterLine, cluster_line
from group_coordinator.watching.broker_logs.line_times import MILLISECOND_US, LineError, line_time
from schemas.messages import APIS

API_VERSIONS_KEY = 18
_FETCH, _METADATA, _LIST_OFFSETS, _DESCRIBE_LOG_DIRS, _TXN_OFFSET_COMMIT = 1, 3, 2, 35, 28
_JOIN_GROUP = 11
"""Only brokers serve it. The listener of a controller tells fewer APIs, and so nothing of this table."""
_SINCE = (
    ("4.4", _TXN_OFFSET_COMMIT, 6), ("4.3", _DESCRIBE_LOG_DIRS, 5), ("4.2", _LIST_OFFSETS, 11), ("4.1", _FETCH, 18),
    ("4.0", _METADATA, 13), ("3.9", _FETCH, 12),
)  # fmt: skip
"""The first API of each version that a broker answers to ApiVersions, and its highest version from then on."""


class _Api(Struct):
    apiKey: int
    maxVersion: int


class _ApiVersions(Struct):
    apiKeys: list[_Api] = []


_decode_versions = msgspec.json.Decoder(_ApiVersions).decode


def version_of_apis(answer: Raw | bytes) -> str | None:
    """Return the version of a broker that gives this answer to ApiVersions; None if it does not say, or no broker
    gives it."""
    try:
        highest = {api.apiKey: api.maxVersion for api in _decode_versions(answer).apiKeys}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if _JOIN_GROUP not in highest:
        return None
    return next((version for version, key, least in _SINCE if highest.get(key, -1) >= least), None)


MARK = b"Completed request:"
_API_NAMES = {int(api.key): name for name, api in APIS.items()}
WRITE_TXN_MARKERS_KEY = 27
_ENDING_KEYS = frozenset({WRITE_TXN_MARKERS_KEY, 22, 26})
"""Requests that end transactions; 22: InitProducerId, 26: EndTxn."""
OTHER_PROTOCOLS = {76: "share group", 88: "streams group"}
"""Heartbeats that make a group one of another protocol, and what it then is."""
_OF_MEMBERS = frozenset({"JoinGroup", "SyncGroup", "Heartbeat"})
_TELLS_MEMBERS = b'"members":[{'
_DURATION_MAX_MS = 1e12
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters that no logger writes: tabs, ends of lines and the escape of colours are text."""
_PIECES_OF_A_REQUEST = (b"(kafka.request.logger)", b'"requestHeader":', b'"responseQueueTimeMs":')
_CUT_BEFORE_THE_REQUEST = re.compile(
    rb"\[?\d[\d:,. TZ+-]*\]?\s*(\[[^]]*\]?\s*)?([A-Z]+\s*)?(\[[^]]*\]?\s*)?(C[a-z]* ?[a-z]*)?"
)
"""A time, perhaps a level and a thread, perhaps the first letters of `Completed request:`, and no more."""
_CUT_MAX_BYTES = 300


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
    is_tapped: bool = False
    """A tap wrote the line, whose log has the requests to all brokers."""


class ReadLine(Struct):
    """The content of one line."""

    logged_us: int
    arrival_us: int
    api_key: int
    connection: str
    correlation_id: int
    client_id: str
    request: LoggedRequest | None = None
    """None: a request of another kind."""
    cluster: ClusterLine | None = None
    """What the line tells of the cluster's topics and of groups' settings."""
    ends_transactions: tuple[Raw, Raw, int, int] | None = None
    """A request that ends transactions and its answer, when a handler took it up and when its answer was ready."""
    session_us: int | None = None
    """The session timeout of a member that joins here."""
    is_well: bool = False
    """A member is answered without an error: it still is one."""
    group_id: str | None = None
    """Of a request of a group that is of another protocol."""
    leads_group_id: str | None = None
    """The group whose members are told here, to their leader."""
    resolution_us: int = MILLISECOND_US
    """How exact the time of the line is."""
    unknown_zone: str | None = None
    """The name of a time zone that stands behind the time and says nothing here."""
    version: str | None = None
    """Of the broker, where the line shows it."""
    foreign: str | None = None
    """What is wrong around the request, which itself can be read."""


class _Header(Struct):
    requestApiKey: int
    requestApiVersion: int
    correlationId: int
    clientId: str | None = None
    requestApiKeyName: str = ""


class _Line(Struct):
    requestHeader: _Header
    request: Raw
    response: Raw
    connection: str
    totalTimeMs: float
    isForwarded: bool = False
    requestQueueTimeMs: float = 0.0
    localTimeMs: float = 0.0
    responseQueueTimeMs: float = 0.0
    sendTimeMs: float = 0.0
    clientAddress: str | None = None
    """Of lines of a tap."""


class _Glimpse(Struct):
    """The few fields of a request or an answer that are looked at here."""

    groupId: str | None = None
    memberId: str | None = None
    sessionTimeoutMs: int | None = None
    errorCode: int | None = None


_decode = msgspec.json.Decoder(_Line).decode
_decode_glimpse = msgspec.json.Decoder(_Glimpse).decode


def read_line(
    line: bytes, file_index: int, line_number: int, time_zone: tzinfo, not_before_us: int = 0
) -> ReadLine | None:
    """Read one line of a log; None if it is no completed request. Raises `LineError` if it is a damaged one.

    `not_before_us`: of a time that comes twice, where summer time ends, the one that is meant does not go back behind
    this.
    """
    start = line.find(MARK)
    if start < 0:
        _insist_on_another_logger(line)
        return None
    time = line_time(line[:start], time_zone, not_before_us)
    try:
        end = line.rindex(b"}") + 1
        raw = _decode(line[start + len(MARK) : end])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LineError(f"the request is not the JSON that Kafka 2.8 and later print: {error}") from None
    except ValueError:
        raise LineError("the line ends before the request does") from None
    header = raw.requestHeader
    parsed = ReadLine(
        logged_us=time.us,
        arrival_us=time.us - _us(raw.totalTimeMs),
        api_key=header.requestApiKey,
        connection=raw.connection,
        correlation_id=header.correlationId,
        client_id=header.clientId or "",
        resolution_us=time.resolution_us,
        unknown_zone=time.unknown_zone,
        foreign=what_is_foreign(line[:start]) or what_is_foreign(line[end:]),
    )
    _look_into(raw, parsed, file_index, line_number)
    return parsed


def _look_into(raw: _Line, parsed: ReadLine, file_index: int, line_number: int) -> None:
    """Take what is needed of a request, by its kind."""
    header = raw.requestHeader
    api = _API_NAMES.get(header.requestApiKey)
    if api is not None:
        parsed.request = _logged_request(api, raw, parsed, file_index, line_number)
    elif header.requestApiKey == API_VERSIONS_KEY:
        parsed.version = version_of_apis(raw.response)
    elif header.requestApiKey in _ENDING_KEYS:
        parsed.ends_transactions = (raw.request, raw.response, *_handled_and_ready_us(raw, parsed))
    if not raw.isForwarded:  # those are in the log a second time, as the broker passed them on
        parsed.cluster = cluster_line(
            header.requestApiKey, raw.request, raw.response, *_handled_and_ready_us(raw, parsed)
        )
    if api in _OF_MEMBERS:
        request = _glimpse(raw.request)
        parsed.is_well = bool(request.memberId) and _glimpse(raw.response).errorCode == 0
        if api == "JoinGroup" and _TELLS_MEMBERS in bytes(raw.response):
            parsed.leads_group_id = request.groupId
        parsed.session_us = None if request.sessionTimeoutMs is None else request.sessionTimeoutMs * 1000
    elif api is None:
        parsed.group_id = _glimpse(raw.request).groupId
    if header.requestApiKey in OTHER_PROTOCOLS:
        parsed.is_well = _glimpse(raw.response).errorCode == 0


def _logged_request(api: str, raw: _Line, parsed: ReadLine, file_index: int, line_number: int) -> LoggedRequest:
    handled_us, ready_us = _handled_and_ready_us(raw, parsed)
    return LoggedRequest(
        arrival_us=parsed.arrival_us,
        file_index=file_index,
        line_number=line_number,
        handled_us=handled_us,
        local_us=_us(raw.localTimeMs),
        ready_us=ready_us,
        logged_us=parsed.logged_us,
        api=api,
        api_version=raw.requestHeader.requestApiVersion,
        correlation_id=parsed.correlation_id,
        client_id=parsed.client_id,
        client_host=_client_host(raw.connection),
        connection=raw.connection,
        request=bytes(raw.request),
        response=bytes(raw.response),
        is_tapped=raw.clientAddress is not None,
    )


def _handled_and_ready_us(raw: _Line, parsed: ReadLine) -> tuple[int, int]:
    handled_us = parsed.arrival_us + _us(raw.requestQueueTimeMs)
    return handled_us, parsed.logged_us - _us(raw.sendTimeMs) - _us(raw.responseQueueTimeMs)


def _glimpse(body: Raw) -> _Glimpse:
    try:
        return _decode_glimpse(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Glimpse()


def _insist_on_another_logger(line: bytes) -> None:
    """A line without a request is one of another logger, or it is damaged: raises `LineError`."""
    if problem := what_is_foreign(line):
        raise LineError(problem)
    if any(piece in line for piece in _PIECES_OF_A_REQUEST) and b"received request:" not in line:
        raise LineError("the line is a piece of a request")
    if len(line) < _CUT_MAX_BYTES and _CUT_BEFORE_THE_REQUEST.fullmatch(line.strip()):
        raise LineError("the line ends before the request begins")


def what_is_foreign(text: bytes) -> str | None:
    """Return why bytes can be no line of any logger; None if they can."""
    if _NOT_TEXT.search(text):
        return "bytes that are no text"
    try:
        text.decode()
    except UnicodeDecodeError:
        return "bytes that are no UTF-8"
    return None


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
