"""The dashboard's *What if* plays a group's log of events, from the events topic or from the source of a replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from coordinator_state import GroupConfig
from coordinator_state.kafka_versions import OF_OLD_LOGS
from group_coordinator.command_line.errors import EXPECTED, CommandError, message_and_exit_code
from group_coordinator.coordinating.assignors import load_assignors
from group_coordinator.coordinating.commands.spark_jvm import require_spark
from group_coordinator.ground.kafka_topics.reader import partition_count, read_topic
from group_coordinator.proving.recordings.broker_settings import FORMER_RULES, RULES
from group_coordinator.proving.what_if.group_log import group_log
from group_coordinator.proving.what_if.what_if import play, repetitions
from group_coordinator.watching.dashboard.notes import NOTE_FILE, Note
from group_coordinator.watching.dashboard.what_if import GroupPlay, ReplayFunction
from schemas.java_hash import group_partition
from schemas.records_file import Record
from streaming.config import StreamingConfig

RECORDS_MAX = 5_000_000
"""Of the events topic that are read for one answer."""
EVENTS_FILE = "events.jsonl.gz"
"""Beside it: the events, where they were made of another system's log."""

Log = tuple[GroupConfig, Iterable[Record]]
"""Records of an events topic, and the settings that they were coordinated with."""


class ReplayedLog(Note, frozen=True, kw_only=True):
    """A replay notes its log for later."""

    files: tuple[str, ...] = ()
    """Files of events; absolute, or beside the note."""
    topic: str | None = None
    group: GroupConfig


def of_topics(config: StreamingConfig) -> ReplayFunction:
    """Play the log on a coordinator's events topic."""
    return _player(lambda group_id: _of_topic(config, config.topics.events, config.group, group_id))


def of_directory(directory: Path, config: StreamingConfig) -> ReplayFunction | None:
    """Play what a replay into this directory read; return None if the replay did not note what that was."""
    try:
        noted = _noted((directory / NOTE_FILE).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    topic = noted.topic
    if topic is not None:
        return _player(lambda group_id: _of_topic(config, topic, noted.group, group_id))
    return _player(lambda group_id: (noted.group, _of_files([directory / name for name in noted.files])))


def _noted(note: bytes) -> ReplayedLog:
    """Decode a note. One of an earlier release names the rules otherwise, or not at all. Raises DecodeError."""
    noted, group = msgspec.json.decode(note, type=ReplayedLog), msgspec.json.decode(note).get("group", {})
    rules = group.get(RULES) or group.get(FORMER_RULES) or OF_OLD_LOGS
    return msgspec.structs.replace(noted, group=noted.group.under(rules))


def _player(log_of: Callable[[str], Log]) -> ReplayFunction:
    def play_again(group_id: str) -> GroupPlay:
        try:
            config, records = log_of(group_id)
            log = group_log(records, group_id, config.tick_ahead_bound_ms)
        except EXPECTED as problem:
            raise ValueError(message_and_exit_code(problem)[0]) from problem
        assignors = load_assignors()
        return GroupPlay(
            play=lambda change, repetition: play(log, config, assignors, change, repetition),
            repetitions=repetitions(log),
        )

    return play_again


def _of_topic(config: StreamingConfig, topic: str, group: GroupConfig, group_id: str) -> Log:
    count = partition_count(config.client_properties, topic)
    return dataclasses.replace(group, shard_count=count), _records(config, topic, group_partition(group_id, count))


def _records(config: StreamingConfig, topic: str, partition: int) -> Iterator[Record]:
    messages = read_topic(config.client_properties, topic, [partition])
    for message in islice(messages, RECORDS_MAX):
        key, value = message.key(), message.value()
        yield Record(
            partition=partition, offset=message.offset(), timestamp_ms=message.timestamp()[1], key=key, value=value
        )
    if next(messages, None) is not None:
        raise CommandError(
            f"Partition {partition} of {topic} has more than {RECORDS_MAX:,} events. Replay the stretch that matters, "
            "and look at that."
        )


def _of_files(files: list[Path]) -> Iterator[Record]:
    require_spark(java=False)
    from streaming.event_log import EventLogError, read_records

    try:
        yield from read_records(files)
    except EventLogError as problem:
        raise CommandError(f"What was replayed cannot be read any more. {problem}") from problem
