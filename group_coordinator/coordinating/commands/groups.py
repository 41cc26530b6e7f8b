"""`groups`: the groups as they are now, in the words of kafka-consumer-groups: those of this coordinator, from its
compacted assignments topic, or those of a cluster's brokers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import Annotated

import typer

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.options import CONNECTION, ReaderOptions, with_settings
from group_coordinator.command_line.output_options import JsonLinesOption
from group_coordinator.command_line.tables import print_line, print_lines
from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.log_bounds import log_bounds
from group_coordinator.ground.kafka_topics.reader import partition_count, read_topic
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.watching.commands.brokers_groups import Asked, brokers_lines
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
from group_coordinator.watching.commands.whose_groups import Brokers, are_own
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
    brokers: Brokers = False,
    as_json: JsonLinesOption = False,
) -> None:
    """List groups, or describe one: what `kafka-consumer-groups` shows, of this coordinator's groups or the brokers'.

    Those of this coordinator are read from its topics, whether it runs or not; behind a responder these lag by a batch
    of Spark, two or three seconds. Those of brokers have lag and a verdict; `__consumer_offsets` is read for them.

    Examples:

        group-coordinator groups
        group-coordinator groups --bootstrap-servers prod:9092 --group billing
        group-coordinator groups --group billing
        group-coordinator groups --group billing --members --verbose
        group-coordinator groups --type consumer
        group-coordinator groups --json | jq 'select(.state != "Stable")'
    """
    config = settings.config
    _require_that_fits(group, members, state, verbose, group_type)
    snapshots: list[GroupSnapshot] = []

    def knows() -> bool:
        snapshots.extend(read_snapshots(config))
        return group is None or any(snapshot.group_id == group for snapshot in snapshots)

    if not are_own(config, brokers=brokers, knows=knows):
        asked = Asked(
            group_id=group, type=group_type, members=members, state=state, verbose=verbose, as_json=as_json
        )
        print_lines(brokers_lines(config, asked))
    elif group is None:
        wanted = [each for each in snapshots if group_type in (None, type_name(each).lower())]
        print_lines(json_lines(wanted) if as_json else list_lines(wanted))
    else:
        snapshot = next(each for each in snapshots if each.group_id == group)
        print_lines(_description(config, snapshot, members, state, verbose, as_json))


def _description(
    config: ReaderSettings, described: GroupSnapshot, members: bool, state: bool, verbose: bool, as_json: bool
) -> Iterator[str]:
    offsets = read_offsets(config, described.group_id) if not (members or state) else {}
    bounds = _bounds(config, offsets.keys() | owners_of(described).keys()) if not (members or state) else {}
    if as_json:
        return iter([json_with_offsets(described, offsets, bounds)])
    _warn(described)
    if members:
        return member_lines(described, verbose=verbose)
    return state_lines(described) if state else partition_lines(described, offsets, bounds)


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
