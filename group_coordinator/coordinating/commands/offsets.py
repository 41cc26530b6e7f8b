"""`offsets`: committed offsets out of this coordinator, as of any moment, and onto a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from group_coordinator.command_line import doubts
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import CONNECTION, ReaderOptions, with_settings
from group_coordinator.command_line.tables import aligned, print_line
from group_coordinator.command_line.times import parse_moment_ms
from group_coordinator.coordinating.commands.committed_offsets import (
    CommittedOffsets,
    CsvError,
    OffsetsAsOf,
    at_end,
    from_csv,
    of_groups,
    to_csv,
)
from group_coordinator.coordinating.commands.offsets_target import Plan, Target
from group_coordinator.ground.kafka_topics.errors import explaining
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.ground.monitoring.printable import printable, printable_lines
from group_coordinator.ground.output_files import read_output
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.watching.dashboard.notes import note_of
from schemas.history import decode_history
from schemas.wire import DecodeError

Pair = tuple[bytes, bytes | None]
Groups = Annotated[
    list[str] | None, typer.Option("--group", metavar="ID", help="Of this group only; repeatable. [default: all]")
]


@with_settings(*CONNECTION, of=ReaderSettings)
def export(
    settings: ReaderOptions,
    group: Groups = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="As of this moment: a date and time, or milliseconds since 1970. [default: now]",
        ),
    ] = None,
    replayed: Annotated[
        Path | None,
        typer.Option("--replayed", metavar="DIR", help="From the output of `replay --out DIR`, not from the topics."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to this file. [default: standard output]")
    ] = None,
) -> None:
    """Committed offsets as CSV that `kafka-consumer-groups --reset-offsets --from-file` takes.

    The lines are topic,partition,offset when one --group is named, and group,topic,partition,offset otherwise.
    A moment in the past is told by the history topic, which must reach back to it. Where a responder answers, the
    topics lag behind the answers by a batch of Spark, two or three seconds.

    Examples:

        group-coordinator offsets export --out offsets.csv
        group-coordinator offsets export --group billing --at 2026-11-21T14:00+01:00
        group-coordinator offsets export --replayed replayed/ --at 2026-11-21T14:00 --out before.csv
    """
    source = _Replayed(replayed) if replayed is not None else _Topics(settings.config)
    now = _committed(source.offsets_log())
    all_offsets = now if at is None else _as_of(source, parse_moment_ms("--at", at, is_of_today=replayed is None), now)
    chosen = of_groups(all_offsets, group or ())
    missing = [topic for topic in group or () if topic not in chosen]
    if missing:
        raise CommandError(
            f"Consumer group '{printable(missing[0])}' had no committed offsets{f' at {at}' if at else ''}."
        )
    for line in doubts.lines(() if replayed is None else note_of(replayed).doubts):
        print_line(line, error=True)  # standard output is for the data
    text = to_csv(chosen, with_group=len(group or ()) != 1)
    if out is None:
        # A pipe gets the data as they are, a terminal what does it no harm.
        sys.stdout.write(text if not sys.stdout.isatty() else printable_lines(text))
    else:
        out.write_text(text, encoding="utf-8")
        print_line(f"Wrote {text.count(chr(10))} offsets of {len(chosen)} groups to {out}.")


@with_settings("bootstrap_servers", "kafka", of=ReaderSettings)
def load(
    settings: ReaderOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV as `export` writes it.")],
    group: Groups = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it. Without this, what would change is shown.")
    ] = False,
) -> None:
    """Committed offsets from CSV onto a cluster, by its admin API: any Kafka, or this coordinator through its gateway.

    Shows before and after of every partition; --execute commits them. The groups must have no members, and the
    partitions must exist; otherwise nothing at all is done.

    Examples:

        group-coordinator offsets import offsets.csv --bootstrap-servers other:9092
        group-coordinator offsets import offsets.csv --bootstrap-servers other:9092 --execute
        group-coordinator offsets import billing.csv --group billing --bootstrap-servers other:9092
    """
    try:
        offsets = from_csv(file.read_text(encoding="utf-8"), group or ())
    except UnicodeDecodeError:
        raise CommandError(f"{file} is no text: it should be CSV, as offsets export writes.", WRONG_USE) from None
    except CsvError as problem:
        raise CommandError(f"{file}: {problem}.", WRONG_USE) from None
    properties = settings.config.client_properties
    target = Target(properties)
    with explaining(properties):
        plan = target.plan(offsets)
    for text in _lines(plan):
        print_line(text)
    if plan.problems:
        raise CommandError("\n".join([*plan.problems, "Nothing was changed."]))
    changed_count = sum(change.before != change.after for change in plan.changes)
    if not execute:
        print_line()
        print_line(f"Nothing was changed: --execute would commit {changed_count} offsets of {len(offsets)} groups.")
        return
    refusals = target.apply(plan.changes)
    if refusals:
        raise CommandError("\n".join(["Not all offsets were committed:", *refusals]))
    print_line()
    print_line(f"Committed {changed_count} offsets of {len(offsets)} groups.")


def _lines(plan: Plan) -> Iterator[str]:
    rows = [
        (
            change.group_id,
            change.topic,
            change.partition,
            "-" if change.before is None else change.before,
            change.after,
            change.note,
        )
        for change in plan.changes
    ]
    return aligned(("GROUP", "TOPIC", "PARTITION", "BEFORE", "AFTER", ""), rows)


# ------------------------------------------------------------------------------------------------------- where from


class _Topics:
    """The topics of a coordinator."""

    def __init__(self, config: ReaderSettings) -> None:
        self._config = config
        self._topics = config.topics

    def offsets_log(self) -> Iterator[Pair]:
        for message in read_topic(self._config.client_properties, self._topics.offsets):
            yield message.key() or b"", message.value()

    def history(self, at_ms: int) -> Iterator[bytes]:
        """Read the history topic. Raises CommandError when the topic does not reach back to the moment."""
        is_first = True
        for message in read_topic(self._config.client_properties, self._topics.history):
            if is_first and (message.offset() or 0) > 0 and message.timestamp()[1] > at_ms:
                since = (
                    datetime.fromtimestamp(message.timestamp()[1] / 1_000).astimezone().isoformat(timespec="seconds")
                )
                raise CommandError(
                    f"{self._topics.history} begins at {since}: what was committed before that moment is known no more."
                )
            is_first = False
            yield message.value() or b""


class _Replayed:
    """The output files of a replay."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def offsets_log(self) -> Iterator[Pair]:
        for record in read_output(self._directory, "offsets"):
            yield record.key or b"", record.value

    def history(self, at_ms: int) -> Iterator[bytes]:
        for record in read_output(self._directory, "history"):
            yield record.value or b""


def _committed(records: Iterable[Pair]) -> CommittedOffsets:
    """Return the offsets committed at the end of an offsets log."""
    try:
        return at_end(records)
    except DecodeError as problem:
        raise CommandError(f"The offsets log has a damaged record ({problem}).") from None


def _as_of(source: _Topics | _Replayed, at_ms: int, now: CommittedOffsets) -> CommittedOffsets:
    as_of = OffsetsAsOf(at_ms)
    for value in source.history(at_ms):
        try:
            as_of.take(decode_history(value))
        except msgspec.DecodeError as problem:
            raise CommandError(f"The history has a damaged record ({problem}).") from None
    return as_of.offsets(now)
