"""When other brokers took over the coordination of groups, as brokers' logs tell it, or as the request logs show it.

A broker that loads a group has what the offsets log has of it, and gives each member a new session. Its log tells when;
without it, the answers show that another broker coordinates the group, or that the same one did not for a while.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

from msgspec.structs import replace

from group_coordinator.proving.recordings.expectations import LATE_MS, MAY_BE_PARKED, Load
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.recorded_groups import HAND_OVER_US
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, GroupLoaded
from schemas.error_codes import ErrorCode

_ANYWHERE = "FindCoordinator"
"""Any broker answers this for any group."""
_ready_us, handled_us, _from_us = map(attrgetter, ("logged.ready_us", "logged.handled_us", "from_us"))
RETRY_US = LATE_MS * 1000 // 2
"""How long after a load a member may come: it is refused until then, and asks again."""


STALE = "that a broker answered which had stood still, and did not know yet that another one coordinates the group"
STOOD_STILL_US = 2_000_000
"""A broker that answers nobody for so long may have stood still."""
LEARNS_US = 2_000_000
"""So soon it learns of its successors."""


class Places:
    """The brokers of a log: what is in one file, or has one address, is of one broker. In a tap's file only the address
    tells."""

    def __init__(self, requests: Sequence[GroupRequest]) -> None:
        """`requests`: of all groups."""
        self._roots: dict[object, object] = {}
        for request in requests:
            self._join(*_marks(request))
        self._ready_us: dict[object, list[int]] = {}
        for request in requests:
            if request.set_aside is None and request.logged.api != _ANYWHERE:
                self._ready_us.setdefault(self.of(request), []).append(request.logged.ready_us)
        for times in self._ready_us.values():
            times.sort()
        self._connections: dict[object, dict[str, tuple[int, int]]] = {}
        for request in requests:
            logged, of_place = request.logged, self._connections.setdefault(self.of(request), {})
            first_us, last_us = of_place.get(logged.connection, (logged.arrival_us, logged.ready_us))
            of_place[logged.connection] = min(first_us, logged.arrival_us), max(last_us, logged.ready_us)

    def of(self, request: GroupRequest) -> object:
        return self._root(_marks(request)[0])

    def last_heard_us(self, before: GroupRequest, after: GroupRequest | None, load_us: int) -> int:
        """Return when the old coordinator last answered before a load.

        One that was started anew answers again, so of it only the group's last answer counts.
        """
        place = self.of(before)
        if after is None or self.of(after) == place:
            return before.logged.ready_us
        times = self._ready_us[place]
        return times[max(bisect_left(times, load_us) - 1, 0)]

    def stood_still(self, place: object, us: int) -> tuple[int, int] | None:
        """Return from when until when a broker answered nobody, shortly before a time; None: it did all the time."""
        times = self._ready_us[place]
        for index in range(bisect_right(times, us + LEARNS_US) - 1, 0, -1):
            if times[index] < us - LEARNS_US:
                return None
            if times[index] - times[index - 1] > STOOD_STILL_US:
                return times[index - 1], times[index]
        return None

    def is_anew(self, place: object, from_us: int, until_us: int) -> bool:
        """Return whether no connection of a broker outlived this time: it was started anew."""
        return not any(
            first_us < from_us and until_us < last_us for first_us, last_us in self._connections[place].values()
        )

    def _join(self, first: object, second: object) -> None:
        self._roots[self._root(first)] = self._root(second)

    def _root(self, mark: object) -> object:
        while (parent := self._roots.setdefault(mark, mark)) != mark:
            mark = parent
        return mark


def _marks(request: GroupRequest) -> tuple[object, object]:
    address = request.logged.connection.split("-", 1)[0]
    return address if request.logged.is_tapped else request.logged.file_index, address


def without_stale(groups: Mapping[str, list[GroupRequest]], places: Places) -> dict[str, list[GroupRequest]]:
    """Return the requests with those set aside that a broker answered after a standstill in which another one had taken
    over the group, and goes on with it."""
    return {group_id: _without_stale(requests, places) for group_id, requests in groups.items()}


def _without_stale(requests: list[GroupRequest], places: Places) -> list[GroupRequest]:
    accepted = accepted_of(requests)
    stale: set[str] = set()
    before: GroupRequest | None = None
    for index, request in enumerate(accepted):
        place = places.of(request)
        if before is not None and places.of(before) != place:
            pause = places.stood_still(place, request.logged.ready_us)
            if pause is not None and pause[0] < handled_us(before) and _goes_on(accepted[index:], before, places):
                stale.add(request.request_id)
                continue
        before = request
    return [replace(each, set_aside=STALE) if each.request_id in stale else each for each in requests]


def _goes_on(later: Sequence[GroupRequest], before: GroupRequest, places: Places) -> bool:
    """Return whether the broker that answered before answers again, as soon as the other learns of it."""
    until_us = later[0].logged.handled_us + 2 * LEARNS_US
    place = places.of(before)
    return any(places.of(each) == place and each.logged.handled_us < until_us for each in later)


def loads_of(requests: Sequence[GroupRequest], moves: Sequence[BrokerLine], places: Places) -> list[Load]:
    """Return the loads of one group. `requests` are all to it, with those that were refused before they reached it."""
    coordinator_requests = sorted(
        (request for request in requests if request.logged.api != _ANYWHERE),
        key=handled_us,
    )
    accepted = accepted_of(requests)
    refusals = sorted((request for request in coordinator_requests if request.refused_as_coordinator), key=_refused_us)
    loads = []
    for line, unload_ms in _logged_loads(moves):
        first = _first_after(accepted, line.time_ms * 1000, places)
        if first:
            after_it = accepted[first] if first < len(accepted) else None
            loads.append(_load(accepted[first - 1], after_it, line, unload_ms, places))
    for before, after in pairwise(accepted):
        if any(before.logged.handled_us < load.loaded_us <= after.logged.ready_us + HAND_OVER_US for load in loads):
            continue
        refusals_between = _refused_between(refusals, before, after, places)
        if places.of(before) != places.of(after) or refusals_between:
            loads.append(_inferred(before, after, refusals_between, places))
    return sorted(loads, key=lambda load: load.from_us)


def with_restarts(
    groups: Mapping[str, Sequence[GroupRequest]], loads: Mapping[str, list[Load]], places: Places
) -> dict[str, list[Load]]:
    """Return the loads of all groups, with those of a broker that was started anew, as another group shows: a group
    that nobody asked for meanwhile was loaded then, too."""
    accepted = {group_id: accepted_of(requests) for group_id, requests in groups.items()}
    loads = _with_common_times(accepted, loads, places)
    restarts = _restarts(accepted, loads, places)
    all_loads = {
        group_id: sorted([*own, *_missing(accepted[group_id], own, restarts, places)], key=_from_us)
        for group_id, own in loads.items()
    }

    def is_start(group_id: str, load: Load) -> bool:
        first = _first_of_load(accepted[group_id], load)
        return first is not None and places.is_anew(places.of(first), load.from_us, load.loaded_us)

    return {
        group_id: [replace(load, is_start=is_start(group_id, load)) for load in of_group]
        for group_id, of_group in all_loads.items()
    }


def _with_common_times(
    accepted: Mapping[str, Sequence[GroupRequest]], loads: Mapping[str, list[Load]], places: Places
) -> dict[str, list[Load]]:
    """Return loads that answers alone show, as early as the first group that the same broker had loaded, and not
    earlier than its own answers allow: a broker loads all that it takes over at a time, and a member may ask late."""
    first_us: dict[object, list[tuple[int, int]]] = {}
    """Of each broker: when a load may have begun at the earliest, and when it was over."""
    for group_id, of_group in loads.items():
        for load in of_group:
            first = _first_of_load(accepted[group_id], load)
            if first is not None:
                first_us.setdefault(places.of(first), []).append((load.from_us, first.logged.handled_us))

    def moved(group_id: str, load: Load) -> Load:
        first = _first_of_load(accepted[group_id], load)
        if not load.not_after_us or first is None:
            return load
        of_place = first_us[places.of(first)]
        over_us = min(us for from_us, us in of_place if from_us <= load.loaded_us and load.from_us <= us)
        if load.loaded_us <= over_us:
            return load
        return replace(load, loaded_us=max(over_us - RETRY_US, load.not_before_us))

    return {group_id: [moved(group_id, load) for load in of_group] for group_id, of_group in loads.items()}


def _first_of_load(accepted: Sequence[GroupRequest], load: Load) -> GroupRequest | None:
    place = bisect_left(accepted, load.loaded_us, key=handled_us)
    return accepted[place] if place < len(accepted) else None


def _restarts(
    accepted: Mapping[str, Sequence[GroupRequest]], loads: Mapping[str, list[Load]], places: Places
) -> dict[object, list[Load]]:
    """Return when each broker was started anew: after the last that any group had of it, before the first load."""
    restarts: dict[object, list[Load]] = {}
    all_loads = [(group_id, load) for group_id, of_group in loads.items() for load in of_group]
    for group_id, load in sorted(all_loads, key=lambda load: load[1].loaded_us):
        requests = accepted[group_id]
        after = bisect_left(requests, load.loaded_us, key=handled_us)
        if after == len(requests) or not places.is_anew(places.of(requests[after]), load.from_us, load.loaded_us):
            continue
        of_place = restarts.setdefault(places.of(requests[after]), [])
        if of_place and load.from_us < of_place[-1].loaded_us:
            before = of_place.pop()
            load = replace(before, from_us=max(before.from_us, load.from_us))
        of_place.append(load)
    return restarts


def _missing(
    accepted: Sequence[GroupRequest], own: Sequence[Load], restarts: Mapping[object, list[Load]], places: Places
) -> Iterator[Load]:
    """Yield the restarts between two requests of a group to the same broker that its own loads do not have."""
    for place, of_place in restarts.items():
        for load in of_place:
            first = bisect_left(accepted, load.loaded_us, key=handled_us)
            if not 0 < first < len(accepted):
                continue
            before, after = accepted[first - 1], accepted[first]
            from_us, until_us = before.logged.handled_us, after.logged.ready_us + HAND_OVER_US
            is_there = places.of(before) == place == places.of(after)
            if is_there and not any(from_us < each.loaded_us <= until_us for each in own):
                load_from_us = max(load.from_us, from_us + 1)
                open_until_us = after.logged.handled_us if load.not_after_us else 0
                yield replace(load, from_us=load_from_us, not_before_us=load_from_us, not_after_us=open_until_us)


def accepted_of(requests: Sequence[GroupRequest]) -> list[GroupRequest]:
    """Return those that a coordinator took, in the order of time."""
    accepted = (request for request in requests if request.logged.api != _ANYWHERE and request.set_aside is None)
    return sorted(accepted, key=handled_us)


def _first_after(accepted: Sequence[GroupRequest], load_us: int, places: Places) -> int:
    """The index of the first request that the new coordinator took: it may be answered before the load is logged."""
    first = sum(request.logged.ready_us < load_us for request in accepted)
    while (
        0 < first < len(accepted)
        and load_us - accepted[first - 1].logged.ready_us < HAND_OVER_US
        and places.of(accepted[first - 1]) == places.of(accepted[first])
    ):
        first -= 1
    return first


def _logged_loads(moves: Sequence[BrokerLine]) -> list[tuple[BrokerLine, int | None]]:
    """The loads that are told, each with the time of the unload before it."""
    loads: list[tuple[BrokerLine, int | None]] = []
    unload_ms = None
    for line in moves:
        if isinstance(line.event, GroupLoaded):
            loads.append((line, unload_ms))
            unload_ms = None
        else:
            unload_ms = line.time_ms
    return loads


def _load(
    before: GroupRequest, after: GroupRequest | None, line: BrokerLine, unload_ms: int | None, places: Places
) -> Load:
    loaded_us = line.time_ms * 1000
    last_us = unload_ms * 1000 if unload_ms is not None else places.last_heard_us(before, after, loaded_us)
    return Load(from_us=_from(before, last_us, loaded_us), loaded_us=loaded_us, broker_id=line.broker)


def _inferred(before: GroupRequest, after: GroupRequest, refusals: Sequence[GroupRequest], places: Places) -> Load:
    first_us = after.logged.handled_us
    of_new = [request for request in refusals if places.of(request) == places.of(after)]
    last = max((request for request in of_new if _refused_us(request) <= first_us), default=None, key=_refused_us)
    from_us = _from(before, places.last_heard_us(before, after, first_us), first_us)
    loaded_us, refused_us = first_us - RETRY_US, from_us
    if last is not None:
        is_loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in last.error_codes
        refused_us = _refused_us(last)
        loaded_us = max(min(loaded_us, refused_us + RETRY_US) if is_loading else loaded_us, refused_us)
    not_before_us = max(refused_us, from_us)
    return Load(
        from_us=from_us, loaded_us=max(loaded_us, from_us), not_before_us=not_before_us, not_after_us=first_us
    )  # fmt: skip


def _from(before: GroupRequest, last_us: int, loaded_us: int) -> int:
    """The old coordinator's end: after its last answer to the group, before the load."""
    return max(min(last_us, loaded_us), before.logged.handled_us) + 1


def _refused_between(
    refusals: Sequence[GroupRequest], before: GroupRequest, after: GroupRequest, places: Places
) -> list[GroupRequest]:
    """Requests that the group's broker refused between two that it took."""
    known_places = (places.of(before), places.of(after))
    first = bisect_right(refusals, before.logged.handled_us, key=_refused_us)
    last = bisect_right(refusals, after.logged.handled_us, key=_refused_us)
    return [refusal for refusal in refusals[first:last] if places.of(refusal) in known_places]


def _refused_us(request: GroupRequest) -> int:
    """Return when a request was refused. While a group is loaded that is at once, however late its answer is sent; the
    request that waits in a group is refused when its coordinator moves."""
    logged = request.logged
    return logged.handled_us if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in request.error_codes else logged.ready_us


def waited_for_move(request: GroupRequest, loads: Sequence[Load]) -> bool:
    """Return whether a request that was refused had reached the group, and waited until its coordinator moved."""
    logged = request.logged
    return (
        request.refused_as_coordinator
        and logged.api in MAY_BE_PARKED
        and logged.ready_us - logged.handled_us > logged.local_us + HAND_OVER_US
        and any(logged.handled_us < load.from_us <= logged.ready_us + LATE_MS * 1000 for load in loads)
    )
