"""The requests of a log in the order of their arrival, whatever the order of the lines.

More than fit into memory are sorted in runs on disk that are merged. Then each connection is looked at: its requests
follow one another, each after the answer to the one before, so times that are rounded are put right; a line that comes
twice counts once; and connections of several brokers or recordings that are named alike are told apart.
"""

from __future__ import annotations

import heapq
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import IO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.proving.recordings.request_lines import LoggedRequest

_LENGTH_BYTES = 4
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LoggedRequest).decode
_by_arrival = attrgetter("arrival_us", "logged_us", "connection", "correlation_id", "file_index", "line_number")

DIP_MAX = 32
"""Java's clients number their requests a little before they send them, from several threads."""
SAME_TIME_US = 1_000_000
"""The same correlation id twice within so much: two connections at once, not one after the other."""

Shift = Callable[[LoggedRequest], int]
"""What is to be added to the times of a request, in microseconds."""


class RequestSorter:
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
            self._runs.append(_written(self._held))
            self._held, self._held_bytes = [], 0

    def take_sorted(self, shift: Shift | None = None) -> Iterator[LoggedRequest]:
        """Yield all requests, once. `shift` is None if all times are right."""
        if shift is not None:
            self._runs = [_written([_shifted(request, shift) for request in _read(run)]) for run in self._runs]
            self._held = [_shifted(request, shift) for request in self._held]
        self._held.sort(key=_by_arrival)
        try:
            yield from heapq.merge(*map(_read, self._runs), self._held, key=_by_arrival)
        finally:
            for run in self._runs:
                run.close()


def _written(requests: list[LoggedRequest]) -> IO[bytes]:
    requests.sort(key=_by_arrival)
    run = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the merge ends
    for request in requests:
        encoded = _encode(request)
        run.write(len(encoded).to_bytes(_LENGTH_BYTES) + encoded)
    run.seek(0)
    return run


def _read(run: IO[bytes]) -> Iterator[LoggedRequest]:
    while length := run.read(_LENGTH_BYTES):
        yield _decode(run.read(int.from_bytes(length)))


def _shifted(request: LoggedRequest, shift: Shift) -> LoggedRequest:
    return moved(request, us) if (us := shift(request)) else request


def moved(request: LoggedRequest, by_us: int) -> LoggedRequest:
    """Return a request with other times."""
    return replace(
        request,
        arrival_us=request.arrival_us + by_us,
        handled_us=request.handled_us + by_us,
        ready_us=request.ready_us + by_us,
        logged_us=request.logged_us + by_us,
    )


# ------------------------------------------------------------------------------------------------------- connections


class _Connection(Struct):
    """A connection from its first request to its last; another one may have had the same name."""

    name: str
    ready_us: int
    """When its last answer was ready."""
    correlation_id: int
    """Of its last request."""
    is_other: bool = False
    """There was one of that name already, open at the same time."""


class ConnectionOrder:
    """Requests in the order of arrival, each connection's in its own; and what the connections show of the log."""

    def __init__(self, rounding_us: int) -> None:
        """`rounding_us`: how exact the times of the lines are."""
        self.repeated = 0
        """Lines that were there before, to the byte."""
        self.reopened: Counter[str] = Counter()
        """Connections that began anew under their name -> how often."""
        self.mixed: Counter[str] = Counter()
        """Connections that are open at the same time as another of their name -> requests of the others."""
        self._tolerance_us = 2 * rounding_us
        self._waiting: list[tuple[tuple[object, ...], LoggedRequest]] = []
        self._waiting_of: Counter[str] = Counter()
        self._connections: dict[str, list[_Connection]] = {}
        self._last: LoggedRequest | None = None

    def arrange(self, requests: Iterator[LoggedRequest]) -> Iterator[LoggedRequest]:
        """Put requests into order; they come sorted by their arrival."""
        for request in requests:
            if self._is_repeated(request):
                self.repeated += 1
                continue
            self._push(request)
            while self._waiting[0][1].arrival_us + self._tolerance_us < request.arrival_us:
                yield from self._pop()
        while self._waiting:
            yield from self._pop()

    def _is_repeated(self, request: LoggedRequest) -> bool:
        """Equal lines have equal keys, so they come one behind the other."""
        last, self._last = self._last, request
        return last is not None and _content(last) == _content(request)

    def _push(self, request: LoggedRequest) -> None:
        heapq.heappush(self._waiting, (_by_arrival(request), request))
        self._waiting_of[request.connection] += 1

    def _pop(self) -> Iterator[LoggedRequest]:
        """The first that waits, unless another of its connection has to go before it: then nothing yet."""
        _, request = heapq.heappop(self._waiting)
        self._waiting_of[request.connection] -= 1
        if not self._waiting_of[request.connection]:
            del self._waiting_of[request.connection]
        elif (before := self._before(request)) is not None:
            self._push(_delayed(request, max(before.ready_us, before.arrival_us + 1)))
            return
        connection = self._connection_of(request)
        if request.arrival_us < connection.ready_us:
            request = _delayed(request, connection.ready_us)
            if self._waiting and self._waiting[0][0] < _by_arrival(request):
                self._push(request)
                return
        connection.ready_us = max(connection.ready_us, request.ready_us)
        connection.correlation_id = request.correlation_id
        self.mixed[request.connection] += connection.is_other
        yield request if connection.name == request.connection else replace(request, connection=connection.name)

    def _before(self, request: LoggedRequest) -> LoggedRequest | None:
        """A request of the same connection that came before, though its rounded time is a little later."""
        return next(
            (
                waiting
                for _, waiting in self._waiting
                if waiting.connection == request.connection
                and waiting.client_id == request.client_id
                and waiting.correlation_id < request.correlation_id
                and waiting.ready_us <= request.ready_us + self._tolerance_us
            ),
            None,
        )

    def _connection_of(self, request: LoggedRequest) -> _Connection:
        connections = self._connections.get(request.connection)
        if connections is None:
            connections = self._connections[request.connection] = []
        idle = [
            connection for connection in connections if connection.ready_us - self._tolerance_us <= request.arrival_us
        ]
        continued = [
            connection
            for connection in idle
            if connection.correlation_id - request.correlation_id <= DIP_MAX
            and connection.correlation_id != request.correlation_id
        ]
        if continued:
            return max(continued, key=lambda connection: connection.correlation_id)
        reused = next(
            (connection for connection in idle if connection.ready_us + SAME_TIME_US < request.arrival_us), None
        )
        if reused is not None:
            self.reopened[request.connection] += 1
            connections.remove(reused)
        number = len(connections) + self.reopened[request.connection] + 1
        name = request.connection if number == 1 else f"{request.connection} ({number})"
        connections.append(_Connection(name, request.arrival_us, request.correlation_id, is_other=bool(connections)))
        return connections[-1]


def _delayed(request: LoggedRequest, until_us: int) -> LoggedRequest:
    return replace(request, arrival_us=until_us, handled_us=max(request.handled_us, until_us))


def _content(line: LoggedRequest) -> tuple[object, ...]:
    return (
        line.request, line.response, line.connection, line.correlation_id, line.logged_us, line.arrival_us,
        line.client_id,
    )  # fmt: skip
