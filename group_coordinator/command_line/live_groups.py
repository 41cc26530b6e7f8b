"""The groups as they change, followed on the assignments topic."""

from __future__ import annotations

from typing import Self

import msgspec
from confluent_kafka import Message

from group_coordinator.kafka_topics.errors import explaining
from group_coordinator.kafka_topics.reader import TopicReader
from schemas.history import GroupSnapshot, decode_snapshot
from streaming.config import StreamingConfig


class LiveGroups:
    """`poll` it; `snapshots` has the groups as they are now."""

    def __init__(self, config: StreamingConfig) -> None:
        self.snapshots: dict[str, GroupSnapshot] = {}
        properties = config.client_properties
        self._reader = TopicReader(properties, "reader", reports_ends=False, waits_at_the_end=True)
        with explaining(properties):
            partitions = self._reader.partitions(config.topic_settings.topics.assignments)
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
                self.snapshots.pop((message.key() or b"").decode(errors="replace"), None)
            else:
                self.snapshots[snapshot.group_id] = snapshot
        except msgspec.DecodeError:
            return  # somebody else's record; it is no business of a display
