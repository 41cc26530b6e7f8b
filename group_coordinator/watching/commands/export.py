"""`export offsets-topic`: all that a cluster keeps of its groups, in a file that `replay` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from confluent_kafka import KafkaException

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import Resolved, with_settings
from group_coordinator.command_line.progress import count_progress
from group_coordinator.command_line.tables import print_line
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.output_files import whole_file
from group_coordinator.ground.settings.connection import ConnectionSettings
from group_coordinator.watching.commands.observed_source import DUMP_SUFFIXES, is_dump
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.offsets_log import dump_line

if TYPE_CHECKING:
    from group_coordinator.watching.watch.offsets_topic import OffsetsTopicReader

_PROGRESS_EVERY = 1_000
_TIMEOUT_S = 10.0

_SETTINGS = ("bootstrap_servers", "kafka")


@with_settings(*_SETTINGS, of=ConnectionSettings)
def offsets_topic(
    settings: Resolved[ConnectionSettings],
    out: Annotated[Path, typer.Option(metavar="FILE", help="NAME.offsets.jsonl or NAME.offsets.jsonl.gz.")],
) -> None:
    """Write the offsets topic of a Kafka cluster, as far as it reaches now, into a file: the markers included.

    One JSON object a line, by partition and offset; keys and values in base64. It reads only, and joins no group.

    Examples:

        group-coordinator export offsets-topic --bootstrap-servers prod:9092 --out prod.offsets.jsonl.gz
        group-coordinator replay prod.offsets.jsonl.gz --in-process --report prod.html
    """
    from group_coordinator.watching.watch.offsets_topic import (  # it takes its time
        OffsetsTopicError,
        OffsetsTopicReader,
    )

    if not is_dump(out.name):
        raise CommandError(f"{out}: a dump's name ends with {' or '.join(DUMP_SUFFIXES)}.", WRONG_USE)
    try:
        with OffsetsTopicReader(settings.config.client_properties) as reader, whole_file(out) as write:
            count = _write(reader, write, _cluster_id(settings.config.client_properties))
    except (OffsetsTopicError, OSError) as problem:
        raise CommandError(str(problem)) from problem
    print_line(f"Wrote {words.count(count, 'record')} to {out}.")


def _cluster_id(properties: Mapping[str, str]) -> str | None:
    """None: the cluster does not tell, or its brokers do not answer."""
    with suppress(KafkaException):
        return new_admin_client(properties).list_topics(timeout=_TIMEOUT_S).cluster_id
    return None


def _write(reader: OffsetsTopicReader, write: Callable[[bytes], object], cluster_id: str | None) -> int:
    """Returns how many records there were."""
    count = 0
    with count_progress("reading the offsets topic") as advance:
        bounds = reader.bounds()
        total = sum(end - begin for begin, end in bounds.values())
        for number, record in reader.read(bounds):
            write(dump_line(number, record, None if count else cluster_id) + b"\n")
            count += 1
            if count % _PROGRESS_EVERY == 0:
                advance(count, total)
    return count
