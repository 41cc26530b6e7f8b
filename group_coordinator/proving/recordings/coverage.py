"""Of which time sources beside request logs tell: logs are rotated, dumps taken earlier, partitions compacted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from group_coordinator.proving.recordings.coordinator_log import EMPTY, CoordinatorLogs
from group_coordinator.proving.recordings.expectations import LATE_MS, Covered
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.loads import accepted_of, handled_us
from group_coordinator.proving.recordings.log_doubts import SHORTEST_SESSION_US, logs_that_end_early
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.watching.broker_logs.broker_lines import GroupUnloaded
from schemas.messages import OffsetCommitRequest

TAKEN_EARLIER = 3
"""With so many commits, or lines of groups that were left by all, behind its last record a dump was taken earlier; else
what seems to be missing at its end is."""

MOVED = "its coordinator is none any more, and the log of the next one is not here"
ENDED = "the log of its coordinator ends here, and those of other brokers go on"


def covered_of(
    groups: Mapping[str, Sequence[GroupRequest]],
    records: Mapping[str, list[LoggedRecord]],
    logs: CoordinatorLogs | None,
) -> Covered:
    """Return what is covered of all groups."""
    covered = Covered() if logs is None else Covered(entries_since_ms=logs.since_ms, entries_until_ms=logs.until_ms)
    last_ms = max((record.timestamp_ms for of_group in records.values() for record in of_group), default=0)
    later = sum(
        isinstance(request.request, OffsetCommitRequest) and not any(request.error_codes)
        for requests in groups.values()
        for request in requests
        if request.logged.handled_us > last_ms * 1000
    )
    for entries in () if logs is None else logs.entries.values():
        later += sum(entry.kind == EMPTY and entry.time_ms > last_ms + LATE_MS for entry in entries)
    return replace(covered, records_until_ms=last_ms) if last_ms and later >= TAKEN_EARLIER else covered


def whole_records(records: list[LoggedRecord], compacted_ms: int) -> tuple[list[LoggedRecord], int]:
    """Return the records behind the first pause in which a partition was compacted no more, and since when these are
    all that there were."""
    for before, after in pairwise(records):
        if before.timestamp_ms > compacted_ms and after.timestamp_ms - before.timestamp_ms > 2 * LATE_MS:
            since_ms = after.timestamp_ms - LATE_MS
            return [record for record in records if record.timestamp_ms >= since_ms], since_ms
    return [], 2**62


def ends_of(
    log: RequestLog, groups: Mapping[str, Sequence[GroupRequest]], logs: CoordinatorLogs | None
) -> dict[str, tuple[int, str]]:
    """Return by group from when on the log has nothing more of it, though it lives on, and why."""
    latest_us = (log.end_us or 0) - SHORTEST_SESSION_US
    unloaded = {
        group_id: (moves[-1].time_ms, MOVED)
        for group_id, moves in ({} if logs is None else logs.moves).items()
        if isinstance(moves[-1].event, GroupUnloaded)
        and moves[-1].time_ms * 1000 < latest_us
        and all(handled_us(request) < moves[-1].time_ms * 1000 for request in accepted_of(groups.get(group_id, ())))
    }
    moved = {
        group_id: (places.refused_us // 1000, MOVED)
        for group_id, places in log.contents.places.items()
        if places.refused_us is not None and places.refused_us < latest_us
    }
    ended = logs_that_end_early(log)
    return unloaded | moved | {group_id: (file.end_us // 1000, ENDED) for file in ended for group_id in file.groups}
