"""`rules`: by which version of Kafka a log's groups are decided."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator_state.kafka_versions import OF_OLD_LOGS, rules_named
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import CONNECTION, with_settings
from group_coordinator.command_line.output_options import JsonOption
from group_coordinator.command_line.tables import print_json, print_line
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.ground.kafka_topics.errors import explaining
from group_coordinator.ground.kafka_topics.reader import partition_count
from streaming.config import StreamingConfig
from streaming.events_tail import open_reader
from streaming.rules_records import last_rules, write_rules


@with_settings(*CONNECTION, of=StreamingConfig)
def rules(
    settings: Settings,
    new_rules: Annotated[
        str | None, typer.Option("--set", metavar="VERSION", help="The version of Kafka to go by from here on.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show by which version of Kafka groups are decided, or have them decided by another one from here on.

    The rules are part of the log, so a replay decides each event as it was decided. A log that was begun before there
    was a choice goes by 4.3. The coordinator and its responders take a change where it lies in the log; the query
    begins anew there, which takes a moment.

    Examples:

        group-coordinator rules
        group-coordinator rules --set 4.4
    """
    config, events = settings.config, settings.config.topics.events
    if new_rules is not None:
        try:
            rules_named(new_rules)
        except ValueError as problem:
            raise CommandError(str(problem), WRONG_USE) from None
    with explaining(config.client_properties):
        shards = range(partition_count(config.client_properties, events))
        if new_rules is not None:
            written = write_rules(config, shards, new_rules)
            found: dict[int, tuple[int, str] | None] = {shard: (offset, new_rules) for shard, offset in written.items()}
        else:
            with open_reader(config.client_properties) as reader:
                found = {shard: last_rules(reader, events, shard) for shard in shards}
    for shard, named in found.items():
        offset, version = (None, OF_OLD_LOGS) if named is None else named
        if as_json:
            print_json({"shard": shard, "rules": version, "from_offset": offset})
        else:
            since = "as its log names none" if offset is None else f"from offset {offset} on"
            print_line(f"Shard {shard} goes by {version}{', ' if offset is None else ' '}{since}.")
