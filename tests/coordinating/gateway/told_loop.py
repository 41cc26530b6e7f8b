"""An event loop and a producer that do what a test says, for the gateway's way to the coordinator."""

from __future__ import annotations

from typing import Any


class Producer:
    """Keeps what is sent. `sent`: topic, value, key and partition."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, bytes, int]] = []
        self.headers: list[list[tuple[str, str]]] = []
        """Of each."""
        self.on_delivery: list[Any] = []
        """Of each, what is called if Kafka does not take it."""
        self.is_full = False

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        partition: int,
        *,
        on_delivery: Any,
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        if self.is_full:
            raise BufferError
        self.on_delivery.append(on_delivery)
        self.headers.append(headers or [])
        self.sent.append((topic, value, key, partition))

    def poll(self, _: float) -> int:
        return 0

    flush = poll


class Loop:
    """Time that is told, and calls at once."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.to_call: Any = None

    def time(self) -> float:
        return self.now_s

    def call_later(self, _: float, call: Any) -> None:
        self.to_call = call

    def call_soon_threadsafe(self, call: Any, *arguments: Any) -> None:
        call(*arguments)

    call_soon = call_soon_threadsafe
