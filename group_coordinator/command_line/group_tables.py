"""Groups as tables, with the columns and words of kafka-consumer-groups, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from group_coordinator.command_line.tables import aligned
from group_coordinator.kafka_topics.bounds import Bounds
from group_coordinator.narrative import words
from schemas.events import encode_json
from schemas.history import GroupSnapshot
from schemas.records import OffsetCommitValue

_NONE = "-"

Offsets = Mapping[tuple[str, int], OffsetCommitValue]
"""(topic, partition) -> what is committed."""
LogBounds = Mapping[tuple[str, int], Bounds]
"""(topic, partition) -> where its log begins and ends."""


def list_lines(snapshots: list[GroupSnapshot]) -> Iterator[str]:
    """Yields all groups, a line each."""
    rows = [
        (
            snapshot.group_id,
            snapshot.state,
            len(snapshot.members),
            snapshot.generation_id,
            snapshot.protocol_name or _NONE,
            _since(snapshot),
        )
        for snapshot in snapshots
    ]
    return aligned(("GROUP", "STATE", "#MEMBERS", "GENERATION", "ASSIGNMENT-STRATEGY", "SINCE (UTC)"), rows)


def state_lines(snapshot: GroupSnapshot) -> Iterator[str]:
    """Return the table of one group's state."""
    header = ("GROUP", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "GENERATION", "LEADER", "SINCE (UTC)")
    row = (
        snapshot.group_id, snapshot.protocol_name or _NONE, snapshot.state, len(snapshot.members),
        snapshot.generation_id, snapshot.leader_id or _NONE, _since(snapshot),
    )  # fmt: skip
    return aligned(header, [row])


def member_lines(snapshot: GroupSnapshot) -> Iterator[str]:
    """Return the table of one group's members; the instance ids have a column where there are any."""
    static = any(member.group_instance_id for member in snapshot.members)
    header = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    rows = [
        [
            snapshot.group_id, member.member_id, member.group_instance_id or _NONE,
            member.client_host, member.client_id,
            sum(len(topic.partitions) for topic in member.partitions or ()),
            ", ".join(f"{topic.topic}({words.ranges(topic.partitions)})" for topic in member.partitions or ()) or _NONE,
        ]
        for member in snapshot.members
    ]  # fmt: skip
    if not static:
        del header[2]
        for row in rows:
            del row[2]
    return aligned(header, rows)


def partition_lines(snapshot: GroupSnapshot, offsets: Offsets, bounds: LogBounds) -> Iterator[str]:
    """Return the table of one group's partitions: those with an owner, and those with a committed offset."""
    header = (
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    )  # fmt: skip
    owners = owners_of(snapshot)
    rows = []
    for topic, partition in sorted(offsets.keys() | owners.keys()):
        committed, log = offsets.get((topic, partition)), bounds.get((topic, partition))
        owner = owners.get((topic, partition), (_NONE, _NONE, _NONE))
        lag = _lag(committed, log)
        rows.append(
            (
                snapshot.group_id, topic, partition, _NONE if committed is None else committed.offset,
                _NONE if log is None else log.end, _NONE if lag is None else lag, *owner,
            )
        )  # fmt: skip
    return aligned(header, rows)


def _lag(committed: OffsetCommitValue | None, log: Bounds | None) -> int | None:
    """Return the number of messages that are still to be read; None if it cannot be known."""
    return None if committed is None or log is None else log.unread(committed.offset)


def owners_of(snapshot: GroupSnapshot) -> dict[tuple[str, int], tuple[str, str, str]]:
    """Return consumer id, host and client id of each partition's owner."""
    return {
        (topic.topic, partition): (member.member_id, member.client_host, member.client_id)
        for member in snapshot.members
        for topic in member.partitions or ()
        for partition in topic.partitions
    }


def _since(snapshot: GroupSnapshot) -> str:
    """Return the real time: the group's clock lies behind it after a pause."""
    behind_ms = 0 if snapshot.timestamp_ms is None else snapshot.timestamp_ms - snapshot.time_ms
    since_ms = snapshot.state_since_ms + behind_ms
    return f"{words.day(since_ms)} {words.clock(since_ms)}"


# ---------------------------------------------------------------------------------------------------------------- JSON


def json_lines(snapshots: list[GroupSnapshot]) -> Iterator[str]:
    """Return a JSON object for each group."""
    return (encode_json(_readable(snapshot)).decode() for snapshot in snapshots)


def _readable(snapshot: GroupSnapshot) -> dict[str, Any]:
    """A snapshot without the blobs, which `partitions` has decoded."""
    plain: dict[str, Any] = msgspec.to_builtins(snapshot)
    for member in plain["members"]:
        del member["metadata"], member["assignment"]
    return plain


def json_with_offsets(snapshot: GroupSnapshot, offsets: Offsets, bounds: LogBounds) -> str:
    """Return one group as a JSON object, with its offsets."""
    owners = owners_of(snapshot)
    partitions = [
        {
            "topic": topic,
            "partition": partition,
            "current_offset": committed.offset if (committed := offsets.get((topic, partition))) else None,
            "log_start_offset": log.begin if (log := bounds.get((topic, partition))) else None,
            "log_end_offset": log.end if log else None,
            "lag": _lag(committed, log),
            "metadata": committed.metadata if committed else None,
            "commit_timestamp_ms": committed.commit_timestamp_ms if committed else None,
            "consumer_id": owners.get((topic, partition), (None,))[0],
        }
        for topic, partition in sorted(offsets.keys() | owners.keys())
    ]
    return encode_json(_readable(snapshot) | {"offsets": partitions}).decode()
