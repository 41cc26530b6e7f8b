"""`explain`: why a group rebalanced, from its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from group_coordinator.command_line import doubts
from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.explanation import explanation
from group_coordinator.command_line.options import CONNECTION, Settings, with_settings
from group_coordinator.command_line.replay_output import read_history_files
from group_coordinator.command_line.tables import print_line
from group_coordinator.command_line.times import shown_zone
from group_coordinator.dashboard.sources import note_of
from group_coordinator.kafka_topics.reader import read_topic
from group_coordinator.narrative import words
from group_coordinator.narrative.rebalances import Rebalance, headline, rebalances
from group_coordinator.operations.printable import printable
from schemas.history import History, decode_history
from streaming.config import StreamingConfig

PREVIOUS_SHOWN = 20
OTHERS_SHOWN = 10


@with_settings(*CONNECTION)
def explain(
    settings: Settings,
    group: Annotated[str, typer.Option("--group", metavar="ID", help="The group.")],
    generation: Annotated[
        int | None, typer.Option(metavar="N", help="The rebalance that led to this generation. [default: the last one]")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="What a replay wrote. [default: the live history topic]"),
    ] = None,
    utc: Annotated[
        bool, typer.Option("--utc", help="Times in UTC. [default: the local time zone, or that of TZ]")
    ] = False,
) -> None:
    """Why did this group rebalance? The chain of causes in plain words, step by step.

    It says who set it off and why, who was told when, whom the others waited for, who was slow, who was dropped, and
    which partitions changed owner. Without --generation: the last rebalance, and a line for each one before it.

    Examples:

        group-coordinator explain --group billing
        group-coordinator explain --group billing --generation 7
        group-coordinator explain --group billing --from replayed/
    """
    zone = shown_zone(utc=utc)
    records = _of_topic(settings.config) if directory is None else read_history_files(directory)
    others: dict[str, None] = {}
    found = list(rebalances(_of_group(records, group, others)))
    for line in doubts.lines(() if directory is None else note_of(directory).doubts):
        print_line(line)
    if not found:
        where = "the history topic" if directory is None else str(directory)
        known = f"; there are {words.listed(list(map(printable, others)), OTHERS_SHOWN)}" if others else ""
        raise CommandError(f"There is no rebalance of a group '{printable(group)}' in {where}{known}.")
    chosen = found[-1] if generation is None else _of_generation(found, generation)
    if generation is None and len(found) > 1:
        for line in _before(found[:-1], zone):
            print_line(line)
        print_line()
    for line in explanation(chosen, zone):
        print_line(line)


def _of_topic(config: StreamingConfig) -> Iterator[History]:
    for message in read_topic(config.client_properties, config.topic_settings.topics.history):
        value = message.value()
        if value is None:
            continue
        try:
            yield decode_history(value)
        except msgspec.DecodeError as problem:
            raise CommandError(
                f"{message.topic()}, offset {message.offset()}: not a history record ({problem})."
            ) from problem


def _of_group(records: Iterable[History], group_id: str, others: dict[str, None]) -> Iterator[History]:
    """The records of one group; the ids of the others are noted."""
    for record in records:
        if record.group_id == group_id:
            yield record
        else:
            others[record.group_id] = None


def _of_generation(found: list[Rebalance], generation: int) -> Rebalance:
    """The last one of this generation: a group that died and came again counts from 1 once more."""
    for rebalance in reversed(found):
        if rebalance.generation_id == generation:
            return rebalance
    known = sorted({rebalance.generation_id for rebalance in found})
    raise CommandError(
        f"No rebalance of '{printable(found[0].started.group_id)}' led to generation {generation}; there are "
        f"{known[0]} to {known[-1]}."
    )


def _before(earlier: list[Rebalance], zone: tzinfo) -> Iterator[str]:
    shown = earlier[-PREVIOUS_SHOWN:]
    rest = len(earlier) - len(shown)
    yield "Before:" + (f" (the last {len(shown)} of {len(earlier)})" if rest else "")
    yield from (f"  {headline(rebalance, zone)}" for rebalance in shown)
