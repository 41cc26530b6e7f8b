"""`responder`: answers ahead of the query, in processes of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.options import DryRun, with_settings
from group_coordinator.command_line.signals import stop_requested
from group_coordinator.command_line.tables import print_lines
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.coordinating.commands.responder_operations import (
    ResponderHealth,
    responder_metrics,
    status_line,
)
from group_coordinator.coordinating.commands.spark_jvm import end_jvm, java_cause, require_spark
from group_coordinator.coordinating.jars.java import SHORT_LIVED
from group_coordinator.ground.kafka_topics.reader import partition_count
from streaming.config import StreamingConfig
from streaming.stored_group import Groups, ShardState, StateInPieces

if TYPE_CHECKING:
    from group_coordinator.coordinating.responder.processes import ResponderProcesses

_LINE_INTERVAL_S = 10.0
_POLL_S = 0.25


@with_settings(of=StreamingConfig)
def responder(settings: Settings, dry_run: DryRun = False) -> None:
    """Answer requests within milliseconds, ahead of a coordinator that runs elsewhere.

    A responder decides the same log with the same core, and writes answers only. The coordinator's query stays the
    record: it writes the same answers later, and compares. Give this command the settings of the coordinator, with
    `responders` on, and access to its checkpoint: a responder begins with the state of the query. It refuses to answer
    for a coordinator of another release or with other settings. It may be killed at any time; then answers come at
    the query's speed. On the coordinator's machine give it a `metrics_port` and a `health_file` of its own.

    `run --responder` runs responders beside the query.

    Examples:

        group-coordinator responder --config-file coordinator.toml
        group-coordinator responder --config-file coordinator.toml --shard 3
    """
    if dry_run:
        print_lines(settings.lines())
        return
    require_spark()
    config = settings.config.changed(responders=True)
    output = CommandOutput(config.log_format, config.log_level)
    with output.log_failures(), stop_requested() as asked:
        from group_coordinator.coordinating.responder.processes import ResponderProcesses

        partitions = topic_partitions(config)
        processes = ResponderProcesses(config, partitions, lambda shard: _read_state(config, shard), are_apart=True)
        health = ResponderHealth(Path(config.health_file) if config.health_file else None)
        with responder_metrics(config, health, lambda: processes.statuses) as published:
            for sentence in published:
                output.write(sentence)
            output.write(f"Reading the state of {config.checkpoint} ...")
            processes.start()
            try:
                _watch(processes, health, output, asked)
            finally:
                output.write("Stopping.")
                processes.stop()


def topic_partitions(config: StreamingConfig) -> dict[str, int]:
    """Return the partitions that the topics have. Raises TopicReadError, and CommandError if they are not those of the
    setting: a shard would have no responder, and nothing say so."""
    names = config.topics
    topics = (names.events, names.responses, names.offsets, names.progress)
    partitions = {topic: partition_count(config.client_properties, topic) for topic in topics}
    if partitions[names.events] != config.shards:
        raise CommandError(
            f"{names.events} has {partitions[names.events]} partitions but --shards is {config.shards}: each partition "
            "is one shard. Give this command the coordinator's settings."
        )
    return partitions


def _watch(
    processes: ResponderProcesses, health: ResponderHealth, output: CommandOutput, asked: threading.Event
) -> None:
    """Say now and then how it is going, until somebody asks for the end."""
    next_line_s = time.monotonic()
    while not asked.wait(_POLL_S):
        health.look(processes.statuses)
        if time.monotonic() >= next_line_s:
            next_line_s = time.monotonic() + _LINE_INTERVAL_S
            output.write(status_line(processes.statuses, processes.reports()))


def short_lived(config: StreamingConfig) -> StreamingConfig:
    """Return the settings of a JVM that ends within seconds. Options that the user has set stand alone: some exclude
    each other."""
    from streaming.session import JAVA_OPTIONS

    return config.changed(spark={JAVA_OPTIONS: " ".join(SHORT_LIVED), **config.spark})


def _read_state(config: StreamingConfig, shard: int) -> StateInPieces:
    """Read a shard's state in a JVM that ends when all of it is read: a responder needs none."""
    reading = _reading(config, shard)
    state = next(reading)
    assert isinstance(state, ShardState)
    return StateInPieces(state, cast("Generator[Groups]", reading))


def _reading(config: StreamingConfig, shard: int) -> Generator[ShardState | Groups]:
    """Yield the state without groups, and then these in pieces."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from streaming.session import open_session
    from streaming.shard_state import read_shard_state

    spark = open_session(short_lived(config))
    try:
        state, pieces = read_shard_state(spark, config, shard)
        yield state
        yield from pieces
    except (PySparkException, Py4JError) as problem:
        raise CommandError(java_cause(problem, config.spark)) from None  # while the JVM can still say it
    finally:
        spark.stop()
        end_jvm()
