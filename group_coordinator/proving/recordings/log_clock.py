"""Whether the clock behind a request log went on: where it was set back or forward, and by how much.

A broker reads the next request of a connection when the last one is answered. So a line whose request came before the
one in front of it on its connection was answered, though its correlation id is the later one, shows a clock that was
set back (or summer time that ended). How far is known as exactly as the connections were busy; a step of nearly whole
quarters of an hour is taken to be whole ones.

A member that is told that all is well, though it was silent for longer than its session, and a connection that goes on
after more silence than brokers allow, show that the broker did not count the time between two lines. A step of whole
quarters of an hour is a clock that was set forward, as when summer time begins, unless another source has something of
the time between, or goes on where this log does. Any other is a standstill, of the broker, of its machine or of a
virtual machine that was paused: it is far commoner, its times are right, and none is changed.

The order of the files is found in the same way: what goes on in another file carries the greater correlation ids.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile

from msgspec import Struct

from group_coordinator.proving.recordings.request_lines import ReadLine

IDLE_MAX_US = 11 * 60 * 1_000_000
"""Brokers close a connection on which there was nothing for ten minutes."""
IDLE_REQUESTS_US = 60 * 1_000_000
"""With so long from one request to the next a connection is idle indeed; with less, lines are missing."""
TOLERANCE_US = 20_000
"""Times of lines are rounded to the millisecond; what contradicts them by more is no rounding."""
FALL_US = 300_000
"""Several threads write the lines, and may overtake one another by as much."""
STEP_US = 2_000_000
"""Between two lines: what may be a clock set forward."""
SESSION_SLACK_US = 1_000_000
"""By so much more than its session a member must have been silent: a broker that stands still expires late."""
SESSION_MAX_US = 30 * 60 * 1_000_000
"""Of a member whose JoinGroup is not there: more than this no broker allows by default."""
QUARTER_US = 15 * 60 * 1_000_000
NEARLY_US = 60 * 1_000_000
NEARLY_FORWARD_US = 20 * 1_000_000
"""A clock set forward is seen on the connection that was silent for the shortest time; one standstill in forty-five
of more than a quarter of an hour looks like it."""
MOMENT_SLACK_US = 5_000_000
"""How near to a step what another source tells says nothing of it."""
STEPS_KEPT = 200
SPANS_MAX = 10_000


class Edge(Struct):
    """The first or the last line of a connection in a file."""

    correlation_id: int
    line_number: int
    at_us: int
    """When the request came (of the first line), or had been answered (of the last)."""
    is_well: bool = False
    """A member is told here that it still is one."""


class Connection(Struct):
    """One connection in one file."""

    low: Edge
    high: Edge
    last: Edge
    session_us: int | None = None
    """As the member that joined on it asked for."""


class Step(Struct):
    """A place at which the clock may have been set."""

    line_number: int
    size_us: int
    """Between the two lines, above 0: how far their times go back, or on."""
    until_us: int = 0
    """Of a clock set forward: the time of the second line."""
    least_us: int = 0
    """Of a clock set back: by at least so much."""
    most_us: int | None = None
    """Of one set forward: by at most so much."""
    witnesses: int = 0
    """Connections that show it."""
    against: int = 0
    """Connections on which the earlier request stands further down in the log: there the lines were reordered, the
    clock was not set."""


class Standstill(Struct, frozen=True):
    """The broker did not count the time between two lines of a file."""

    line_number: int
    from_us: int
    until_us: int
    witnesses: int
    """Members and connections that went on after it, though they were silent for too long."""


class FileClock:
    """One file, line by line in its own order."""

    def __init__(self, moments_us: Sequence[int] = ()) -> None:
        """`moments_us`: when something happened by other sources, in order."""
        self._moments_us = moments_us
        self.standstills: list[Standstill] = []
        """Those that were found, when the clock is settled."""
        self.connections: dict[str, Connection] = {}
        self.first_us = self.last_us = 0
        """The times of the first and the last line, as they are written."""
        self.base_us = 0
        """What is added to all its times: how far the clock had been set before its first line."""
        self.is_disordered = False
        """Its lines are not in the order in which they were written."""
        self.falls = 0
        """How often its times go back by more than lines of several threads do."""
        self.largest_fall_us = 0
        self._spans: list[list[int]] = []
        """Stretches between places at which the clock may have been set: first line, earliest and latest time."""
        self._back: deque[Step] = deque(maxlen=STEPS_KEPT)
        self._forward: deque[Step] = deque(maxlen=STEPS_KEPT)
        self._shown: dict[int, tuple[Step, bool]] = {}
        self._lines: list[int] = []
        self._offsets_us: list[int] = []

    def add(self, line_number: int, line: ReadLine) -> None:
        self._take_time(line_number, line.logged_us)
        first = Edge(line.correlation_id, line_number, line.arrival_us, line.is_well)
        last = Edge(line.correlation_id, line_number, line.logged_us)
        name = f"{line.connection} {line.client_id}"
        connection = self.connections.get(name)
        if connection is None:
            connection = self.connections[name] = Connection(first, last, last)
        else:
            self._compare(connection, first, line.logged_us)
        if line.session_us is not None:
            connection.session_us = line.session_us
        connection.last = last
        if line.correlation_id < connection.low.correlation_id:
            connection.low = first
        if line.correlation_id > connection.high.correlation_id:
            connection.high = last

    def _take_time(self, line_number: int, logged_us: int) -> None:
        on_us = logged_us - self.last_us if self._spans else 0
        self.first_us, self.last_us = self.first_us if self._spans else logged_us, logged_us
        if on_us < -FALL_US:
            self.falls += 1
            self.largest_fall_us = max(self.largest_fall_us, -on_us)
        if on_us < -TOLERANCE_US:
            self._back.append(Step(line_number, -on_us))
        elif on_us > STEP_US:
            self._forward.append(Step(line_number, on_us, until_us=logged_us))
        if not self._spans or (not -TOLERANCE_US <= on_us <= STEP_US and len(self._spans) < SPANS_MAX):
            self._spans.append([line_number, logged_us, logged_us])
        span = self._spans[-1]
        span[1], span[2] = min(span[1], logged_us), max(span[2], logged_us)

    def _compare(self, connection: Connection, now: Edge, logged_us: int) -> None:
        """A line and the one before it on the same connection."""
        since_us = now.at_us - connection.last.at_us
        if now.correlation_id < connection.last.correlation_id and logged_us < connection.last.at_us - TOLERANCE_US:
            self.is_disordered = True
            if step := _largest(self._back, connection.last.line_number, 0):
                step.against += 1
        elif now.correlation_id > connection.last.correlation_id and since_us < -TOLERANCE_US:
            if step := _largest(self._back, connection.last.line_number, -since_us // 2):
                step.least_us = max(step.least_us, -since_us)
                self._show(step, True)
        elif now.correlation_id > connection.last.correlation_id:
            for forward_step in _since(self._forward, connection.last.line_number):
                forward_step.most_us = since_us if forward_step.most_us is None else min(forward_step.most_us, since_us)
            step = _largest(self._forward, connection.last.line_number, since_us // 2)
            if step is not None and _too_silent(connection, now, since_us):
                self._show(step, False)

    def _show(self, step: Step, is_back: bool) -> None:
        step.witnesses += 1
        self._shown[step.line_number] = step, is_back

    def settle(self) -> None:
        """Find where the clock was set, and by how much, when all lines are read."""
        offset_us = 0
        for line_number, (step, is_back) in sorted(self._shown.items()):
            if is_back and step.witnesses > step.against:
                self.falls -= step.size_us > FALL_US
                offset_us += set_back_us(step.least_us)
            elif not is_back and not self.is_disordered and (step.most_us or 0) > STEP_US:
                forward_us = self.forward_us(step.most_us or 0, step.until_us)
                if not forward_us:
                    from_us = step.until_us - step.size_us
                    self.standstills.append(Standstill(line_number, from_us, step.until_us, step.witnesses))
                    continue
                offset_us -= forward_us
            else:
                continue
            self._lines.append(line_number)
            self._offsets_us.append(offset_us)

    def forward_us(self, most_us: int, until_us: int) -> int:
        """Return by how much the clock was set forward before a time; 0: it was not. `most_us`: the most that it can
        be."""
        forward_us = set_forward_us(most_us)
        between_us = (until_us - forward_us + MOMENT_SLACK_US, until_us - MOMENT_SLACK_US)
        behind_us = (max(self.last_us - forward_us, until_us) + MOMENT_SLACK_US, self.last_us)
        is_against = any(self._has_moment(*span) for span in (between_us, behind_us))
        return 0 if is_against else forward_us

    def _has_moment(self, from_us: int, until_us: int) -> bool:
        place = bisect_left(self._moments_us, from_us)
        return place < len(self._moments_us) and self._moments_us[place] <= until_us

    def offset_us(self, line_number: int) -> int:
        """Return the correction to the times of a line."""
        place = bisect_right(self._lines, line_number)
        return self.base_us + (self._offsets_us[place - 1] if place else 0)

    @property
    def end_offset_us(self) -> int:
        return self.base_us + (self._offsets_us[-1] if self._offsets_us else 0)

    def span(self) -> tuple[int, int] | None:
        """Return the corrected times of the earliest and the latest line; None if there are no lines."""
        if not self._spans:
            return None
        earliest = min(earliest_us + self.offset_us(line) for line, earliest_us, _ in self._spans)
        return earliest, max(latest_us + self.offset_us(line) for line, _, latest_us in self._spans)

    def steps(self) -> Iterator[tuple[int, int]]:
        """Yield each line from which on the clock was set, and what was added to the times from there on; below 0
        where it was set forward."""
        before_us = 0
        for line_number, offset_us in zip(self._lines, self._offsets_us, strict=True):
            yield line_number, offset_us - before_us
            before_us = offset_us


def _too_silent(connection: Connection, now: Edge, since_us: int) -> bool:
    """Return whether a member or connection lives on after more silence than a broker allows.

    Where lines are missing it seems so, too; but then there are as many correlation ids between as it takes to stay a
    member.
    """
    session_us = SESSION_MAX_US if connection.session_us is None else connection.session_us
    missing = now.correlation_id - connection.high.correlation_id
    if since_us > IDLE_MAX_US and since_us > missing * IDLE_REQUESTS_US:
        return True
    return now.is_well and since_us > session_us + SESSION_SLACK_US and since_us > missing * session_us // 2


def set_back_us(least_us: int) -> int:
    """Return by how much a clock was set back, given the least that it must be."""
    whole_us = -(-(least_us - TOLERANCE_US) // QUARTER_US) * QUARTER_US
    return whole_us if whole_us - least_us <= NEARLY_US else least_us


def set_forward_us(most_us: int) -> int:
    """Return by how much a clock was set forward, given the most that it can be; 0: it was not."""
    whole_us = (most_us + TOLERANCE_US) // QUARTER_US * QUARTER_US
    return whole_us if most_us - whole_us <= NEARLY_FORWARD_US else 0


def _since(steps: deque[Step], line_number: int) -> Iterator[Step]:
    return takewhile(lambda step: step.line_number > line_number, reversed(steps))


def _largest(steps: deque[Step], since_line: int, least_us: int) -> Step | None:
    """The largest step behind a line, of those that are large enough."""
    large = (step for step in _since(steps, since_line) if step.size_us >= least_us)
    return max(large, key=lambda step: step.size_us, default=None)


# ----------------------------------------------------------------------------------------------------------- files


class FileStep(Struct, frozen=True):
    """The clock was set between the end of one file and the beginning of another."""

    file_index: int
    offset_us: int


class _Link(Struct):
    """Connections that two files share show the order of the two."""

    witnesses: int = 0
    least_back_us: int = 0
    most_forward_us: int | None = None
    silent: bool = False
    """A member was told that all is well, though the time between was longer than its session."""


def link_files(clocks: Sequence[FileClock]) -> list[FileStep]:
    """Carry the clock from file to file, and find where it was set between two.

    Files are in the order of their first times.
    """
    links = _links(clocks)
    steps: list[FileStep] = []
    for file_index in _in_order(len(clocks), links):
        before = [(links[earlier, later].witnesses, earlier) for earlier, later in links if later == file_index]
        if not before:
            continue
        link = links[max(before)[1], file_index]
        clock, previous = clocks[file_index], clocks[max(before)[1]]
        own_us = 0
        if link.least_back_us > TOLERANCE_US:
            own_us = set_back_us(link.least_back_us)
        elif link.silent and link.most_forward_us is not None:
            own_us = -clock.forward_us(link.most_forward_us, clock.first_us)
            if not own_us:
                ended_us = clock.first_us - link.most_forward_us
                clock.standstills.insert(0, Standstill(1, ended_us, clock.first_us, link.witnesses))
        clock.base_us = previous.end_offset_us + own_us
        if own_us:
            steps.append(FileStep(file_index, own_us))
    return steps


def _links(clocks: Sequence[FileClock]) -> dict[tuple[int, int], _Link]:
    """(earlier, later) -> what shows it, of files that share connections."""
    homes: dict[str, list[int]] = {}
    for file_index, clock in enumerate(clocks):
        for name in clock.connections:
            homes.setdefault(name, []).append(file_index)
    links: dict[tuple[int, int], _Link] = {}
    for name, files in homes.items():
        by_id = sorted(files, key=lambda file_index: clocks[file_index].connections[name].low.correlation_id)
        for earlier, later in pairwise(by_id):
            _compare_files(links.setdefault((earlier, later), _Link()), clocks[earlier], clocks[later], name)
    witnessed = {pair: link for pair, link in links.items() if link.witnesses > 0}
    return {pair: link for pair, link in witnessed.items() if link.witnesses > _witnesses(witnessed, pair[::-1])}


def _compare_files(link: _Link, earlier: FileClock, later: FileClock, name: str) -> None:
    ended_connection, began = earlier.connections[name], later.connections[name].low
    if ended_connection.high.correlation_id >= began.correlation_id:
        return  # the ids overlap: the same lines again, or another life of the connection
    ended_us = (
        ended_connection.high.at_us + earlier.offset_us(ended_connection.high.line_number) - earlier.end_offset_us
    )
    since_us = began.at_us + later.offset_us(began.line_number) - ended_us
    link.witnesses += 1
    link.least_back_us = max(link.least_back_us, -since_us)
    link.most_forward_us = since_us if link.most_forward_us is None else min(link.most_forward_us, since_us)
    link.silent = link.silent or _too_silent(ended_connection, began, since_us)


def _witnesses(links: Mapping[tuple[int, int], _Link], pair: tuple[int, ...]) -> int:
    link = links.get((pair[0], pair[1]))
    return 0 if link is None else link.witnesses


def _in_order(count: int, links: Mapping[tuple[int, int], _Link]) -> list[int]:
    """Files, each behind those that it goes on from; where nothing says more, by their times."""
    waits = Counter(later for _, later in links)
    order: list[int] = []
    unordered = list(range(count))
    while unordered:
        next_index = next((index for index in unordered if not waits[index]), unordered[0])
        unordered.remove(next_index)
        order.append(next_index)
        waits.subtract(later for earlier, later in links if earlier == next_index)
    return order
