"""What a coordinator of ours publishes of its groups: how they are now, and their history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from confluent_kafka import Message

from group_coordinator.command_line.errors import CommandError
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.ground.settings.connection import ReaderSettings
from schemas.history import GroupSnapshot, History, decode_history, decode_snapshot

T = TypeVar("T")


def read_snapshots(config: ReaderSettings) -> list[GroupSnapshot]:
    """Read the groups from the assignments topic, by id."""
    return [snapshot for snapshot in read_published(config) if snapshot.exists]


def read_published(config: ReaderSettings) -> list[GroupSnapshot]:
    """The same, with ids that have settings, but no group. A repeated older record does not undo a newer one."""
    latest: dict[str, GroupSnapshot] = {}
    for message in read_topic(config.client_properties, config.topics.assignments):
        group_id = (message.key() or b"").decode(errors="replace")
        if message.value() is None:
            latest.pop(group_id, None)
            continue
        snapshot = _decoded(message, decode_snapshot, "a group of ours")
        before = latest.get(group_id)
        if before is None or (before.epoch, before.seq) <= (snapshot.epoch, snapshot.seq):
            latest[group_id] = snapshot
    return [latest[group_id] for group_id in sorted(latest)]


def read_history(config: ReaderSettings) -> Iterator[History]:
    """Yield the history of all groups, in the order of its topic. Raises TopicReadError, CommandError."""
    for message in read_topic(config.client_properties, config.topics.history):
        if message.value() is not None:
            yield _decoded(message, decode_history, "a history record")


def _decoded(message: Message, decode: Callable[[bytes], T], what: str) -> T:
    try:
        return decode(message.value() or b"")
    except msgspec.DecodeError as problem:
        raise CommandError(f"{message.topic()}, offset {message.offset()}: not {what} ({problem}).") from problem
