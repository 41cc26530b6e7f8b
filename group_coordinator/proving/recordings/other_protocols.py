"""When groups were of another protocol than the classic one, as heartbeats show it, and when they were classic again.

A group becomes one of another protocol with the first heartbeat of that protocol that its broker takes. It is classic
again by the time that a classic leader is told its members: no other group tells them.
"""

from __future__ import annotations

from msgspec import Struct

from group_coordinator.proving.recordings.expectations import MAY_BE_PARKED
from group_coordinator.proving.recordings.group_requests import GroupRequest

_SECOND_US = 1_000_000


class Stretch(Struct, frozen=True):
    """A time in which a group is not classic."""

    from_us: int
    until_us: int
    """The last heartbeat: soon after it the group is classic again, or gone."""
    kind: str

    @property
    def why(self) -> str:
        """Why nothing can be said of requests in it."""
        return f"of a {self.kind}, which is not understood yet"

    def covers(self, request: GroupRequest) -> bool:
        """Return whether a request was handled in it, or waited when it began."""
        logged = request.logged
        waits = logged.api in MAY_BE_PARKED and logged.handled_us < self.from_us <= logged.ready_us
        return waits or self.from_us <= logged.handled_us <= self.until_us


class ProtocolTimes:
    """Fed with heartbeats of other protocols and with what classic leaders are told, in any order."""

    def __init__(self) -> None:
        self._heartbeats_us: dict[str, dict[tuple[int, str], tuple[int, int]]] = {}
        """Group -> second and kind of group -> first and last heartbeat in it."""
        self._classic_us: dict[str, list[int]] = {}
        self._stretches: dict[str, tuple[Stretch, ...]] = {}

    def note_heartbeat(self, group_id: str, kind: str, us: int) -> None:
        of_group, key = self._heartbeats_us.setdefault(group_id, {}), (us // _SECOND_US, kind)
        first_us, last_us = of_group.get(key, (us, us))
        of_group[key] = min(first_us, us), max(last_us, us)

    def note_classic(self, group_id: str, us: int) -> None:
        self._classic_us.setdefault(group_id, []).append(us)

    def stretches(self, group_id: str) -> tuple[Stretch, ...]:
        """Return the stretches of a group in their order, when all lines have been read."""
        if group_id not in self._heartbeats_us:
            return ()
        stretches = self._stretches.get(group_id)
        if stretches is None:
            stretches = self._stretches[group_id] = tuple(self._find_stretches(group_id))
        return stretches

    def _find_stretches(self, group_id: str) -> list[Stretch]:
        heartbeats = [
            (us, kind) for (_, kind), times in self._heartbeats_us[group_id].items() for us in dict.fromkeys(times)
        ]
        classic = [(us, "") for us in self._classic_us.get(group_id, ())]
        stretches: list[Stretch] = []
        is_classic = True
        for us, kind in sorted((*heartbeats, *classic)):
            if not kind:
                is_classic = True
            elif is_classic or kind != stretches[-1].kind:
                stretches.append(Stretch(us, us, kind))
                is_classic = False
            else:
                stretches[-1] = Stretch(stretches[-1].from_us, us, kind)
        return stretches
