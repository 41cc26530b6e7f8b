"""Groups as tables, with the columns and words of kafka-consumer-groups, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from group_coordinator.command_line.tables import aligned
from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.watching.history.holding import holders_of, target_of
from group_coordinator.watching.narrative import holding, words
from schemas.events import encode_json
from schemas.history import AssignedTopic, GroupSnapshot, SnapshotMember
from schemas.records import OffsetCommitValue

_NONE = "-"
_SINCE = "SINCE (UTC)"
PARTITION_COLUMNS = (
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
)  # fmt: skip

Offsets = Mapping[tuple[str, int], OffsetCommitValue]
"""(topic, partition) -> what is committed."""
LogBounds = Mapping[tuple[str, int], Bounds]
"""(topic, partition) -> where its log begins and ends."""


def list_lines(snapshots: list[GroupSnapshot]) -> Iterator[str]:
    """Yields all groups, a line each."""
    rows = [
        (
            snapshot.group_id,
            type_name(snapshot),
            snapshot.state,
            len(snapshot.members),
            snapshot.generation_id,
            snapshot.protocol_name or _NONE,
            _since(snapshot),
        )
        for snapshot in snapshots
    ]
    return aligned(("GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION/EPOCH", "ASSIGNMENT-STRATEGY", _SINCE), rows)


def state_lines(snapshot: GroupSnapshot) -> Iterator[str]:
    """Return the table of one group's state: of a consumer group with its epochs, which stand for generation and
    leader."""
    if snapshot.is_consumer_group:
        names = ("GROUP", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS", _SINCE)
        values = (
            snapshot.group_id, snapshot.protocol_name or _NONE, snapshot.state, snapshot.generation_id,
            _epoch(snapshot), len(snapshot.members), _since(snapshot),
        )  # fmt: skip
        return aligned(names, [values])
    header = ("GROUP", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "GENERATION", "LEADER", _SINCE)
    row = (
        snapshot.group_id, snapshot.protocol_name or _NONE, snapshot.state, len(snapshot.members),
        snapshot.generation_id, snapshot.leader_id or _NONE, _since(snapshot),
    )  # fmt: skip
    return aligned(header, [row])


def type_name(snapshot: GroupSnapshot) -> str:
    """Return the group's type as Kafka's tools print it."""
    return "Consumer" if snapshot.is_consumer_group else "Classic"


def _epoch(snapshot: GroupSnapshot) -> int | str:
    return _NONE if snapshot.assignment_epoch is UNSET else snapshot.assignment_epoch


def member_lines(snapshot: GroupSnapshot, *, verbose: bool = False) -> Iterator[str]:
    """Return the table of one group's members; the instance ids have a column where there are any.

    With `verbose` it has the columns of kafka-consumer-groups: epochs, and the target beside what each member has.
    """
    static = any(member.group_instance_id for member in snapshot.members)
    header = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    header += _VERBOSE if verbose else ["ASSIGNMENT"]
    migrates = verbose and len({_is_upgraded(member) for member in snapshot.members}) > 1
    header += ["UPGRADED"] if migrates else []
    rows = [
        [
            snapshot.group_id, member.member_id, member.group_instance_id or _NONE,
            member.client_host, member.client_id,
            sum(len(topic.partitions) for topic in member.partitions or ()),
            *(_way(snapshot, member) if verbose else [_ranges(member.partitions)]),
            *([str(_is_upgraded(member)).lower()] if migrates else []),
        ]
        for member in snapshot.members
    ]  # fmt: skip
    if not static:
        del header[2]
        for row in rows:
            del row[2]
    return aligned(header, rows)


_VERBOSE = ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]


def _way(snapshot: GroupSnapshot, member: SnapshotMember) -> list[object]:
    """Return what a member has and shall have, with the epochs of both. Classic groups have neither epochs nor
    targets."""
    owned = _partitions(member.partitions)
    if member.consumer is UNSET:
        return [_NONE, owned, _NONE, _NONE]
    return [member.consumer.member_epoch, owned, _epoch(snapshot), _partitions(target_of(member))]


def _is_upgraded(member: SnapshotMember) -> bool:
    return member.consumer is not UNSET and not member.consumer.uses_classic_protocol


def _ranges(topics: tuple[AssignedTopic, ...] | None) -> str:
    return ", ".join(f"{topic.topic}({words.ranges(topic.partitions)})" for topic in topics or ()) or _NONE


def _partitions(topics: tuple[AssignedTopic, ...] | None) -> str:
    """As kafka-consumer-groups prints them: `orders:0,1;payments:2`."""
    texts = [f"{topic.topic}:{','.join(map(str, sorted(topic.partitions)))}" for topic in topics or ()]
    return ";".join(sorted(texts)) or _NONE


def holder_lines(snapshot: GroupSnapshot) -> Iterator[str]:
    """Yield who must give up partitions, since when, and who waits for them."""
    for holder in holders_of(snapshot):
        told_ms = None if holder.told_ms is None else holder.told_ms + _behind_ms(snapshot)
        yield f"{holding.sentence(holder, told_ms)}."


def partition_lines(snapshot: GroupSnapshot, offsets: Offsets, bounds: LogBounds) -> Iterator[str]:
    """Return the table of one group's partitions: those with an owner, and those with a committed offset."""
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
    return aligned(PARTITION_COLUMNS, rows)


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
    since_ms = snapshot.state_since_ms + _behind_ms(snapshot)
    return f"{words.day(since_ms)} {words.clock(since_ms)}"


def _behind_ms(snapshot: GroupSnapshot) -> int:
    """Return how far the group's clock lies behind."""
    return 0 if snapshot.timestamp_ms is None else snapshot.timestamp_ms - snapshot.time_ms


# ---------------------------------------------------------------------------------------------------------------- JSON


def json_lines(snapshots: list[GroupSnapshot]) -> Iterator[str]:
    """Return a JSON object for each group."""
    return (encode_json(_readable(snapshot)).decode() for snapshot in snapshots)


def _readable(snapshot: GroupSnapshot) -> dict[str, Any]:
    """A snapshot without the blobs, which `partitions` has decoded."""
    plain: dict[str, Any] = {"type": type_name(snapshot)} | msgspec.to_builtins(snapshot)
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
