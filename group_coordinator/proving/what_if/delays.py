"""How long partitions are without an owner depends on where in its interval each heartbeat falls, which is chance: so a
log is played several times, each time with what its clients do coming a little later.

What clients do close to each other stays together: a client that is started anew, one that leaves because another one
came. Each such group of doings comes later by a part of a heartbeat interval of its own, and each client that begins,
by a part of a fifth of that: of those that are started together, any may be the first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from uuid import NAMESPACE_OID, uuid5

from msgspec.structs import replace

from group_coordinator.proving.what_if.group_log import Span
from group_coordinator.proving.what_if.recorded_clients import RecordedClient

_PARTS = 1_000


class Delays:
    """One way to come later. Number 0: everything at its own time."""

    def __init__(self, clients: Sequence[RecordedClient], number: int) -> None:
        self._number = number
        interval_ms = max(client.heartbeat_interval_ms for client in clients)
        moments = sorted({moment for client in clients for moment in _moments(client)})
        self._begins = [moments[0], *[later for before, later in pairwise(moments) if later - before > interval_ms]]
        self._delays_ms = [_part(number, place) * interval_ms // _PARTS for place in range(len(self._begins))]
        self._interval_ms = interval_ms

    def at(self, time_ms: int) -> int:
        """Return when something happens that happened at this time. What was in order stays in order."""
        place = max(bisect_right(self._begins, time_ms) - 1, 0)
        later_ms = time_ms + self._delays_ms[place]
        if place + 1 < len(self._begins):
            later_ms = min(later_ms, self._begins[place + 1] + self._delays_ms[place + 1])
        return later_ms

    def of(self, client: RecordedClient, place: int) -> RecordedClient:
        """Return the client as it is then. `place`: its number among the clients."""
        ends_ms = None if client.ends_ms is None else self.at(client.ends_ms)
        own_ms = _part(self._number, -1 - place) * self._interval_ms // (5 * _PARTS)
        begins_ms = self.at(client.begins_ms) + own_ms
        return replace(
            client,
            begins_ms=begins_ms if ends_ms is None else min(begins_ms, ends_ms),
            ends_ms=ends_ms,
            subscriptions=[(self.at(time_ms), wanted) for time_ms, wanted in client.subscriptions],
            silences=self._spans(client.silences),
            stalls=self._spans(client.stalls),
            reactions=self._spans(client.reactions),
        )

    def _spans(self, spans: list[Span]) -> list[Span]:
        """Delay spans; each is as long as it was."""
        return [(self.at(from_ms), self.at(from_ms) + to_ms - from_ms) for from_ms, to_ms in spans]


def _moments(client: RecordedClient) -> list[int]:
    """Return when a client does something of its own account."""
    moments = [client.begins_ms, *[time_ms for time_ms, _ in client.subscriptions]]
    moments += [moment for span in (*client.silences, *client.stalls) for moment in span]
    return moments if client.ends_ms is None else [*moments, client.ends_ms]


def _part(number: int, place: int) -> int:
    """Return a number below `_PARTS`, the same in every run."""
    return uuid5(NAMESPACE_OID, f"{number} {place}").int % _PARTS if number else 0
