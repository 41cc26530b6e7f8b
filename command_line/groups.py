"""`groups`: the groups as they are now, from the compacted assignments topic, in the words of kafka-consumer-groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from command_line import words
from command_line.errors import CommandError
from command_line.options import CONNECTION, Settings, with_settings
from command_line.tables import aligned, say
from command_line.topic_reader import end_offsets, partition_count, read_topic
from schemas.events import encode_json
from schemas.history import GroupSnapshot, decode_snapshot
from schemas.java_hash import group_partition
from schemas.records import OffsetCommitKey, OffsetCommitValue, decode_record
from schemas.wire import DecodeError
from streaming.config import StreamingConfig

_NONE = "-"
_REBALANCING = ("PreparingRebalance", "CompletingRebalance")

Offsets = dict[tuple[str, int], OffsetCommitValue]
Ends = dict[tuple[str, int], int]


@with_settings(*CONNECTION)
def groups(
    settings: Settings,
    group: Annotated[str | None, typer.Option("--group", metavar="ID", help="Describe this group: partitions, owners, lag.")] = None,
    members: Annotated[bool, typer.Option("--members", help="Of --group: its members and what they hold.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Of --group: its state. Without --group: the state of all.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """List groups, or describe one: what `kafka-consumer-groups` shows, for groups of this coordinator.

    Examples:

        group-coordinator groups
        group-coordinator groups --group billing
        group-coordinator groups --group billing --members
        group-coordinator groups --json | jq 'select(.state != "Stable")'
    """
    config = settings.config
    if members and group is None:
        raise CommandError("--members describes one group: name it by --group.", exit_code=2)
    if members and state:
        raise CommandError("Choose one of --members and --state.", exit_code=2)
    snapshots = read_snapshots(config)
    if group is None:
        lines = _json_lines(snapshots) if as_json else _list(snapshots)
    else:
        found = next((each for each in snapshots if each.group_id == group), None)
        if found is None:
            raise CommandError(f"Consumer group '{group}' does not exist.")
        offsets = read_offsets(config, group) if not (members or state) else {}
        ends = end_offsets(config.client_properties, offsets.keys() | _owners(found).keys()) if not (members or state) else {}
        if as_json:
            lines = iter([encode_json(_with_offsets(found, offsets, ends)).decode()])
        else:
            _warn(found)
            lines = _members(found) if members else _state(found) if state else _partitions(found, offsets, ends)
    for text in lines:
        say(text)


def read_snapshots(config: StreamingConfig) -> list[GroupSnapshot]:
    """The groups as the assignments topic has them, by id. A repeated older record does not undo a newer one."""
    latest: dict[str, GroupSnapshot] = {}
    for message in read_topic(config.client_properties, config.topic_settings.topics.assignments):
        group_id = (message.key() or b"").decode(errors="replace")
        value = message.value()
        if value is None:
            latest.pop(group_id, None)
            continue
        try:
            snapshot = decode_snapshot(value)
        except msgspec.DecodeError as problem:
            raise CommandError(f"{message.topic()}, offset {message.offset()}: not a group of ours ({problem}).") from problem
        before = latest.get(group_id)
        if before is None or (before.epoch, before.seq) <= (snapshot.epoch, snapshot.seq):
            latest[group_id] = snapshot
    return [latest[group_id] for group_id in sorted(latest)]


def read_offsets(config: StreamingConfig, group_id: str) -> Offsets:
    """The committed offsets of one group, from the partition of the offsets topic where Kafka's hash puts it."""
    topic = config.topic_settings.topics.offsets
    partition = group_partition(group_id, partition_count(config.client_properties, topic))
    offsets: Offsets = {}
    for message in read_topic(config.client_properties, topic, [partition]):
        try:
            key, value = decode_record(message.key() or b"", message.value())
        except DecodeError:
            continue
        if isinstance(key, OffsetCommitKey) and key.group_id == group_id:
            if isinstance(value, OffsetCommitValue):
                offsets[key.topic, key.partition] = value
            else:
                offsets.pop((key.topic, key.partition), None)
    return offsets


# -------------------------------------------------------------------------------------------------------------- tables


def _list(snapshots: list[GroupSnapshot]) -> Iterator[str]:
    rows = [
        (each.group_id, each.state, len(each.members), each.generation_id, each.protocol_name or _NONE, _since(each))
        for each in snapshots
    ]
    return aligned(("GROUP", "STATE", "#MEMBERS", "GENERATION", "ASSIGNMENT-STRATEGY", "SINCE (UTC)"), rows)


def _state(snapshot: GroupSnapshot) -> Iterator[str]:
    header = ("GROUP", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "GENERATION", "LEADER", "SINCE (UTC)")
    row = (
        snapshot.group_id, snapshot.protocol_name or _NONE, snapshot.state, len(snapshot.members),
        snapshot.generation_id, snapshot.leader_id or _NONE, _since(snapshot),
    )  # fmt: skip
    return aligned(header, [row])


def _members(snapshot: GroupSnapshot) -> Iterator[str]:
    static = any(each.group_instance_id for each in snapshot.members)
    header = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    rows = [
        [
            snapshot.group_id, each.member_id, each.group_instance_id or _NONE, each.client_host, each.client_id,
            sum(len(topic.partitions) for topic in each.partitions or ()),
            ", ".join(f"{topic.topic}({words.ranges(topic.partitions)})" for topic in each.partitions or ()) or _NONE,
        ]
        for each in snapshot.members
    ]  # fmt: skip
    if not static:
        del header[2]
        for row in rows:
            del row[2]
    return aligned(header, rows)


def _partitions(snapshot: GroupSnapshot, offsets: Offsets, ends: Ends) -> Iterator[str]:
    header = (
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    )  # fmt: skip
    owners = _owners(snapshot)
    rows = []
    for topic, partition in sorted(offsets.keys() | owners.keys()):
        committed, end = offsets.get((topic, partition)), ends.get((topic, partition))
        owner = owners.get((topic, partition), (_NONE, _NONE, _NONE))
        lag = _lag(committed, end)
        rows.append(
            (
                snapshot.group_id, topic, partition, _NONE if committed is None else committed.offset,
                _NONE if end is None else end, _NONE if lag is None else lag, *owner,
            )
        )  # fmt: skip
    return aligned(header, rows)


def _lag(committed: OffsetCommitValue | None, end: int | None) -> int | None:
    """How many records are still to be read; None when that cannot be known. A log that was made anew is no negative lag."""
    return None if committed is None or end is None else max(0, end - committed.offset)


def _owners(snapshot: GroupSnapshot) -> dict[tuple[str, int], tuple[str, str, str]]:
    """Partition -> consumer id, host, client id."""
    return {
        (topic.topic, partition): (member.member_id, member.client_host, member.client_id)
        for member in snapshot.members
        for topic in member.partitions or ()
        for partition in topic.partitions
    }


def _since(snapshot: GroupSnapshot) -> str:
    return f"{words.day(snapshot.state_since_ms)} {words.clock(snapshot.state_since_ms)}"


def _warn(snapshot: GroupSnapshot) -> None:
    """What kafka-consumer-groups says before its table."""
    if snapshot.state in _REBALANCING:
        say(f"Warning: Consumer group '{snapshot.group_id}' is rebalancing.\n", error=True)
    elif not snapshot.members:
        say(f"Consumer group '{snapshot.group_id}' has no active members.\n", error=True)


# ---------------------------------------------------------------------------------------------------------------- JSON


def _json_lines(snapshots: list[GroupSnapshot]) -> Iterator[str]:
    return (encode_json(_readable(each)).decode() for each in snapshots)


def _readable(snapshot: GroupSnapshot) -> dict[str, Any]:
    """A snapshot without the blobs, which `partitions` has decoded."""
    plain: dict[str, Any] = msgspec.to_builtins(snapshot)
    for member in plain["members"]:
        del member["metadata"], member["assignment"]
    return plain


def _with_offsets(snapshot: GroupSnapshot, offsets: Offsets, ends: Ends) -> dict[str, Any]:
    owners = _owners(snapshot)
    partitions = [
        {
            "topic": topic,
            "partition": partition,
            "current_offset": committed.offset if (committed := offsets.get((topic, partition))) else None,
            "log_end_offset": ends.get((topic, partition)),
            "lag": _lag(committed, ends.get((topic, partition))),
            "metadata": committed.metadata if committed else None,
            "commit_timestamp_ms": committed.commit_timestamp_ms if committed else None,
            "consumer_id": owners.get((topic, partition), (None,))[0],
        }
        for topic, partition in sorted(offsets.keys() | owners.keys())
    ]
    return _readable(snapshot) | {"offsets": partitions}
