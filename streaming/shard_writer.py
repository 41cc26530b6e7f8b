"""Appends records to one shard's partition of topics, and waits until they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, Message, Producer


class ShardWriter:
    """One thread's writer."""

    def __init__(self, producer: Producer, shard: int, is_wanted: Callable[[], bool]) -> None:
        """`is_wanted`: False ends a wait for a Kafka that takes nothing."""
        self._producer, self._shard, self._is_wanted = producer, shard, is_wanted

    def append(self, topic: str, records: Iterable[tuple[bytes, bytes | None]]) -> list[int] | None:
        """Return the records' offsets; None unless the shard's partition of the topic has appended all of them."""
        offsets: list[int | None] = []

        def written(number: int) -> Callable[[KafkaError | None, Message], None]:
            def on_delivery(error: KafkaError | None, message: Message) -> None:
                if error is None:
                    offsets[number] = message.offset()

            return on_delivery

        for key, value in records:
            offsets.append(None)
            on_delivery = written(len(offsets) - 1)
            while self._is_wanted():
                try:
                    self._producer.produce(topic, key=key, value=value, partition=self._shard, on_delivery=on_delivery)
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if not self._is_wanted():
                return None
        self._producer.flush()
        appended = [offset for offset in offsets if offset is not None]
        return appended if len(appended) == len(offsets) else None
