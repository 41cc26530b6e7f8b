"""Notes tell a reader how a log was followed: orders that were searched, requests that were inferred, gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from group_coordinator.proving.recordings.expectations import PUNCTUAL_MS, Step
from group_coordinator.proving.recordings.following import FollowedGroup, Part
from group_coordinator.proving.recordings.order_search import GroupResult
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata


def notes_of(group: FollowedGroup) -> Iterator[str]:
    """Yield all notes, for those who compare."""
    if not group.parts:
        yield f"group {group.group_id}: it lived before the log began; no join phase tells all its members"
    timed_out = sum(request.write_timed_out for request in group.requests)
    if timed_out:
        yield (
            f"group {group.group_id}: {timed_out} requests were answered with COORDINATOR_NOT_AVAILABLE or "
            "REQUEST_TIMED_OUT after replicas did not follow in time; what they wrote counts"
        )
    for part in group.parts:
        for load in part.expected.loads:
            by = "a broker" if load.broker_id is None else f"broker {load.broker_id}"
            yield f"group {group.group_id}: {by} loaded it at {load.loaded_us // 1000}; sessions begin anew there"
        if part.beginning is not None:
            generation = part.beginning.group.generation_id
            since = "it lived before the log began; replayed" if part is group.parts[0] else "it is replayed again"
            yield f"group {group.group_id}: {since} from generation {generation} on"
        yield from _of_cluster(group.group_id, part)
        yield from _notes(part.result)
        if part.gap is not None:
            yield f"group {group.group_id}: it cannot be followed from {part.gap_from_ms} on: {part.gap.reason}"


def _of_cluster(group_id: str, part: Part) -> Iterator[str]:
    """What the group is told of the cluster: no line of the log tells it so."""
    told = Counter(type(item.value) for item in part.inputs)
    if told[TopicMetadata]:
        yield (
            f"group {group_id}: it is told {told[TopicMetadata]} times of topics that changed, when the log shows them "
            "to have done so"
        )
    if part.result.moved_facts:
        yield (
            f"group {group_id}: {part.result.moved_facts} of these changes had their effect somewhat before or after "
            "their line, as answers show"
        )
    if told[RegexesResolved]:
        source = "as in the offsets log" if part.expected.resolutions else "by the names of the topics that are known"
        yield (
            f"group {group_id}: its regular expressions are resolved {told[RegexesResolved]} times, {source}, right "
            "after the heartbeats that asked for it; the version of the cluster's topics in records of them is not "
            "compared"
        )
    if told[GroupConfiguration]:
        yield f"group {group_id}: it gets settings of its own {told[GroupConfiguration]} times"


def _notes(result: GroupResult) -> Iterator[str]:
    close = _close_neighbours(result.steps)
    if result.places:
        yield (
            f"group {result.group_id}: {close} of {len(result.steps)} requests lie within a millisecond of a "
            f"neighbour, where the log tells no order; at {result.places} places the likely order was changed for one "
            "that gives the broker's side"
        )
    if result.elections:
        yield (
            f"group {result.group_id}: {len(result.elections)} leaders that Kafka elected by the order of a hash map "
            f"are taken from the recording (generations {', '.join(map(str, sorted(result.elections)))})"
        )
    if result.latest_ms > PUNCTUAL_MS:
        yield f"group {result.group_id}: the broker fired timers up to {result.latest_ms} ms late"
    for step in result.steps:
        if step.inferred is not None:
            yield (
                f"group {result.group_id}: a request that is not in the log is inferred, as nothing else explains what "
                f"follows: {step.inferred}, taken to be at {step.effect_us // 1000}"
            )
    for index in result.late_lines:
        step = result.steps[index]
        logged = step.request.logged
        late_ms = (logged.handled_us - step.effect_us) / 1000
        yield (
            f"group {result.group_id}: line {logged.line_number} ({logged.api} of {logged.client_id}) was written "
            f"late: by the broker's other logs the request was handled {late_ms:.0f} ms before the line says"
        )


def _close_neighbours(steps: Sequence[Step]) -> int:
    arrivals = sorted(step.request.logged.arrival_us for step in steps)
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    return sum(min(before, after) <= 1_000 for before, after in zip([10**9, *gaps], [*gaps, 10**9], strict=True))
