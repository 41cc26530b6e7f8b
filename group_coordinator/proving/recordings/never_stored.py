"""What a coordinator did and never stored: a load of the group undoes it.

A broker that stood still may have lost its partitions meanwhile. When it goes on, its timers fire before it learns so:
members expire, are answered that they are unknown, and its log tells of it. None of it is written, and the broker that
loads the group, often the same one, has those members still.

It is shown by a member that goes on after the load though it was gone, and by a generation that would have ended. A
group of which nothing shows it is taken for another one of the same broker, of which something does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.proving.recordings.coordinator_log import REJOINED, LogEntry
from group_coordinator.proving.recordings.expectations import STORED_MS, Load
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.loads import Places, accepted_of, handled_us
from group_coordinator.proving.recordings.recorded_groups import HAND_OVER_US
from group_coordinator.proving.recordings.session_ends import answers_of
from schemas.error_codes import ErrorCode
from schemas.messages import JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest, SyncGroupRequest

NEVER_STORED = "the broker answered as a coordinator whose changes were never stored"
_STORED = OffsetCommitRequest | SyncGroupRequest | LeaveGroupRequest
_OF_REQUESTS = frozenset({"group converted", "epoch bumped", "target computed", "member joined", REJOINED})
"""What only a request leads to, or what it may lead to among other things."""
_BY_STANDSTILL_US = 2 * 1_000_000
"""So soon after a standstill members are gone by it."""


class _Candidate(Struct):
    """A load before which members were gone."""

    group_id: str
    number: int
    load: Load
    """As it is, if it undid that."""
    place: object
    gone_us: int
    """When the first of them was gone."""
    is_shown: bool | None
    """None: nothing shows whether it did."""


def with_undone(
    groups: Mapping[str, Sequence[GroupRequest]],
    loads: Mapping[str, list[Load]],
    entries: Mapping[str, Sequence[LogEntry]],
    standstills_ms: Sequence[tuple[int, int]],
    places: Places,
) -> dict[str, list[Load]]:
    """Return the loads of all groups, those that undid something with the time since which they did.

    `entries` of brokers' logs, by group. `standstills_ms`: from when until when the brokers counted no time.
    """
    candidates = [
        candidate
        for group_id, of_group in loads.items()
        if of_group
        for candidate in _candidates(
            group_id, accepted_of(groups[group_id]), of_group, entries.get(group_id, ()), standstills_ms, places
        )
    ]
    shown = [candidate for candidate in candidates if candidate.is_shown]
    undone = {group_id: list(of_group) for group_id, of_group in loads.items()}
    for candidate in candidates:
        if candidate.is_shown or (candidate.is_shown is None and any(_are_alike(candidate, other) for other in shown)):
            undone[candidate.group_id][candidate.number] = candidate.load
    return undone


def with_unstored(
    groups: Mapping[str, Sequence[GroupRequest]], loads: Mapping[str, list[Load]]
) -> dict[str, list[Load]]:
    """Return the loads, with what they undid where an assignment could not be stored any more: its leader was refused,
    and the group did not have that generation later."""
    return {
        group_id: [_with_unstored(groups[group_id], load) for load in of_group] for group_id, of_group in loads.items()
    }


def _with_unstored(requests: Sequence[GroupRequest], load: Load) -> Load:
    for request in requests:
        body, logged = request.request, request.logged
        if (
            isinstance(body, SyncGroupRequest)
            and body.assignments
            and request.refused_as_coordinator
            and logged.handled_us < load.from_us < logged.handled_us + STORED_MS * 1000
            and not _is_generation_kept(requests, body.generation_id, load)
        ):
            return replace(load, from_us=logged.handled_us, undone_from_us=logged.handled_us)
    return load


def _is_generation_kept(requests: Sequence[GroupRequest], number: int, load: Load) -> bool:
    """Return whether what came after a load shows that the group had this generation."""
    for request in accepted_of(requests):
        if request.logged.ready_us >= load.loaded_us and request.error_codes <= {ErrorCode.NONE}:
            became = _generation(request)
            if became is not None:
                return became > number
            if getattr(request.request, "generation_id", -1) >= number:
                return True
    return False


def is_undone(request: GroupRequest, loads: Sequence[Load]) -> bool:
    """Return whether a load of its group undid what a request was refused for."""
    is_refused = bool(request.error_codes - {ErrorCode.NONE})
    return is_refused and any(_has(load, request.logged.ready_us) for load in loads)


def kept_entries(entries: Sequence[LogEntry], loads: Sequence[Load]) -> list[LogEntry]:
    """Return the lines of brokers' logs without those of what a load undid: also of requests that an old coordinator
    took last, and never answered."""
    return [
        entry
        for entry in entries
        if not any(_has(load, entry.time_ms * 1000) or _took_last(load, entry) for load in loads)
    ]


def _took_last(load: Load, entry: LogEntry) -> bool:
    is_told = load.broker_id is not None and load.from_us < entry.time_ms * 1000 < load.loaded_us - HAND_OVER_US
    return is_told and (entry.kind in _OF_REQUESTS or entry.cause in _OF_REQUESTS)


def _has(load: Load, us: int) -> bool:
    return load.undone_from_us is not None and load.undone_from_us <= us < load.loaded_us - HAND_OVER_US


def _are_alike(first: _Candidate, second: _Candidate) -> bool:
    """Return whether members were gone from both while one broker had lost its partitions."""
    return first.place == second.place and _has(second.load, first.gone_us) and _has(first.load, second.gone_us)


def _candidates(
    group_id: str,
    accepted: Sequence[GroupRequest],
    loads: Sequence[Load],
    entries: Sequence[LogEntry],
    standstills_ms: Sequence[tuple[int, int]],
    places: Places,
) -> Iterator[_Candidate]:
    for number, load in enumerate(loads):
        before, after = _parted(accepted, load)
        stored_us = (each.logged.handled_us for each in before if _is_stored(each))
        began_us = (begin_ms * 1000 for begin_ms, _ in standstills_ms if begin_ms * 1000 < load.loaded_us)
        since_us = max((loads[number - 1].loaded_us if number else 0, *stored_us, *began_us))
        gone = _gone(before[bisect_left(before, since_us, key=handled_us) :], entries, since_us, load)
        if not gone or not before:
            continue
        from_us = gone_us = min(gone.values())
        for begin_ms, end_ms in standstills_ms:
            if begin_ms * 1000 < from_us <= end_ms * 1000 + _BY_STANDSTILL_US:
                from_us = begin_ms * 1000
        last_us = max((each.logged.handled_us for each in before if each.error_codes <= {ErrorCode.NONE}), default=0)
        undone = replace(load, from_us=max(from_us, last_us + 1), undone_from_us=from_us)
        is_shown = _is_shown(gone, before[: bisect_left(before, from_us, key=handled_us)], after)
        yield _Candidate(group_id, number, undone, places.of(before[-1]), gone_us, is_shown)


def _parted(accepted: Sequence[GroupRequest], load: Load) -> tuple[list[GroupRequest], list[GroupRequest]]:
    """Return what the old coordinator answered, and what the new one did."""
    parts: tuple[list[GroupRequest], list[GroupRequest]] = [], []
    for request in accepted:
        parts[request.logged.ready_us >= load.loaded_us - HAND_OVER_US].append(request)
    return parts


def _is_stored(request: GroupRequest) -> bool:
    """Return whether a request was answered when its record was stored: all that came before it was stored, too."""
    return isinstance(request.request, _STORED) and request.error_codes <= {ErrorCode.NONE}


def _gone(
    requests: Sequence[GroupRequest], entries: Sequence[LogEntry], since_us: int, load: Load
) -> dict[str, int]:
    """Return who was gone before a load, and since when, as the old coordinator had it."""
    gone: dict[str, int] = {}
    for request in requests:
        if ErrorCode.UNKNOWN_MEMBER_ID in request.error_codes:
            for member_id, _ in answers_of(request):
                gone.setdefault(member_id, request.logged.handled_us)
    for entry in entries:
        if entry.kind == "member expired" and since_us < entry.time_ms * 1000 <= load.loaded_us:
            gone |= {
                member_id: min(entry.time_ms * 1000, gone.get(member_id, load.loaded_us))
                for member_id in entry.member_ids
            }
    return gone


def _is_shown(
    gone: Mapping[str, int], before: Sequence[GroupRequest], after: Sequence[GroupRequest]
) -> bool | None:
    """Return whether what came after a load shows that it undid their end: True, or False, or neither."""
    was = max((number for request in before if (number := _generation(request)) is not None), default=None)
    became = next((number for request in after if (number := _generation(request)) is not None), None)
    signs = [became <= was] if was is not None and became is not None and became != was + 1 else []
    heard: dict[str, bool] = {}
    for request in after:
        for member_id, answer in answers_of(request):
            heard.setdefault(member_id, answer.is_well)
    signs += [heard[member_id] for member_id in gone if member_id in heard]
    return any(signs) if signs else None


def _generation(request: GroupRequest) -> int | None:
    """Return the generation that a JoinGroup began, or came back into."""
    is_join = isinstance(request.request, JoinGroupRequest) and request.response.get("errorCode") == ErrorCode.NONE
    return int(request.response["generationId"]) if is_join else None
