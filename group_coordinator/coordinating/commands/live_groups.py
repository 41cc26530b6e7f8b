"""The groups as they change, followed on the assignments topic."""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Generic, NamedTuple, Self, TypeVar

import msgspec
from confluent_kafka import Message

from group_coordinator.ground.kafka_topics.errors import explaining
from group_coordinator.ground.kafka_topics.reader import TopicReader
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.watching.group_metrics.names import kept_name
from schemas.history import GroupSnapshot, decode_snapshot


class GroupSize(NamedTuple):
    """What a status line needs of a group. Whole groups may have a megabyte each."""

    state: str
    members: int


def group_size(snapshot: GroupSnapshot) -> GroupSize:
    """Return what is needed of a group."""
    return GroupSize(intern(snapshot.state), len(snapshot.members))


_Kept = TypeVar("_Kept")


class LiveGroups(Generic[_Kept]):
    """`poll` it; `groups` has what is kept of the groups as they are now."""

    def __init__(self, config: ReaderSettings, keep: Callable[[GroupSnapshot], _Kept]) -> None:
        """`keep`: what is kept of a group."""
        self.groups: dict[str, _Kept] = {}
        """By `kept_name`."""
        self._keep = keep
        properties = config.client_properties
        self._reader = TopicReader(properties, "reader", reports_ends=False, waits_at_the_end=True)
        with explaining(properties):
            partitions = self._reader.partitions(config.topics.assignments)
            self._reader.assign({partition: self._reader.bounds(*partition).begin for partition in partitions})

    def poll(self, timeout_s: float) -> None:
        """Take in what is new, waiting for it at most this long."""
        messages = self._reader.poll(timeout_s)
        while messages:
            for message in messages:
                if message.error() is None:
                    self._take(message)
            messages = self._reader.poll(0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def _take(self, message: Message) -> None:
        value = message.value()
        try:
            snapshot = None if value is None else decode_snapshot(value)
            if snapshot is None or not snapshot.exists:
                self.groups.pop(kept_name((message.key() or b"").decode(errors="replace")), None)
            else:
                self.groups[kept_name(snapshot.group_id)] = self._keep(snapshot)
        except msgspec.DecodeError:
            return  # somebody else's record; it is no business of a display
