"""Records of the responses topic, made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Message


class AnswerMessage(Message):
    """A record as a consumer gets it."""

    def __new__(cls, *_: object) -> AnswerMessage:
        return super().__new__(cls)

    def __init__(self, partition: int, offset: int, key: bytes, value: bytes, headers: Mapping[str, str]) -> None:
        self._values = partition, offset, key, value, headers

    def topic(self) -> str:
        return "coordinator.responses"

    def partition(self) -> int:
        return self._values[0]

    def offset(self) -> int:
        return self._values[1]

    def key(self) -> bytes:
        return self._values[2]

    def value(self) -> bytes:
        return self._values[3]

    def headers(self) -> list[tuple[str, str | bytes | None]]:
        return [(name, text.encode()) for name, text in self._values[4].items()]
