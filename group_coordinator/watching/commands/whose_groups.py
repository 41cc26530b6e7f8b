"""Whose groups a command is asked about: those of this project's coordinator, or those of the cluster's brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from group_coordinator.command_line.tables import print_line
from group_coordinator.ground.kafka_topics.errors import NoSuchTopicError
from group_coordinator.ground.kafka_topics.reader import partition_count
from group_coordinator.ground.settings.connection import ReaderSettings

Brokers = Annotated[
    bool, typer.Option("--brokers", help="The groups that the brokers coordinate, also where this coordinator runs.")
]


def are_own(config: ReaderSettings, *, brokers: bool, knows: Callable[[], bool] = lambda: True) -> bool:
    """Return whether the groups are those of this project's coordinator, and say on standard error whose they are.

    They are where its history topic is. `brokers`: those of the brokers are wanted. `knows`: it knows the group that
    is asked about, if it is one; the others are the brokers' own. Raises TopicReadError.
    """
    where, topic = config.bootstrap_servers, config.topics.history
    if brokers:
        return False
    try:
        partition_count(config.client_properties, topic)
    except NoSuchTopicError:
        print_line(f"The groups are those of the brokers: {where} has no topic {topic}.", error=True)
        return False
    if knows():
        print_line(f"The groups are those of the coordinator that writes {topic} at {where}.", error=True)
        return True
    print_line(f"The coordinator that writes {topic} at {where} has no such group: the brokers are asked.", error=True)
    return False
