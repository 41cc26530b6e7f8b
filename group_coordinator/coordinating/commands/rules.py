"""`rules`: by which version of Kafka a log's groups are decided."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator_state.kafka_versions import OF_OLD_LOGS, rules_named
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import CONNECTION, with_settings
from group_coordinator.command_line.tables import print_line
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
            for shard, offset in write_rules(config, shards, new_rules).items():
                print_line(f"Shard {shard} goes by {new_rules} from offset {offset} on.")
            return
        with open_reader(config.client_properties) as reader:
            for shard in shards:
                if (found := last_rules(reader, events, shard)) is None:
                    print_line(f"Shard {shard} goes by {OF_OLD_LOGS}, as its log names none.")
                else:
                    print_line(f"Shard {shard} goes by {found[1]} from offset {found[0]} on.")
