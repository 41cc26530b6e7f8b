"""Which source tells of a group, where request logs, a dump of the offsets topic and brokers' logs are given together.

Request logs tell most: who was waited for, what was refused. But a group that cannot be followed through them to the
end, whose owners they do not name, or whose records come out otherwise than they lie in the topic, is told as the
records and the brokers' logs tell it; of what no broker's log says, the requests still say who left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path

from group_coordinator.proving.recordings.expectations import NOTHING, Disagreement
from group_coordinator.proving.recordings.following import FollowedGroup, Following
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, MemberDeparted
from group_coordinator.watching.commands.observed_source import read_files
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.offsets_log import CommitRecord, Entry, LogRecord, OffsetsDump
from group_coordinator.watching.observed.stored_groups import CONNECT
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import TopicMetadata
from schemas.history import History
from schemas.messages import JoinGroupRequest, LeaveGroupMember, LeaveGroupRequest

_UNANSWERED_MS = 1_000
"""So long before the end of request logs a broker may have taken requests whose lines come later."""


def told_by_records(
    log: RequestLog,
    following: Following,
    dumps: Sequence[Path],
    broker_logs: Sequence[str],
    time_zone: tzinfo,
    compacted_until_ms: Mapping[int, int],
) -> tuple[History, ...]:
    """Return the history of the groups that records tell better than request logs. `compacted_until_ms`: until when the
    partitions of the dumps have not all records. Raises CommandError."""
    if not dumps:
        return ()
    dump, lines = read_files(dumps, broker_logs, time_zone)
    told = {(line.event.group_id, getattr(line.event, "member_id", None)) for line in lines.lines}
    leaves = [
        _line(request, member)
        for group in following.groups
        for request, member in _leaves(group)
        if (group.group_id, member.member_id) not in told
    ]
    gaps = _compacted(dump)
    of_groups = (entry for entry in dump.entries() if isinstance(entry, LogRecord | CommitRecord))
    partitions = {entry.group_id: entry.partition for entry in of_groups}
    names = {topic_id.replace("-", ""): name for topic_id, name in log.topic_ids().names.items()}
    observed = observe(dump.entries(), [*lines.lines, *leaves], {**lines.topic_names, **names})
    followed = {
        group.group_id
        for group in following.groups
        if is_whole(group, following.end_ms or 0, are_records_whole=partitions.get(group.group_id) not in gaps)
        or _begins_before(group, compacted_until_ms.get(partitions.get(group.group_id, -1), 0))
        or _goes_on(group, following.covered.records_until_ms)
    }
    return tuple(record for record in observed.history if record.group_id not in followed)


def is_whole(group: FollowedGroup, end_ms: int, *, are_records_whole: bool) -> bool:
    """Return whether request logs tell all of a group, as records and brokers' logs have it. `end_ms`: of the request
    logs. `are_records_whole`: nothing was compacted away, so that each has its record."""
    if len(group.parts) != 1:
        return False
    [part] = group.parts
    result = part.result
    is_inferred = any(step.gone_member_id is not None for step in result.steps)
    if part.beginning is not None or part.gap is not None or is_inferred or not _are_owners_named(group):
        return False
    return not any(
        disagreement.kind in ("answer", "log")
        or (disagreement.kind == "record" and are_records_whole and not _is_of_the_end(disagreement, end_ms))
        for disagreement in result.disagreements
    )


def _begins_before(group: FollowedGroup, compacted_ms: int) -> bool:
    """Return whether request logs have a group from its birth on, and records only since later: these know less."""
    is_known = bool(group.parts) and group.parts[0].beginning is None and _are_owners_named(group)
    return is_known and group.requests[0].logged.arrival_us // 1000 < compacted_ms


def _goes_on(group: FollowedGroup, records_until_ms: int) -> bool:
    """Return whether request logs have a group from its birth to their end, and the dump was taken before: it knows
    less, although it may name topics that are known by their ids here."""
    if group.requests[-1].logged.handled_us // 1000 <= records_until_ms:
        return False
    return [(part.beginning, part.gap) for part in group.parts] == [(None, None)] and not any(
        disagreement.kind in ("answer", "log") for disagreement in group.parts[0].result.disagreements
    )


def _is_of_the_end(disagreement: Disagreement, end_ms: int) -> bool:
    """Return whether it is a record that is missing when request logs end: the line of its request comes later."""
    return disagreement.here == NOTHING and disagreement.at_us >= (end_ms - _UNANSWERED_MS) * 1000


def _are_owners_named(group: FollowedGroup) -> bool:
    """Return whether request logs name all that members own. Assignments of Kafka Connect are not read there, and a
    consumer group knows a topic by its id alone once it is deleted."""
    known: set[str] = set()
    deleted: set[str] = set()
    for part in group.parts:
        for given in part.inputs:
            if isinstance(given.value, TopicMetadata):
                deleted |= known.intersection(given.value.absent)
                known |= {topic.name for topic in given.value.topics}
    bodies = [request.request for request in group.requests]
    if any(isinstance(body, JoinGroupRequest) and body.protocol_type == CONNECT for body in bodies):
        return False
    return not (deleted and any(isinstance(body, ConsumerGroupHeartbeatRequest) for body in bodies))


def _compacted(dump: OffsetsDump[Entry]) -> set[int]:
    """Return the partitions of which records are missing between others."""
    offsets: dict[int, list[int]] = {}
    for partition, offset in dump.places:
        offsets.setdefault(partition, []).append(offset)
    return {partition for partition, places in offsets.items() if len(places) <= max(places)}


def _leaves(group: FollowedGroup) -> Iterator[tuple[GroupRequest, LeaveGroupMember]]:
    """Yield who left by a request."""
    for request in group.requests:
        body = request.request
        if request.set_aside is None and isinstance(body, LeaveGroupRequest):
            results = request.response.get("members") or [{} for _ in body.members]
            for member, result in zip(body.members, results, strict=False):
                codes = (request.response.get("errorCode", 0), result.get("errorCode", 0))
                if member.member_id and codes == (ErrorCode.NONE, ErrorCode.NONE):
                    yield request, member


def _line(request: GroupRequest, member: LeaveGroupMember) -> BrokerLine:
    """Return what a broker's log would tell of it."""
    event = MemberDeparted(group_id=request.group_id, member_id=member.member_id, client_reason=member.reason)
    return BrokerLine(
        time_ms=request.logged.handled_us // 1000,
        broker=None,
        partition=None,
        file=request.file_name,
        number=request.logged.line_number,
        event=event,
        source="request_log",
    )
