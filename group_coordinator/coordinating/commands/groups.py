"""`groups`: the groups as they are now, from the compacted assignments topic, in the words of kafka-consumer-groups."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

import typer

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.options import CONNECTION, ReaderOptions, with_settings
from group_coordinator.command_line.tables import print_line
from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.log_bounds import log_bounds
from group_coordinator.ground.kafka_topics.reader import partition_count, read_topic
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.watching.commands.group_tables import (
    holder_lines,
    json_lines,
    json_with_offsets,
    list_lines,
    member_lines,
    owners_of,
    partition_lines,
    state_lines,
    type_name,
)
from group_coordinator.watching.commands.published_groups import read_snapshots
from schemas.group_states import REBALANCING
from schemas.history import GroupSnapshot
from schemas.java_hash import group_partition
from schemas.records import OffsetCommitKey, OffsetCommitValue, decode_record
from schemas.wire import DecodeError


class GroupType(StrEnum):
    """Of groups."""

    classic = "classic"
    consumer = "consumer"


Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", help="With --members: epochs, and what each member shall own. --state has epochs anyway."
    ),
]


@with_settings(*CONNECTION, of=ReaderSettings)
def groups(
    settings: ReaderOptions,
    group: Annotated[
        str | None, typer.Option("--group", metavar="ID", help="Describe this group: partitions, owners, lag.")
    ] = None,
    members: Annotated[bool, typer.Option("--members", help="Of --group: its members and what they hold.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Of --group: its state. Without --group: of all.")] = False,
    verbose: Verbose = False,
    group_type: Annotated[GroupType | None, typer.Option("--type", help="List groups of this type only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """List groups, or describe one: what `kafka-consumer-groups` shows, for groups of this coordinator.

    They are read from the coordinator's topics, whether it runs or not. Where a responder answers, these topics lag
    behind the answers by a batch of Spark, two or three seconds.

    Examples:

        group-coordinator groups
        group-coordinator groups --group billing
        group-coordinator groups --group billing --members --verbose
        group-coordinator groups --type consumer
        group-coordinator groups --json | jq 'select(.state != "Stable")'
    """
    config = settings.config
    _require_that_fits(group, members, state, verbose, group_type)
    snapshots = read_snapshots(config)
    if group_type is not None:
        snapshots = [snapshot for snapshot in snapshots if type_name(snapshot).lower() == group_type]
    if group is None:
        lines = json_lines(snapshots) if as_json else list_lines(snapshots)
    else:
        described = _described(snapshots, group)
        offsets = read_offsets(config, group) if not (members or state) else {}
        bounds = _bounds(config, offsets.keys() | owners_of(described).keys()) if not (members or state) else {}
        if as_json:
            lines = iter([json_with_offsets(described, offsets, bounds)])
        else:
            _warn(described)
            lines = (
                member_lines(described, verbose=verbose)
                if members
                else state_lines(described)
                if state
                else partition_lines(described, offsets, bounds)
            )
    for text in lines:
        print_line(text)


def _described(snapshots: list[GroupSnapshot], group_id: str) -> GroupSnapshot:
    """Return the group of this id. Raises CommandError."""
    for snapshot in snapshots:
        if snapshot.group_id == group_id:
            return snapshot
    raise CommandError(f"Consumer group '{group_id}' does not exist.")


def _require_that_fits(
    group: str | None, members: bool, state: bool, verbose: bool, group_type: GroupType | None
) -> None:
    """Raise CommandError for options that say nothing together."""
    if members and group is None:
        raise CommandError("--members describes one group: name it by --group.", exit_code=2)
    if members and state:
        raise CommandError("Choose one of --members and --state.", exit_code=2)
    if verbose and not (members or state):
        raise CommandError("--verbose is for --members and --state.", exit_code=2)
    if group_type is not None and group is not None:
        raise CommandError("--type lists groups: leave out --group.", exit_code=2)


def read_offsets(config: ReaderSettings, group_id: str) -> dict[tuple[str, int], OffsetCommitValue]:
    """Read the committed offsets of one group, from the partition of the offsets topic where Kafka's hash puts it."""
    topic = config.topics.offsets
    partition = group_partition(group_id, partition_count(config.client_properties, topic))
    offsets: dict[tuple[str, int], OffsetCommitValue] = {}
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


def _bounds(config: ReaderSettings, partitions: Collection[Partition]) -> dict[Partition, Bounds]:
    admin = new_admin_client(config.client_properties)
    return log_bounds(admin, partitions)


def _warn(snapshot: GroupSnapshot) -> None:
    """Print the line that kafka-consumer-groups prints before its table."""
    if snapshot.state in REBALANCING:
        print_line(f"Warning: Consumer group '{snapshot.group_id}' is rebalancing.", error=True)
        for line in holder_lines(snapshot):
            print_line(line, error=True)
        print_line(error=True)
    elif not snapshot.members:
        print_line(f"Consumer group '{snapshot.group_id}' has no active members.", error=True)
        print_line(error=True)
