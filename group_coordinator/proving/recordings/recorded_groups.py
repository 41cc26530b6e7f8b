"""The steps of each group, as a request log tells them: what is replayed, and what the broker's side is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from group_coordinator.proving.recordings.commits_in_sight import CommitsInSight
from group_coordinator.proving.recordings.coordinator_log import LogEntry
from group_coordinator.proving.recordings.expectations import (
    CLOCK_MS,
    LONG_STALL_MS,
    MAY_BE_PARKED,
    PUNCTUAL_MS,
    Covered,
    Expected,
    Fact,
    Generation,
    Load,
    Step,
)
from group_coordinator.proving.recordings.group_facts import assigned_ms_of, resolutions_of
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.proving.recordings.request_lines import LoggedRequest
from group_coordinator.proving.recordings.session_ends import SessionEnds
from schemas.messages import JoinGroupRequest, SyncGroupRequest

_NEAR = 20
_ASSIGNED = "assignment received"
ROUNDING_US = 1_000
"""Times of lines are cut to milliseconds."""
HAND_OVER_US = 50_000
"""How long the coordinator's thread may need to take up what a handler gave it, on a busy machine."""


def steps_of(requests: Iterable[GroupRequest], entries: Iterable[LogEntry] | None = None) -> list[Step]:
    """Return one step for each request, with the times between which the broker handled it: where its log tells what
    the request led to, and that it came to it late, then."""
    told_us: dict[tuple[str, object], list[int]] = {}
    for entry in entries or ():
        about = entry.generation if entry.kind == _ASSIGNED else next(iter(entry.member_ids), None)
        told_us.setdefault((entry.kind, about), []).append(entry.time_ms * 1000)
    steps: list[Step] = []
    heartbeats: list[LoggedRequest] = []
    for index, request in enumerate(requests):
        logged = request.logged
        step = _step(index, request, told_us.get(_leads_to(request), ()))
        if logged.api == "ConsumerGroupHeartbeat":
            heartbeats.append(logged)
        elif logged.api == "ConsumerGroupDescribe":
            # What replicas do not have yet is not described; they had all that came before an answer to a member.
            answered_us = (each.handled_us for each in heartbeats[-_NEAR:] if each.ready_us <= logged.arrival_us)
            step.earliest_us = min(step.earliest_us, max(answered_us, default=step.earliest_us) + 1)
        steps.append(step)
    return steps


def _leads_to(request: GroupRequest) -> tuple[str, object]:
    body = request.request
    if isinstance(body, SyncGroupRequest) and body.assignments:
        return _ASSIGNED, body.generation_id
    if isinstance(body, JoinGroupRequest):
        return "rebalance starts", request.new_member_id or body.member_id
    return "", None


def _step(index: int, request: GroupRequest, told_us: Iterable[int]) -> Step:
    logged = request.logged
    latest_us = logged.ready_us + ROUNDING_US
    if logged.api in MAY_BE_PARKED:
        # When they were answered says little of when they were taken up.
        latest_us = min(latest_us, logged.handled_us + logged.local_us + HAND_OVER_US)
    late_us = [us for us in told_us if logged.handled_us + PUNCTUAL_MS * 1000 < us <= logged.ready_us]
    if logged.api == "SyncGroup":  # its line, too, may have been written late
        late_us += [us for us in told_us if 0 < logged.handled_us - CLOCK_MS * 1000 - us < LONG_STALL_MS * 1000]
    effect_us = next(iter(late_us), logged.handled_us)
    return Step(
        index=index,
        request=request,
        effect_us=effect_us,
        earliest_us=logged.arrival_us - ROUNDING_US,
        latest_us=max(latest_us, effect_us),
    )


def expected_of(
    requests: Sequence[GroupRequest],
    records: list[LoggedRecord] | None,
    entries: list[LogEntry] | None,
    loads: list[Load],
    facts: list[Fact],
    standstills_ms: Sequence[tuple[int, int]],
    covered: Covered,
) -> Expected:
    """Return the broker's side of one group."""
    undone_ms = [
        (load.undone_from_us // 1000, load.loaded_us // 1000) for load in loads if load.undone_from_us is not None
    ]
    expected = Expected(
        records=records,
        entries=entries,
        covered=covered,
        loads=loads,
        facts=facts,
        resolutions=resolutions_of(records or ()),
        assigned_ms=assigned_ms_of(records or ()),
        sessions=SessionEnds(requests, entries, standstills_ms, undone_ms),
        commits=CommitsInSight(requests),
    )
    for request in requests:
        if not isinstance(request.request, JoinGroupRequest):
            continue
        answer, instance_id = request.response, request.request.group_instance_id
        if answer.get("errorCode") == 0 and answer.get("leader"):  # a consumer group has none
            _add_generation(expected, request)
        if instance_id is not None and (member_id := request.new_member_id or request.request.member_id):
            expected.instances[member_id] = instance_id
    expected.generations.sort(key=lambda generation: generation.ready_us)
    return expected


def _add_generation(expected: Expected, request: GroupRequest) -> None:
    answer, ready_us = request.response, request.logged.ready_us
    number, leader = int(answer["generationId"]), str(answer["leader"])
    matching = (
        generation
        for generation in reversed(expected.generations)
        if (generation.number, generation.leader) == (number, leader)
    )
    generation = next(matching, None)
    if generation is None:
        generation = Generation(ready_us, number, leader)
        expected.generations.append(generation)
    generation.ready_us = min(generation.ready_us, ready_us)
    generation.members |= {str(member["memberId"]) for member in answer.get("members") or ()}
